// The tuner's search against others, on simulated systems whose best configuration is known
// (tests/support/simulated_system.h), or on replayed measurements (tests/support/replayed_space.h).
//
//   bench_tune_search [--runs N] [--first SEED]
//   bench_tune_search --replay FILE [--rounds all|even|odd] [--trials N] [--runs N] [--first SEED]
//
// Each run on a simulated system has a tenth of the space's points, at most kMostTrials, as its budget of trials,
// calibration included; a replayed one as many as halving takes for all points, or --trials. Others (search_peers.h)
// have the same budget. Regret: what the chosen point costs above the best.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <set>

#include "analyzer/statistics.h"
#include "autotuner/paired.h"
#include "bench/search_peers.h"
#include "tests/support/replayed_space.h"
#include "tests/support/simulated_system.h"

namespace {

using ddl::testing::SimulatedBench;
using ddl::testing::SimulatedSystem;
using ddl::tune::Stage;

constexpr uint64_t kSystems = 20;
constexpr size_t kMostTrials = 60;

void print_paired(const char* name, const std::vector<double>& own, const std::vector<double>& other) {
  double mean = 0, squares = 0, sum = 0;
  for (size_t i = 0; i < own.size(); ++i)
    sum += other[i], mean += (other[i] - own[i]) / static_cast<double>(own.size());
  for (size_t i = 0; i < own.size(); ++i) squares += std::pow(other[i] - own[i] - mean, 2);
  const double half = ddl::student_t(static_cast<double>(own.size() - 1), ddl::tune::kConfidence) *
                      std::sqrt(squares / static_cast<double>(own.size() * (own.size() - 1)));
  fmt::print("  {:<18} mean regret {:6.2f} %, that is {:.2f} more than ours [{:.2f}, {:.2f}]\n", name,
             100 * sum / static_cast<double>(own.size()), 100 * mean, 100 * (mean - half), 100 * (mean + half));
}

void print_regrets(const std::string& name, const std::vector<double>& regrets, double trials) {
  double sum = 0, near = 0;
  for (const double regret : regrets) sum += regret, near += regret <= 0.05;
  const double count = static_cast<double>(regrets.size());
  fmt::print("  {:<44} mean regret {:6.2f} %, within 5 %: {:3.0f} %, trials {:.0f}\n", name, 100 * sum / count,
             100 * near / count, trials);
}

// The point believed best is what others' choices are compared with; what is recommended is that or, unless it was
// confirmed, the default.
void replay(const std::string& file, ddl::testing::ReplayedSpace::Rounds rounds, size_t allowed, uint64_t runs,
            uint64_t first) {
  const ddl::testing::ReplayedSpace space(file, rounds);
  const size_t trials = allowed != 0 ? allowed : ddl::bench::halving_trials(space.space().size());
  fmt::print("{}: {} points, {} recorded rounds, {} runs of {} trials; the default costs {:.0f} % more than the best\n",
             file, space.space().size(), space.rounds(), runs, trials, 100 * space.regret(0));
  std::vector<double> chosen, recommended;
  double used = 0;
  size_t confirmed = 0;
  for (uint64_t seed = first; seed < first + runs; ++seed) {
    const auto result = ddl::testing::tune_replayed(space, seed, trials);
    chosen.push_back(space.regret(result.best_seen));
    recommended.push_back(space.regret(result.winner));
    confirmed += result.winner != 0;
    used += static_cast<double>(result.trials.size()) / static_cast<double>(runs);
  }
  print_regrets("ours, believed best", chosen, used);
  print_regrets(fmt::format("ours, recommended (confirmed in {:.0f} %)",
                            100.0 * static_cast<double>(confirmed) / static_cast<double>(runs)),
                recommended, used);
  for (const ddl::bench::Peer& peer : ddl::bench::peers()) {
    std::vector<double> regrets;
    for (uint64_t seed = first; seed < first + runs; ++seed) {
      ddl::testing::ReplayedBench bench(space, seed, trials);
      regrets.push_back(space.regret(peer.search(space.space(), bench, trials, seed)));
    }
    print_paired(peer.name, chosen, regrets);
  }
}

int usage() {
  fmt::print(
      stderr,
      "usage: bench_tune_search [--replay FILE [--rounds all|even|odd] [--trials N]] [--runs N] [--first SEED]\n");
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  uint64_t runs = 1000, first = 500'000;
  size_t allowed = 0;
  std::string replayed, rounds = "all";
  for (int i = 1; i < argc; i += 2) {
    if (i + 1 == argc) return usage();
    if (std::strcmp(argv[i], "--runs") == 0)
      runs = std::strtoull(argv[i + 1], nullptr, 10);
    else if (std::strcmp(argv[i], "--first") == 0)
      first = std::strtoull(argv[i + 1], nullptr, 10);
    else if (std::strcmp(argv[i], "--trials") == 0)
      allowed = std::strtoull(argv[i + 1], nullptr, 10);
    else if (std::strcmp(argv[i], "--replay") == 0)
      replayed = argv[i + 1];
    else if (std::strcmp(argv[i], "--rounds") == 0)
      rounds = argv[i + 1];
    else
      return usage();
  }
  if (rounds != "all" && rounds != "even" && rounds != "odd") return usage();
  if (!replayed.empty()) {
    const size_t every = rounds == "all" ? 1 : 2;
    replay(replayed, {.first = rounds == "odd" ? size_t{1} : size_t{0}, .every = every}, allowed, runs, first);
    return 0;
  }
  std::vector<double> own;
  const std::vector<ddl::bench::Peer>& peers = ddl::bench::peers();
  std::vector<std::vector<double>> others(peers.size());
  size_t near = 0;
  for (uint64_t number = 0; number < kSystems; ++number) {
    const SimulatedSystem system(number);
    const size_t trials = std::min(kMostTrials, system.space().size() / 10);
    size_t near_here = 0, used = 0, count = 0, kept = 0;
    double regret = 0;
    for (uint64_t seed = first + number; seed < first + runs; seed += kSystems, ++count) {
      const auto result = ddl::testing::tune_system(system, seed, trials);
      own.push_back(system.regret(result.winner));
      near_here += own.back() <= 0.02;
      kept += result.winner == 0;
      regret += own.back();
      used += result.trials.size() + 1;  // the sweep
      for (size_t i = 0; i < peers.size(); ++i) {
        SimulatedBench bench(system, seed, trials);
        others[i].push_back(system.regret(peers[i].search(system.space(), bench, trials, seed)));
      }
    }
    near += near_here;
    fmt::print("{}\n  within 2 %: {} of {}, mean regret {:.2f} %, default kept {}, trials {:.1f} of {} allowed\n",
               system.words(), near_here, count, 100 * regret / static_cast<double>(count), kept,
               static_cast<double>(used) / static_cast<double>(count), trials);
  }
  size_t kept = 0;
  for (uint64_t seed = first; seed < first + runs; ++seed) {
    const SimulatedSystem system(seed % kSystems, true);
    kept += ddl::testing::tune_system(system, seed, std::min(kMostTrials, system.space().size() / 10)).winner == 0;
  }
  double sum = 0;
  for (const double one : own) sum += one;
  fmt::print("within 2 % of the best: {} of {} runs ({:.1f} %); mean regret {:.2f} %\n", near, runs,
             100.0 * static_cast<double>(near) / static_cast<double>(runs),
             100 * sum / static_cast<double>(own.size()));
  for (size_t i = 0; i < peers.size(); ++i) print_paired(peers[i].name, own, others[i]);
  fmt::print("where nothing helps the default is kept in {} of {} runs ({:.1f} %)\n", kept, runs,
             100.0 * static_cast<double>(kept) / static_cast<double>(runs));
  return 0;
}
