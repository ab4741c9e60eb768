#include "history/trend.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <tuple>

namespace ddl::history {
namespace {

constexpr size_t kLeastStretch = 5;  // of values on each side of a cut
// orders that may have a greater statistic
constexpr int kMostGreater = static_cast<int>(kFalseAlarm * (kOrders + 1)) - 1;

/// splitmix64 (Steele, Lea and Flood, OOPSLA 2014): the same numbers with every compiler.
class RandomOrders {
 public:
  uint64_t below(uint64_t bound) {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    z ^= z >> 31;
    return ((z >> 32) * bound) >> 32;  // below 2^32 runs
  }
  void shuffle(std::vector<double>& values) {
    for (size_t i = values.size(); i > 1; --i) std::swap(values[i - 1], values[below(i)]);
  }

 private:
  uint64_t state_ = 4711;
};

/// Ranks 1 ... n less their mean; equal values share theirs.
std::vector<double> centred_ranks(const double* values, size_t n) {
  std::vector<size_t> order(n);
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return values[a] < values[b]; });
  std::vector<double> ranks(n);
  const double mean = static_cast<double>(n + 1) / 2;
  for (size_t first = 0, last = 0; first < n; first = last) {
    while (last < n && values[order[last]] == values[order[first]]) ++last;
    const double shared = static_cast<double>(first + 1 + last) / 2 - mean;
    for (size_t i = first; i < last; ++i) ranks[order[i]] = shared;
  }
  return ranks;
}

struct Cut {
  size_t at = 0;
  double statistic = 0;  // square of the standardised one, but for a factor that all orders of the values share
};

/// 1 / (k (n - k)) for each cut k: the variance of a sum of k ranks, but for a factor that they share.
std::vector<double> weights_of(size_t n) {
  std::vector<double> weights(n);
  for (size_t k = 1; k < n; ++k) weights[k] = 1 / (static_cast<double>(k) * static_cast<double>(n - k));
  return weights;
}

Cut best_cut(const std::vector<double>& ranks, const std::vector<double>& weights) {
  Cut best;
  double sum = 0;
  for (size_t k = 1; k + kLeastStretch <= ranks.size(); ++k) {
    sum += ranks[k - 1];
    if (k < kLeastStretch) continue;
    const double statistic = sum * sum * weights[k];
    if (statistic > best.statistic) best = {k, statistic};
  }
  return best;
}

/// The cut that random orders do not explain; 0: none. Drawing ends as soon as enough orders are as good (Besag and
/// Clifford, Biometrika 78, 1991).
size_t sure_cut(const double* values, size_t n, RandomOrders& random) {
  if (n < kLeastRuns) return 0;
  std::vector<double> ranks = centred_ranks(values, n);
  const std::vector<double> weights = weights_of(n);
  const Cut found = best_cut(ranks, weights);
  int greater = 0;
  for (int order = 0; order < kOrders; ++order) {
    random.shuffle(ranks);
    if (best_cut(ranks, weights).statistic >= found.statistic && ++greater > kMostGreater) return 0;
  }
  return found.at;
}

