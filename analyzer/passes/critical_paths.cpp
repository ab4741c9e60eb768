#include "analyzer/passes/critical_paths.h"

#include <algorithm>

namespace ddl {
namespace {

constexpr size_t kMostHeld = 1 << 20;  // activities of a step
constexpr size_t kMostStreams = 1024;  // told apart

}  // namespace

CriticalPaths::CriticalPaths(SQLite::Database& db)
    : waits_(db,
             "SELECT correlation, context, stream, on_context, on_stream, on_correlation FROM stream_wait"
             " WHERE process = ? AND on_correlation < correlation ORDER BY correlation"),
      ranges_(db,
              "SELECT start_ns, duration_ns, region FROM range_event WHERE process = ? AND duration_ns >= ?"
              " ORDER BY start_ns, duration_ns DESC"),
      insert_(db, "INSERT INTO critical_path VALUES (?, ?, ?, ?, ?, ?, ?)") {}

size_t CriticalPaths::stream_number(int64_t context, int64_t stream) {
  const size_t number =
      streams_.try_emplace({context, stream}, std::min(streams_.size(), kMostStreams - 1)).first->second;
  if (number == earlier_.size()) earlier_.push_back(INT64_MIN);
  return number;
}

/// CUPTI's records of synchronisations name the stream alone. Nothing: no context has given it anything yet, or several
/// have one of that number.
std::optional<size_t> CriticalPaths::stream_of_any_context(int64_t stream) const {
  std::optional<size_t> found;
  for (const auto& [key, number] : streams_) {
    if (key.second != stream) continue;
    if (found) return {};
    found = number;
  }
  return found;
}

void CriticalPaths::finish(int64_t process, const std::map<int64_t, Interval>& steps, const Interval& run) {
  streams_.clear();
  earlier_.clear();
  bool has_wait = waits_.bind(process).next(), has_range = ranges_.bind(process, kLongHostNs).next();
  activities_->sort();
  const PathActivity* activity = activities_->next();
  while (activity != nullptr) {
    const int64_t number = steps.empty() ? -1 : activity->step;
    const auto window = steps.find(number);
    const bool is_step = steps.empty() || window != steps.end();
    PathStep step;
    step.window = window == steps.end() ? run : window->second;
    bool is_too_long = false;
    int64_t last_call = 0;
    for (; activity != nullptr && (steps.empty() || activity->step == number); activity = activities_->next()) {
      // A number that was used twice: the first counts.
      const int64_t given_ns = activity->is_launched ? activity->launch_ns : activity->start_ns;
      if (!is_step || given_ns >= step.window.end_ns) continue;
      is_too_long = is_too_long || step.operations.size() + step.synchronizations.size() == kMostHeld;
      if (is_too_long) continue;
      last_call = std::max(last_call, activity->call);
      keep(*activity, step);
    }
    if (is_too_long) {
      ++too_long_;
    } else if (is_step) {
      for (; has_wait && waits_.integer(0) <= last_call; has_wait = waits_.next())
        step.waits.push_back({stream_number(waits_.integer(1), waits_.integer(2)), waits_.integer(0),
                              stream_number(waits_.integer(3), waits_.integer(4)), waits_.integer(5)});
      for (; has_range && ranges_.integer(0) < step.window.end_ns; has_range = ranges_.next())
        step.ranges.push_back({{ranges_.integer(0), ranges_.integer(0) + ranges_.integer(1)}, ranges_.integer(2)});
      if (!step.operations.empty()) write(process, steps.empty() ? std::nullopt : std::optional(number), step);
    }
  }
  activities_.emplace();
}

void CriticalPaths::keep(const PathActivity& activity, PathStep& step) {
  std::optional<Interval> launch;
  if (activity.is_launched) launch = {activity.launch_ns, activity.launch_ns + activity.launch_duration_ns};
  if (activity.is_synchronization) {
    PathSynchronization s;
    s.call = launch.value_or(Interval{activity.start_ns, activity.end_ns});
    s.call.end_ns = std::max(s.call.end_ns, activity.end_ns);
    if (activity.stream >= 0 && activity.context >= 0) s.stream = stream_number(activity.context, activity.stream);
    if (activity.stream >= 0 && activity.context < 0) s.stream = stream_of_any_context(activity.stream);
    s.name = activity.name;
    s.region = activity.region;
    step.synchronizations.push_back(s);
    return;
  }
  PathOperation o;
  o.interval = {activity.start_ns, activity.end_ns};
  o.launch = launch;
  o.call = activity.call;
  o.stream = stream_number(activity.context, activity.stream);
  o.device_class = activity.device_class;
  if (activity.has_wait) o.wait_ns = activity.wait_ns;
  o.name = activity.name;
  o.region = activity.region;
  step.operations.push_back(o);
}

void CriticalPaths::write(int64_t process, std::optional<int64_t> number, const PathStep& step) {
  struct Sum {
    int64_t pieces = 0, time_ns = 0;
  };
  std::map<std::tuple<PathKind, std::optional<int64_t>, std::optional<int64_t>>, Sum> sums;
  for (const PathPiece& piece : critical_path(step, earlier_)) {
    Sum& sum = sums[{piece.kind, piece.name, piece.region}];
    ++sum.pieces;
    sum.time_ns += piece.interval.length_ns();
  }
  for (const auto& [key, sum] : sums) {
    const auto& [kind, name, region] = key;
    insert_.run(process, number, name_of(kind), name, region, sum.pieces, sum.time_ns);
  }
}

}  // namespace ddl
