// Change points over runs (specification.md "Change points over runs"): from which run on a job was slower, or faster,
// and stayed so; which part of its step grew.
//
// A job is told by its name, ranks and hosts. Its step times are ranked, a stretch is cut where the Mann-Whitney
// statistic, standardised, is greatest (Pettitt, Applied Statistics 28, 1979, for one change; Hawkins and Deng, J.
// Quality Technology 42, 2010, standardised), if no more than one in a thousand random orders of the same values has a
// greater one, and both sides are cut again (binary segmentation: Vostrikova, Soviet Mathematics Doklady 24, 1981; with
// permutations: Matteson and James, JASA 109, 2014). Ranks, so that an outlier is one value and the distribution is of
// no matter. In a history without a change whose runs do not depend on each other, the probability of any change point
// is at most kFalseAlarm.
//
// Pure functions; the random orders are the same at every call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "history/row.h"

namespace ddl::history {

constexpr double kFalseAlarm = 0.001;  ///< per look at a history
constexpr int kOrders = 9999;          ///< random orders that are drawn
constexpr size_t kLeastRuns = 14;      ///< 7 and 7: with fewer no order of them is rarer than kFalseAlarm
constexpr double kLeastChange = 0.01;  ///< of the median before: less is real, perhaps, and of no matter

/// Indices of the first values after a change, ascending. `values`: step times in the order of the runs, positive.
std::vector<size_t> level_changes(const std::vector<double>& values);

/// What a step consists of, as the history tells it.
struct StepPart {
  const char* name;  ///< "exposed transfer"
  const char* id;    ///< transfer
  std::optional<double> (*of)(const RunRow& run);
};
const std::vector<StepPart>& step_parts();

struct RunChange {
  size_t first = 0;                        ///< index in JobSeries::runs of the first run after it
  size_t before_runs = 0, after_runs = 0;  ///< of the stretches on both sides
  double before_ns = 0, after_ns = 0;      ///< median step times of these
  double ratio() const { return after_ns / before_ns - 1; }

  /// The part of the mean step that changed most in the direction of the change, by medians over both stretches;
  /// nullptr: see why.
  const StepPart* part = nullptr;
  double part_ns = 0;  ///< by how much
  /// of transfer and waiting: the axis of parallelism on which most of that came; empty: none is known
  std::string axis;
  std::string why;  ///< NO_DATA: the parts of too few runs are known; NOT_APPLICABLE: none changed in that direction
};

/// Runs of one job that can be compared, by start.
struct JobSeries {
  std::string name;
  int64_t ranks = 0, hosts = 0;
  std::vector<const RunRow*> runs;  ///< those whose step time is known
  size_t unknown = 0;               ///< further runs, whose step time is not
  std::vector<RunChange> changes;
};

/// By name, ranks and hosts; the one whose newest run is newest comes first. `rows` must outlive them, and are by
/// start.
std::vector<JobSeries> job_series(const std::vector<RunRow>& rows);

/// In how many of its newest runs a job without a change has to be slower by this share until that is found, as much as
/// its runs differ; nothing: not in half of them either.
std::optional<size_t> runs_to_find(const JobSeries& series, double slower);

/// Runs of a job without a change that are outliers, not its level: they took kMuchLonger times the median and
/// kManyDeviations more than the usual distance from it (the median of these, scaled to a standard deviation), by
/// start. Nothing of fewer than kLeastRuns.
constexpr double kMuchLonger = 1.2, kManyDeviations = 6;
std::vector<const RunRow*> slow_runs(const JobSeries& series);
/// The median of their step times; 0: none is known.
double median_step_ns(const JobSeries& series);

/// How much slower the job is since its last change; nothing: it has none, it got faster, or it has more than
/// `newest` runs since.
std::optional<double> slower_lately(const JobSeries& series, size_t newest);

}  // namespace ddl::history
