// Runs with faults of known cost: is the top finding the fault, and is nothing found in healthy ones?
//
//   injected_findings [--cases N] [--first SEED] [--kind NAME] [--show] [--keep FOLDER]
//
// --show tells the cases that went wrong, --keep leaves the last one's run directory.
// Prints the confusion matrix, and exits with 1 unless all goals are met. Seeds below kFirstReportedSeed are for tuning the rules; the
// tests use others (CMakeLists.txt).
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <future>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "analyzer/analyze.h"
#include "store/database.h"
#include "store/ingest.h"
#include "store/run_directory.h"
#include "tests/support/synthetic_run.h"
#include "tests/support/training_job.h"

namespace ddl::test {
namespace {

constexpr double kTopGoal = 0.95, kCleanGoal = 0.98;
constexpr size_t kAmong = 3;  // combinations: both must be among so many

struct Kind {
  const char* name;
  std::vector<Fault> faults;
};

const std::vector<Kind>& kinds() {
  static const std::vector<Kind> kAll = {
      {"clean", {}},
      {"slow rank", {Fault::kSlowRank}},
      {"slow node", {Fault::kSlowNode}},
      {"slow link", {Fault::kSlowLink}},
      {"small tensors", {Fault::kSmallTensors}},
      {"input stall", {Fault::kInputStall}},
      {"bubble", {Fault::kBubble}},
      {"layer imbalance", {Fault::kLayerImbalance}},
      {"slow algorithm", {Fault::kSlowAlgorithm}},
      {"exposed tail", {Fault::kExposedTail}},
      {"small batch", {Fault::kSmallBatch}},
      {"host bound", {Fault::kHostBound}},
      {"slow copies", {Fault::kSlowCopies}},
      {"clock jump", {Fault::kClockJump}},
      {"slow rank, slow link", {Fault::kSlowRank, Fault::kSlowLink}},
      {"slow rank, small tensors", {Fault::kSlowRank, Fault::kSmallTensors}},
      {"slow rank, input stall", {Fault::kSlowRank, Fault::kInputStall}},
      {"slow link, small tensors", {Fault::kSlowLink, Fault::kSmallTensors}},
      {"slow link, input stall", {Fault::kSlowLink, Fault::kInputStall}},
      {"small tensors, input stall", {Fault::kSmallTensors, Fault::kInputStall}},
  };
  return kAll;
}

/// What the finding for a fault is called.
std::string expected_finding(Fault fault) {
  switch (fault) {
    case Fault::kSlowRank:
    case Fault::kSlowNode:
      return "straggler";
    case Fault::kSlowLink:
      return "slow_link";
    case Fault::kSmallTensors:
      return "small_collectives";
    case Fault::kInputStall:
      return "input_bound";
    case Fault::kBubble:
      return "pipeline_bubble";
    case Fault::kClockJump:
      return "clocks_uncertain";
    case Fault::kLayerImbalance:
      return "layer_imbalance";
    case Fault::kSlowAlgorithm:
      return "slow_algorithm";
    case Fault::kExposedTail:
      return "exposed_tail";
    case Fault::kSmallBatch:
      return "batch_too_small";
    case Fault::kHostBound:
      return "host_bound";
    case Fault::kSlowCopies:
      return "memcpy_bound";
  }
  return "";
}

struct Found {
  std::string id;
  int64_t rank;
  std::string sentence;
  double share;
};

std::vector<Found> findings_of(const TrainingJob& job, const std::string& keep) {
  const ScratchFolder scratch;
  const std::filesystem::path folder = keep.empty() ? scratch.path() : std::filesystem::path(keep);
  if (!keep.empty()) std::filesystem::remove_all(folder);
  write_training_job(job, folder);
  const RunDirectory directory = find_run(folder.string());
  ingest(directory);
  SQLite::Database db = open_store(directory.store, Access::kReadWrite);
  analyze(db);
  std::vector<Found> found;
  SQLite::Statement rows(db,
                         "SELECT id, coalesce(rank, -1), sentence, coalesce(share_ratio, 0), evidence_sql FROM finding ORDER BY position");
  while (rows.executeStep()) {
    found.push_back(
        {rows.getColumn(0).getString(), rows.getColumn(1).getInt64(), rows.getColumn(2).getString(), rows.getColumn(3).getDouble()});
    SQLite::Statement evidence(db, rows.getColumn(4).getString());
    if (!evidence.executeStep()) throw std::logic_error("no rows stand behind: " + found.back().sentence);
  }
  return found;
}

bool matches(const Found& found, const InjectedFault& fault) {
  return found.id == expected_finding(fault.kind) && (fault.kind != Fault::kSlowRank || found.rank == fault.rank) &&
         (fault.kind != Fault::kSlowNode || found.sentence.find(fmt::format("ranks on node{} ", fault.rank)) != std::string::npos);
}

bool is_right(const TrainingJob& job, const std::vector<Found>& found) {
  if (job.faults.empty()) return found.empty();
  if (job.faults.size() == 1) return !found.empty() && matches(found[0], job.faults[0]);
  return std::all_of(job.faults.begin(), job.faults.end(), [&](const InjectedFault& fault) {
    const auto last = found.begin() + static_cast<std::ptrdiff_t>(std::min(found.size(), kAmong));
    return std::any_of(found.begin(), last, [&](const Found& f) { return matches(f, fault); });
  });
}

void show(const TrainingJob& job, const std::vector<Found>& found) {
  fmt::print("seed {}: {} x {} ranks, {} steps of {:.1f} ms, reduction {}, stages {}, microbatches {}\n", job.seed, job.nodes,
             job.ranks_per_node, job.steps, step_ns_of(job) / 1e6, static_cast<int>(job.reduction), job.pipeline.stages,
             job.pipeline.microbatches);
  for (const InjectedFault& f : job.faults)
    fmt::print("  injected {} rank {} from step {}: {:.2f} ms, {:.1f}%\n", name_of(f.kind), f.rank, f.from_step,
               static_cast<double>(f.size_ns) / 1e6, f.cost * 100);
  for (const Found& f : found) fmt::print("  found {} {:.1f}%: {}\n", f.id, f.share * 100, f.sentence);
}

struct Options {
  uint64_t cases = 100, first = 1;
  std::string kind, keep;
  bool show = false;
};

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    if (name == "--show") {
      options.show = true;
    } else if (i + 1 < argc && name == "--cases") {
      options.cases = std::strtoull(argv[++i], nullptr, 10);
    } else if (i + 1 < argc && name == "--first") {
      options.first = std::strtoull(argv[++i], nullptr, 10);
    } else if (i + 1 < argc && name == "--kind") {
      options.kind = argv[++i];
    } else if (i + 1 < argc && name == "--keep") {
      options.keep = argv[++i];
    } else {
      fmt::print(stderr, "usage: injected_findings [--cases N] [--first SEED] [--kind NAME] [--show] [--keep FOLDER]\n");
      std::exit(2);
    }
  }
  const auto chosen = [&](const Kind& kind) { return options.kind.empty() || options.kind == kind.name; };
  if (std::none_of(kinds().begin(), kinds().end(), chosen) || options.cases == 0) {
    fmt::print(stderr, "injected_findings: no case of kind '{}'; kinds:", options.kind);
    for (const Kind& kind : kinds()) fmt::print(stderr, " '{}'", kind.name);
    fmt::print(stderr, "\n");
    std::exit(2);
  }
  return options;
}

