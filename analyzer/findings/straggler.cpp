// Rule R8 of metrics.md section 12: one rank is late again and again, to collectives or to messages, and the others wait for it.
//
// On jobs that wait inside kernels of NCCL what GPUs did counts, not the calls of the host (select_steady_waits()).
//
// Blame comes from the instances (W10) and from the calls that waited for messages (W5, W6), and is booked where the lateness began
// (late_roots.h); what it costs comes from the partition of the steps, because the waits of overlapping non-blocking
// collectives add up to more than the time lost. The instances with the shortest waits, which make up a tenth of all waiting together, are
// left out of the late rate, as are those below a thousandth of the step: who is last there says nothing, and of the many collectives of a
// step often only the first has to wait for the late rank. A rank that became slow in mid-run is found by cutting its blame per step in two
// where the means differ most.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <unordered_map>

#include "analyzer/findings/findings.h"
#include "analyzer/findings/health.h"
#include "analyzer/findings/longer_computing.h"
#include "analyzer/query.h"
#include "analyzer/statistics.h"

namespace ddl {
namespace {

constexpr double kMinWaitShare = 0.02;    // of the others' step: less waiting is not worth a finding
constexpr double kMinBlameShare = 0.05;   // blame against step time
constexpr double kMinSavingShare = 0.01;  // of the step
constexpr double kNoiseShare = 0.001;     // of the step
constexpr double kNoiseWaiting = 0.1;     // of all waiting
constexpr size_t kMinSteps = 5;           // in which the rank was late
constexpr double kMinInstances = 20;      // the same, in runs without steps
constexpr size_t kCandidates = 3;
constexpr double kExplainedShare = 0.5;  // of the others' waiting must be missing from the rank's own time inside MPI
constexpr double kClearChange = 4;       // blame after the change against before it

/// What the instances of one step say about one rank.
struct StepBlame {
  int64_t step = 0;
  double all_ns = 0;     // blame of all ranks
  double rank_ns = 0;    // of this one
  double instances = 0;  // above the noise: collectives, and calls that waited for messages
  double late = 0;       // of those, this one was to blame; ties count as shares
  double messages = 0;   // of `late`, calls that waited for messages
};

/// A row of temp.late.
struct Late {
  int64_t step = 0;
  int64_t rank = 0;
  double instances = 0;  // its share of them, if several ranks entered last
  double wait_ns = 0;
  double longest_ns = 0;
  bool message = false;
};

/// Runs `use(Late)` for all blame in steady steps, or in the whole run as step 0 when there are none.
template <typename Use>
void for_each_late(const FindingInput& input, Use use) {
  Query rows(input.db, input.steps.annotated
                           ? "SELECT l.step, l.rank, l.instances * 1.0 / l.ties, l.wait_ns, l.longest_ns, l.message"
                             " FROM temp.late l JOIN temp.steady_number n ON n.world = l.world AND n.step = l.step WHERE l.world = ?"
                           : "SELECT 0, rank, instances * 1.0 / ties, wait_ns, longest_ns, message FROM temp.late WHERE world = ?");
  rows.bind(input.world);
  while (rows.next()) use(Late{rows.integer(0), rows.integer(1), rows.real(2), rows.real(3), rows.real(4), rows.integer(5) != 0});
}

std::vector<int64_t> most_blamed(const FindingInput& input) {
  std::map<int64_t, double> blame_ns;
  for_each_late(input, [&](const Late& late) { blame_ns[late.rank] += late.wait_ns; });
  std::vector<std::pair<double, int64_t>> order;
  for (const auto& [rank, wait_ns] : blame_ns) {
    if (wait_ns > 0) order.emplace_back(wait_ns, rank);
  }
  std::sort(order.rbegin(), order.rend());
  if (order.size() > kCandidates) order.resize(kCandidates);
  std::vector<int64_t> ranks;
  for (const auto& candidate : order) ranks.push_back(candidate.second);
  return ranks;
}

/// Instances whose longest wait is shorter say nothing about who is late.
double noise_ns(const FindingInput& input) {
  std::map<int, double> waiting_ns;  // by quarter octaves of the instance's longest wait
  double all_ns = 0;
  for_each_late(input, [&](const Late& late) {
    if (late.longest_ns <= 0) return;
    waiting_ns[static_cast<int>(std::floor(4 * std::log2(late.longest_ns)))] += late.wait_ns;
    all_ns += late.wait_ns;
  });
  const double noise = input.steps.annotated ? kNoiseShare * static_cast<double>(input.step_ns) : 0;
  double sum_ns = 0;
  for (const auto& [quarter_octave, wait_ns] : waiting_ns) {
    if ((sum_ns += wait_ns) > kNoiseWaiting * all_ns) return std::max(noise, std::exp2(quarter_octave / 4.0));
  }
  return noise;
}

std::vector<StepBlame> blame_by_step(const FindingInput& input, int64_t suspect, double noise_ns) {
  std::map<int64_t, StepBlame> steps;
  if (input.steps.annotated) {  // those in which nobody waited, too
    Query known(input.db, "SELECT step FROM temp.steady_step WHERE world = ? AND wait_ns IS NOT NULL");
    known.bind(input.world);
    while (known.next()) steps[known.integer(0)].step = known.integer(0);
  }
  for_each_late(input, [&](const Late& late) {
    StepBlame& s = steps[late.step];
    s.step = late.step;
    s.all_ns += late.wait_ns;
    if (late.rank == suspect) s.rank_ns += late.wait_ns;
    if (late.longest_ns < noise_ns || late.longest_ns == 0) return;
    s.instances += late.instances;
    if (late.rank != suspect) return;
    s.late += late.instances;
    if (late.message) s.messages += late.instances;
  });
  std::vector<StepBlame> result;
  for (const auto& [step, blame] : steps) result.push_back(blame);
  return result;
}

/// First step from which the blame is clearly higher; 0 if there is no such change.
size_t find_change(const std::vector<StepBlame>& steps) {
  const size_t n = steps.size();
  if (n < 2 * kMinSteps) return 0;
  const auto add = [](double sum, const StepBlame& s) { return sum + s.rank_ns; };
  const double total = std::accumulate(steps.begin(), steps.end(), 0.0, add);
  size_t best = 0;
  double best_gain = 0;
  double before = 0;
  for (size_t k = 1; k < n; ++k) {
    before += steps[k - 1].rank_ns;
    if (k < kMinSteps || n - k < kMinSteps) continue;
    const double left = static_cast<double>(k);
    const double right = static_cast<double>(n - k);
    const double mean_before = before / left;
    const double mean_after = (total - before) / right;
    const double gain = (mean_after - mean_before) * (mean_after - mean_before) * left * right;
    if (mean_after > kClearChange * mean_before && gain > best_gain) {
      best_gain = gain;
      best = k;
    }
  }
  // Lateness that is passed on reaches one rank more in every step, so the blame rises for a while: the change is where that began.
  for (double sum = std::accumulate(steps.begin(), steps.begin() + static_cast<std::ptrdiff_t>(best), 0.0, add); best > kMinSteps; --best) {
    const double last = steps[best - 1].rank_ns;
    sum -= last;
    if (last == 0 || last <= kClearChange * sum / static_cast<double>(best - 1)) break;
  }
  return best;
}

/// How the suspect and the others spent the steps that count.
struct Costs {
  double others_wait_ns = 0;  // median over steps of the others' mean
  double least_wait_ns = 0;   // median over steps of the wait of the one that waited least: its lead is all that can be won
  double wait_share = 0;      // of the others' time
  double step_ns = 0;         // median of the longest
  double compute_ns = 0;      // of the suspect, median
  double others_compute_ns = 0;
  double less_in_mpi_ns = 0;  // than the others, median over steps