void cut(const std::vector<double>& values, size_t first, size_t last, RandomOrders& random,
         std::vector<size_t>& cuts) {
  const size_t at = sure_cut(values.data() + first, last - first, random);
  if (at == 0) return;
  cut(values, first, first + at, random, cuts);
  cuts.push_back(first + at);
  cut(values, first + at, last, random, cuts);
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

double median_between(const std::vector<double>& values, size_t first, size_t last) {
  return median(
      {values.begin() + static_cast<std::ptrdiff_t>(first), values.begin() + static_cast<std::ptrdiff_t>(last)});
}

/// Ends of the stretches: 0, the cuts, the number of values.
std::vector<size_t> ends_of(const std::vector<size_t>& cuts, size_t values) {
  std::vector<size_t> ends = {0};
  ends.insert(ends.end(), cuts.begin(), cuts.end());
  ends.push_back(values);
  return ends;
}

/// Ranks say surely that there is a change, and its place to a run or two: it is where all values together are nearest
/// to the medians of both sides.
size_t placed(const std::vector<double>& values, size_t first, size_t at, size_t last) {
  const double before = median_between(values, first, at), after = median_between(values, at, last);
  double gain = 0, most = -INFINITY;  // of taking the values up to here for ones before the change
  size_t best = at;
  for (size_t k = first; k + kLeastStretch < last; ++k) {
    gain += std::abs(values[k] - after) - std::abs(values[k] - before);
    if (k + 1 >= first + kLeastStretch && gain > most) best = k + 1, most = gain;
  }
  return best;
}

template <class Of>
std::optional<double> median_of_runs(const std::vector<const RunRow*>& runs, size_t first, size_t last, Of of) {
  std::vector<double> values;
  for (size_t i = first; i < last; ++i)
    if (const std::optional<double> value = of(*runs[i])) values.push_back(*value);
  // Known for more than half of the runs: otherwise the two medians describe different runs.
  return 2 * values.size() > last - first ? std::optional(median(std::move(values))) : std::nullopt;
}

/// The axis on which most of the change of `part` came.
std::string axis_of(const JobSeries& series, const RunChange& change, size_t from, size_t to,
                    double RunRow::Axis::*part) {
  std::map<std::string, double> grown;
  for (size_t i = from; i < to; ++i)
    for (const RunRow::Axis& axis : series.runs[i]->axes) grown.emplace(axis.axis, 0);
  const double sign = change.after_ns > change.before_ns ? 1 : -1;
  std::string most;
  double most_ns = 0;
  for (auto& [name, ns] : grown) {
    // A run that knows axes, but not this one, spent nothing on it.
    const auto of = [&, &name = name](const RunRow& run) -> std::optional<double> {
      if (run.axes.empty()) return std::nullopt;
      const auto found =
          std::find_if(run.axes.begin(), run.axes.end(), [&](const auto& axis) { return axis.axis == name; });
      return found == run.axes.end() ? 0 : (*found).*part;
    };
    const auto before = median_of_runs(series.runs, from, change.first, of),
               after = median_of_runs(series.runs, change.first, to, of);
    if (!before || !after) continue;
    ns = sign * (*after - *before);
    if (ns > most_ns) most = name, most_ns = ns;
  }
  return most;
}

void explain(const JobSeries& series, size_t from, size_t to, RunChange& change) {
  const double sign = change.after_ns > change.before_ns ? 1 : -1;
  bool known = false;
  for (const StepPart& part : step_parts()) {
    const auto before = median_of_runs(series.runs, from, change.first, part.of),
               after = median_of_runs(series.runs, change.first, to, part.of);
    if (!before || !after) continue;
    known = true;
    const double grown = sign * (*after - *before);
    if (grown <= sign * change.part_ns) continue;
    change.part = &part;
    change.part_ns = sign * grown;
  }
  if (change.part == nullptr) change.why = known ? "NOT_APPLICABLE" : "NO_DATA";
  if (change.part == nullptr) return;
  const std::string id = change.part->id;
  if (id == "transfer") change.axis = axis_of(series, change, from, to, &RunRow::Axis::transfer_ns);
  if (id == "wait") change.axis = axis_of(series, change, from, to, &RunRow::Axis::wait_ns);
}

void find_changes(JobSeries& series) {
  std::vector<double> times;
  for (const RunRow* run : series.runs) times.push_back(static_cast<double>(*run->step_time_ns));
  const std::vector<size_t> ends = ends_of(level_changes(times), times.size());
  for (size_t i = 1; i + 1 < ends.size(); ++i) {
    RunChange change;
    change.first = ends[i];
    change.before_runs = ends[i] - ends[i - 1], change.after_runs = ends[i + 1] - ends[i];
    change.before_ns = median_between(times, ends[i - 1], ends[i]),
    change.after_ns = median_between(times, ends[i], ends[i + 1]);
    explain(series, ends[i - 1], ends[i + 1], change);
    series.changes.push_back(std::move(change));
  }
}

}  // namespace

std::vector<size_t> level_changes(const std::vector<double>& values) {
  RandomOrders random;
  std::vector<size_t> cuts;
  cut(values, 0, values.size(), random, cuts);
  // A cut was found while its neighbours were not known: each is looked for anew between them, and is gone if
  // it is not sure there.
  for (size_t i = 0; i < cuts.size();) {
    const std::vector<size_t> ends = ends_of(cuts, values.size());
    const size_t at = sure_cut(values.data() + ends[i], ends[i + 2] - ends[i], random);
    if (at != 0) {
      cuts[i] = placed(values, ends[i], ends[i] + at, ends[i + 2]);
      ++i;
      continue;
    }
    cuts.erase(cuts.begin() + static_cast<std::ptrdiff_t>(i));
    i = i == 0 ? 0 : i - 1;  // the one before has another neighbour now
  }
  // Changes that are too small to matter are left out, the smallest first, and the stretches beside them are one.
  while (!cuts.empty()) {
    const std::vector<size_t> ends = ends_of(cuts, values.size());
    size_t least = 0;
    double least_change = INFINITY;
    for (size_t i = 0; i < cuts.size(); ++i) {
      const double before = median_between(values, ends[i], ends[i + 1]),
                   after = median_between(values, ends[i + 1], ends[i + 2]);
      const double change = std::abs(after / before - 1);
      if (change < least_change) least = i, least_change = change;
    }
    if (least_change >= kLeastChange) break;
    cuts.erase(cuts.begin() + static_cast<std::ptrdiff_t>(least));
  }
  return cuts;
}

