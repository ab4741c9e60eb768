#include "analyzer/findings/pauses.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "analyzer/each_row.h"
#include "analyzer/passes/process_steps.h"
#include "analyzer/query.h"

namespace ddl {
namespace {

struct Times {
  int64_t step = 0, rank = 0;
  double in_step_ns = 0, before_ns = 0;
};

bool comes_before(const Times& a, const Times& b) { return std::pair(a.step, a.rank) < std::pair(b.step, b.rank); }

/// By step and rank; a step that a rank had several times is several ones.
std::vector<Times> times_in(const FindingInput& input, std::string_view ranges) {
  std::vector<Times> times;
  ProcessSteps steps(input.db);
  const std::string regions = id_list(input.db, fmt::format("SELECT id FROM region WHERE {}", ranges));
  if (regions.empty()) return times;
  struct Range {
    int64_t thread, begin_ns, end_ns;
    double own_ratio;  ///< outside MPI
  };
  std::map<int64_t, std::vector<Range>> by_process;  // in one pass: range_event has no index
  EachRow range(input.db, "process, thread, start_ns, duration_ns, mpi_ns",
                fmt::format("range_event WHERE region IN ({})", regions));
  range.run([&](const RowValues& row) {
    const double duration = std::max(1.0, row.real(3));
    by_process[row.integer(0)].push_back({row.integer(1), row.integer(2), row.integer(2) + row.integer(3),
                                          std::clamp((duration - row.real(4)) / duration, 0.0, 1.0)});
  });
  const auto earlier = [](const Range& a, const Range& b) { return a.begin_ns < b.begin_ns; };
  for (auto& [id, all] : by_process) {
    if (!std::is_sorted(all.begin(), all.end(), earlier)) std::stable_sort(all.begin(), all.end(), earlier);
    const ProcessInfo& process = input.catalog.process(id);
    if (process.world != input.world || process.rank < 0) continue;
    auto next = all.begin();
    int64_t last_end_ns = INT64_MIN, until_ns = INT64_MIN;  // of the step before; ranges may lie within each other
    for (const ProcessStep& step : steps.of(id)) {
      const int64_t thread = step.thread, begin_ns = step.begin_ns, end_ns = step.end_ns;
      Times found{step.step, process.rank};
      for (; next != all.end() && next->begin_ns < end_ns; ++next) {
        if (next->thread != thread) continue;
        const auto overlap_ns = [&](int64_t from_ns, int64_t to_ns) {
          const int64_t first_ns = std::max({next->begin_ns, until_ns, from_ns}),
                        last_ns = std::min(next->end_ns, to_ns);
          return last_ns > first_ns ? static_cast<double>(last_ns - first_ns) * next->own_ratio : 0.0;
        };
        if (last_end_ns != INT64_MIN) found.before_ns += overlap_ns(last_end_ns, begin_ns);
        found.in_step_ns += overlap_ns(begin_ns, end_ns);
        until_ns = std::max(until_ns, next->end_ns);
      }
      times.push_back(found);
      last_end_ns = end_ns;
    }
  }
  std::stable_sort(times.begin(), times.end(), comes_before);
  return times;
}

}  // namespace

double StepPauses::longest_pause_ns() const {
  double longest = 0;
  for (const RankPause& rank : ranks) longest = std::max(longest, rank.pause_ns);
  return longest;
}

double mean_before_ns(const std::vector<StepPauses>& steps) {
  double sum_ns = 0;
  for (const StepPauses& step : steps) {
    double longest_ns = 0;
    for (const RankPause& rank : step.ranks) longest_ns = std::max(longest_ns, rank.before_ns);
    sum_ns += longest_ns;
  }
  return steps.empty() ? 0 : sum_ns / static_cast<double>(steps.size());
}

std::vector<StepPauses> pauses_in(const FindingInput& input, std::string_view ranges) {
  std::vector<StepPauses> steps;
  if (!input.steps.annotated || input.step_ns <= 0) return steps;
  const std::vector<Times> times = times_in(input, ranges);
  if (times.empty()) return steps;
  auto next = times.begin();
  Query rows(
      input.db,
      "SELECT w.step, w.rank, coalesce(w.duration_ns - w.wait_ns, w.compute_ns) FROM steady_wait w JOIN steady_number n ON n.world = w.world"
      " AND n.step = w.step WHERE w.world = ? ORDER BY w.step, w.rank");
  rows.bind(input.world);
  while (rows.next()) {
    if (steps.empty() || steps.back().step != rows.integer(0)) steps.push_back({rows.integer(0), {}});
    Times time{rows.integer(0), rows.integer(1)};
    while (next != times.end() && comes_before(*next, time)) ++next;
    for (; next != times.end() && !comes_before(time, *next); ++next) {
      time.in_step_ns += next->in_step_ns;
      time.before_ns += next->before_ns;
    }
    const double in_step_ns = std::min(time.in_step_ns, rows.real(2));
    steps.back().ranks.push_back(
        {rows.integer(1), rows.real(2) + time.before_ns, in_step_ns + time.before_ns, time.before_ns});
  }
  return steps;
}

double saving_without(const std::vector<StepPauses>& steps,
                      const std::function<double(const StepPauses&, const RankPause&)>& left_out) {
  double saved_ns = 0;
  for (const StepPauses& step : steps) {
    double longest_ns = 0, without_ns = 0;
    for (const RankPause& rank : step.ranks) {
      longest_ns = std::max(longest_ns, rank.busy_ns);
      without_ns = std::max(without_ns, rank.busy_ns - left_out(step, rank));
    }
    saved_ns += longest_ns - without_ns;
  }
  return steps.empty() ? 0 : saved_ns / static_cast<double>(steps.size());
}

std::optional<CostlyPauses> costly_pauses(const FindingInput& input, std::string_view ranges) {
  constexpr double kLeastShare = 0.01;  // of the step
  CostlyPauses pauses{.steps = pauses_in(input, ranges), .least_ns = kLeastShare * static_cast<double>(input.step_ns)};
  pauses.saving_ns =
      saving_without(pauses.steps, [](const StepPauses&, const RankPause& rank) { return rank.pause_ns; });
  return pauses.steps.empty() || pauses.saving_ns < pauses.least_ns ? std::nullopt : std::optional(std::move(pauses));
}

PauseCount count_pauses(const CostlyPauses& costly) {
  PauseCount pauses;
  for (const StepPauses& step : costly.steps) {
    size_t here = 0;
    for (const RankPause& rank : step.ranks) {
      if (rank.pause_ns < costly.least_ns) continue;
      ++here;
      ++pauses.count;
      pauses.ranks.insert(rank.rank);
      pauses.sum_ns += rank.pause_ns;
      pauses.longest_ns = std::max(pauses.longest_ns, rank.pause_ns);
    }
    if (here == 0) continue;
    ++pauses.steps;
    pauses.steps_of_few += 2 * here <= step.ranks.size();
    pauses.last_step = std::max(pauses.last_step, step.step);
  }
  return pauses;
}

std::string pauses_sql(int64_t world, std::string_view ranges) {
  return fmt::format(
      "SELECT p.rank, e.step, e.start_ns, e.duration_ns, e.mpi_ns FROM range_event e JOIN process p ON p.id = e.process WHERE p.world = {} AND"
      " e.region IN (SELECT id FROM region WHERE {}) ORDER BY e.duration_ns DESC LIMIT 100",
      world, ranges);
}

Finding finding_of_pauses(const FindingInput& input, std::string_view ranges, const CostlyPauses& pauses) {
  Finding finding;
  finding.saving_ns = static_cast<int64_t>(pauses.saving_ns);
  finding.confidence = "likely";
  finding.evidence_sql = pauses_sql(input.world, ranges);
  return finding;
}

}  // namespace ddl