  double saving_ns(double blame_share) const { return std::min(least_wait_ns * blame_share, less_in_mpi_ns); }
};

Costs costs_of(const FindingInput& input, int64_t suspect, const std::set<int64_t>& steps) {
  struct One {
    double suspect_compute = 0, compute = 0, suspect_exposed = 0, exposed = 0, wait = 0, least = -1, duration = 0, longest = 0;
    int others = 0;
  };
  std::vector<double> means, leasts, longest, compute, others_compute, less_in_mpi;
  double wait_ns = 0;
  double duration_ns = 0;
  One now;
  const auto close = [&] {
    if (now.others == 0) return;
    wait_ns += now.wait;
    duration_ns += now.duration;
    means.push_back(now.wait / now.others);
    leasts.push_back(now.least);
    longest.push_back(now.longest);
    compute.push_back(now.suspect_compute);
    others_compute.push_back(now.compute / now.others);
    less_in_mpi.push_back(now.exposed / now.others - now.suspect_exposed);
  };
  Query rows(input.db,
             "SELECT p.step, p.rank, p.duration_ns, p.compute_ns, p.wait_ns, p.exposed_ns FROM temp.steady_wait p JOIN temp.steady_step s"
             " ON s.world = p.world AND s.step = p.step WHERE p.world = ? AND s.wait_ns IS NOT NULL ORDER BY p.step, p.rank");
  rows.bind(input.world);
  int64_t current = -1;
  while (rows.next()) {
    if (!steps.contains(rows.integer(0))) continue;
    if (rows.integer(0) != current) {
      close();
      now = {};
      current = rows.integer(0);
    }
    now.longest = std::max(now.longest, rows.real(2));
    if (rows.integer(1) == suspect) {
      now.suspect_compute = rows.real(3);
      now.suspect_exposed = rows.real(5);
      continue;
    }
    ++now.others;
    now.duration += rows.real(2);
    now.compute += rows.real(3);
    now.wait += rows.real(4);
    now.exposed += rows.real(5);
    now.least = now.least < 0 ? rows.real(4) : std::min(now.least, rows.real(4));
  }
  close();
  Costs costs;
  if (means.empty() || duration_ns <= 0) return costs;
  costs.others_wait_ns = median_of(means);
  costs.least_wait_ns = median_of(leasts);
  costs.wait_share = wait_ns / duration_ns;
  costs.step_ns = median_of(longest);
  costs.compute_ns = median_of(compute);
  costs.others_compute_ns = median_of(others_compute);
  costs.less_in_mpi_ns = median_of(less_in_mpi);
  return costs;
}

struct Case {
  double blame_share = 0;
  double late_rate = 0;
  double late = 0;
  double messages = 0;
  double instances = 0;
  size_t late_steps = 0;
  Costs costs;
  bool holds = false;
};

Case judge(const FindingInput& input, int64_t suspect, const std::vector<StepBlame>& steps, size_t first, size_t ranks) {
  Case c;
  double all_ns = 0;
  double rank_ns = 0;
  std::set<int64_t> numbers;
  for (size_t i = first; i < steps.size(); ++i) {
    all_ns += steps[i].all_ns;
    rank_ns += steps[i].rank_ns;
    c.instances += steps[i].instances;
    c.late += steps[i].late;
    c.messages += steps[i].messages;
    c.late_steps += steps[i].late > 0 ? 1 : 0;
    numbers.insert(steps[i].step);
  }
  if (all_ns <= 0 || c.instances <= 0) return c;
  c.blame_share = rank_ns / all_ns;
  c.late_rate = c.late / c.instances;
  c.costs = costs_of(input, suspect, numbers);
  const double p = static_cast<double>(ranks);
  const double least = std::min(2 / p, (1 + 1 / p) / 2);
  const bool often = input.steps.annotated ? c.late_steps >= kMinSteps : c.late >= kMinInstances;
  c.holds = often && c.blame_share > least && c.late_rate > least && c.costs.wait_share >= kMinWaitShare &&
            c.costs.less_in_mpi_ns >= kExplainedShare * c.costs.others_wait_ns * c.blame_share &&
            rank_ns / static_cast<double>(numbers.size()) > kMinBlameShare * c.costs.step_ns &&
            c.costs.saving_ns(c.blame_share) > kMinSavingShare * c.costs.step_ns;
  return c;
}

size_t count_ranks(const FindingInput& input) {
  return static_cast<size_t>(std::count_if(input.catalog.processes.begin(), input.catalog.processes.end(),
                                           [&](const auto& p) { return p.second.world == input.world && p.second.rank >= 0; }));
}

/// What the suspect was late to.
const char* what_is_late(const Case& c) { return c.messages == 0 ? "enters last in" : "is late in"; }
const char* where_it_is_late(const Case& c) {
  return c.messages == 0 ? "collectives" : c.messages < c.late ? "collectives and messages" : "messages";
}

/// The blame as recorded: who waited for whom directly.
std::string blame_sql(const FindingInput& input, int64_t suspect, const Case& c) {
  const std::string collectives = fmt::format("FROM blame WHERE world = {}", input.world);
  if (c.messages == 0) return fmt::format("SELECT late, waiter, instances, wait_ns {} ORDER BY wait_ns DESC LIMIT 20", collectives);
  return fmt::format(
      "SELECT * FROM (SELECT late, waiter, kind, calls, wait_ns FROM message_blame WHERE world = {} UNION ALL"
      " SELECT late, waiter, 'collective', instances, wait_ns {}) ORDER BY late = {} DESC, wait_ns DESC LIMIT 20",
      input.world, collectives, suspect);
}

Finding describe(const FindingInput& input, int64_t suspect, const Case& c, std::optional<int64_t> since, size_t ranks) {
  const bool steps = input.steps.annotated;
  const char* per = steps ? "/step" : "";
  Finding finding;
  finding.id = "straggler";
  finding.rank = suspect;
  finding.saving_ns = static_cast<int64_t>(c.costs.saving_ns(c.blame_share));
  finding.confidence = c.blame_share > 0.8 && c.late_rate > 0.5 && c.late >= kMinInstances ? "sure" : "likely";
  finding.sentence = fmt::format("{} {} {} of {}{}: the {} {}{}", rank_on_host(input.catalog, input.world, suspect), what_is_late(c),
                                 percent_text(c.late_rate), where_it_is_late(c), since ? fmt::format(" since step {}", *since) : "",
                                 ranks == 2 ? "other waits" : "others wait", duration_text(c.costs.others_wait_ns * c.blame_share), per);

  const double longer_ns = c.costs.compute_ns - c.costs.others_compute_ns;
  const bool computes_longer = longer_ns > 0.25 * static_cast<double>(*finding.saving_ns);
  const std::string seen =
      c.messages == 0 ? fmt::format("Last in {:.0f} of {:.0f} collectives that make somebody wait; it caused", c.late, c.instances)
                      : fmt::format(
                            "Of {:.0f} waits for {} it caused {:.0f}, those included that ranks passed on which it had kept waiting;"
                            " that is",
                            c.instances, where_it_is_late(c), c.late);
  finding.evidence = fmt::format("{} {} of all waiting, which is {} of the others' time. It computes {}{}, {} {}.", seen,
                                 percent_text(c.blame_share), percent_text(c.costs.wait_share), duration_text(c.costs.compute_ns), per,
                                 ranks == 2 ? "the other" : "the others", duration_text(c.costs.others_compute_ns));
  finding.evidence += same_host_evidence(input, suspect) + health_evidence(input.db, input.world, suspect);
  finding.evidence_sql = blame_sql(input, suspect, c);
  if (computes_longer) {
    finding.advice = fmt::format(
        "see what else runs on the host of rank {} (cores, clocks, other load), and whether it gets more work than the others", suspect);
  } else {
    finding.advice =
        fmt::format("rank {} computes no longer than the others{}: look at what it does {} - input, checkpoints, reading files", suspect,
                    steps ? " within its steps" : "",
                    steps ? "between them, and before its collectives and messages" : "before its collectives and messages");
  }
  return finding;
}

Finding describe(const FindingInput& input, const LongerComputing& found, size_t ranks) {
  Finding finding;
  finding.id = "straggler";
  finding.rank = found.rank;
  finding.saving_ns = static_cast<int64_t>(found.saving_ns);
  finding.confidence = "likely";
  finding.sentence =
      fmt::format("{} computes longest in {} of steps{}: {}, the other{} {}", rank_on_host(input.catalog, input.world, found.rank),
                  percent_text(static_cast<double>(found.late_steps) / static_cast<double>(found.steps)),
                  found.since_step ? fmt::format(" since step {}", *found.since_step) : "", duration_text(found.compute_ns),
                  ranks == 2 ? "" : "s", duration_text(found.others_compute_ns));
  finding.evidence =
      fmt::format("In {} of {} steps; it is inside MPI for {}/step less than the other{}, loading data not counted as computing.",
                  found.late_steps, found.steps, duration_text(found.less_in_mpi_ns), ranks == 2 ? "" : "s");
  finding.evidence += same_host_evidence(input, found.rank) + health_evidence(input.db, input.world, found.rank);
  finding.evidence_sql = fmt::format(
      "SELECT step, rank, compute_ns, exposed_ns, duration_ns FROM v_step WHERE world = {} ORDER BY step, compute_ns DESC LIMIT 200",
      input.world);
  finding.advice = fmt::format(
      "see what else runs on the host of rank {} (cores, clocks, other load), and whether it gets more work than the others", found.rank);
  return finding;
}

}  // namespace

std::vector<Finding> find_straggler(const FindingInput& input) {
  const size_t ranks = count_ranks(input);
  if (ranks < 2) return {};
  const double noise = noise_ns(input);
  for (int64_t suspect : most_blamed(input)) {
    const std::vector<StepBlame> steps = blame_by_step(input, suspect, noise);
    const size_t change = find_change(steps);
    if (change > 0) {
      const Case after = judge(input, suspect, steps, change, ranks);
      if (after.holds) return {describe(input, suspect, after, steps[change].step, ranks)};
    }
    const Case whole = judge(input, suspect, steps, 0, ranks);
    if (whole.holds) return {describe(input, suspect, whole, std::nullopt, ranks)};
  }
  if (const auto longer = find_longer_computing(input)) return {describe(input, *longer, ranks)};
  return {};
}

}  // namespace ddl