const std::vector<StepPart>& step_parts() {
  static const std::vector<StepPart> parts = {
      {"computing", "compute",
       [](const RunRow& run) -> std::optional<double> {
         return run.compute_ns ? std::optional(*run.compute_ns + run.overlap_ns.value_or(0)) : std::nullopt;
       }},
      {"exposed transfer", "transfer", [](const RunRow& run) { return run.transfer_ns; }},
      {"waiting for others", "wait", [](const RunRow& run) { return run.wait_ns; }},
      {"communication, not split", "unsplit", [](const RunRow& run) { return run.unsplit_ns; }},
      {"exposed copies", "copy", [](const RunRow& run) { return run.copy_ns; }},
      {"idle", "idle", [](const RunRow& run) { return run.idle_ns; }}};
  return parts;
}

std::vector<JobSeries> job_series(const std::vector<RunRow>& rows) {
  std::map<std::tuple<std::string, int64_t, int64_t>, JobSeries> by_job;
  std::map<std::tuple<std::string, int64_t, int64_t>, int64_t> newest;
  for (const RunRow& row : rows) {
    const std::tuple key(row.name, row.expected_ranks, row.hosts);
    JobSeries& series = by_job[key];
    series.name = row.name, series.ranks = row.expected_ranks, series.hosts = row.hosts;
    newest[key] = row.started_ns;
    if (row.step_time_ns && *row.step_time_ns > 0)
      series.runs.push_back(&row);
    else
      ++series.unknown;
  }
  std::vector<std::pair<int64_t, JobSeries>> sorted;
  for (auto& [key, series] : by_job) {
    find_changes(series);
    sorted.emplace_back(newest[key], std::move(series));
  }
  std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<JobSeries> all;
  for (auto& [start_ns, series] : sorted) all.push_back(std::move(series));
  return all;
}

std::optional<size_t> runs_to_find(const JobSeries& series, double slower) {
  std::vector<double> times;
  for (const RunRow* run : series.runs) times.push_back(static_cast<double>(*run->step_time_ns));
  if (times.size() < kLeastRuns) return std::nullopt;
  std::vector<double> planted = times;
  for (size_t newest = 1; newest <= times.size() / 2; ++newest) {
    planted[times.size() - newest] *= 1 + std::max(slower, kLeastChange);
    if (newest < kLeastStretch) continue;
    const std::vector<size_t> cuts = level_changes(planted);
    if (!cuts.empty() && cuts.back() + 2 >= times.size() - newest) return newest;
  }
  return std::nullopt;
}

double median_step_ns(const JobSeries& series) {
  std::vector<double> times;
  for (const RunRow* run : series.runs) times.push_back(static_cast<double>(*run->step_time_ns));
  return median(std::move(times));
}

std::vector<const RunRow*> slow_runs(const JobSeries& series) {
  constexpr double kToDeviation = 1.4826;  // of normally distributed values
  std::vector<const RunRow*> slow;
  if (series.runs.size() < kLeastRuns || !series.changes.empty()) return slow;
  const double middle = median_step_ns(series);
  std::vector<double> distances;
  for (const RunRow* run : series.runs) distances.push_back(std::abs(static_cast<double>(*run->step_time_ns) - middle));
  const double limit = std::max(kMuchLonger * middle, middle + kManyDeviations * kToDeviation * median(distances));
  for (const RunRow* run : series.runs)
    if (static_cast<double>(*run->step_time_ns) >= limit) slow.push_back(run);
  return slow;
}

std::optional<double> slower_lately(const JobSeries& series, size_t newest) {
  if (series.changes.empty()) return std::nullopt;
  const RunChange& last = series.changes.back();
  return last.ratio() > 0 && last.after_runs <= newest ? std::optional(last.ratio()) : std::nullopt;
}

}  // namespace ddl::history