struct Case {
  TrainingJob job;
  std::vector<Found> found;
};

/// In the order of seeds. Cases know nothing of each other, so each core takes the next one.
std::vector<Case> cases_of(const Kind& kind, const Options& options) {
  std::vector<Case> cases(options.cases);
  std::atomic<uint64_t> next = 0;
  const auto work = [&] {
    for (uint64_t i = next++; i < options.cases; i = next++) {
      cases[i].job = draw_training_job(options.first + i, kind.faults);
      cases[i].found = findings_of(cases[i].job, options.keep);
    }
  };
  std::vector<std::future<void>> workers(options.keep.empty() ? std::max(1u, std::thread::hardware_concurrency()) : 1);
  for (std::future<void>& worker : workers) worker = std::async(std::launch::async, work);
  for (std::future<void>& worker : workers) worker.get();
  return cases;
}

int run_cases(const Options& options) {
  std::map<std::string, std::map<std::string, uint64_t>> confusion;  // by kind and top finding
  std::set<std::string> columns;
  std::map<std::string, uint64_t> right;
  bool good = true;
  for (const Kind& kind : kinds()) {
    if (!options.kind.empty() && options.kind != kind.name) continue;
    for (const auto& [job, found] : cases_of(kind, options)) {
      const std::string top = found.empty() ? "none" : found[0].id;
      columns.insert(top);
      ++confusion[kind.name][top];
      const bool ok = is_right(job, found);
      right[kind.name] += ok ? 1 : 0;
      if (options.show && !ok) show(job, found);
    }
    const double share = static_cast<double>(right[kind.name]) / static_cast<double>(options.cases);
    good = good && share >= (kind.faults.empty() ? kCleanGoal : kTopGoal);
  }
  fmt::print("{:30}{:>8}", "injected", "right");
  for (const std::string& column : columns) fmt::print("  {}", column);
  fmt::print("\n");
  for (const Kind& kind : kinds()) {
    if (!confusion.contains(kind.name)) continue;
    fmt::print("{:30}{:>7.1f}%", kind.name, 100.0 * static_cast<double>(right[kind.name]) / static_cast<double>(options.cases));
    for (const std::string& column : columns) fmt::print("  {:>{}}", confusion[kind.name][column], column.size());
    fmt::print("\n");
  }
  fmt::print("seeds {}..{}; {}\n", options.first, options.first + options.cases - 1, good ? "all goals met" : "a goal was missed");
  return good ? 0 : 1;
}

}  // namespace
}  // namespace ddl::test

int main(int argc, char** argv) { return ddl::test::run_cases(ddl::test::parse(argc, argv)); }
