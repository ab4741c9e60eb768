#include "analyzer/passes/training_thread.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "analyzer/query.h"

namespace ddl {
namespace {

constexpr double kNearShare = 0.05;     // of an interval: a sample is near its end
constexpr int64_t kNearNs = 2'000'000;  // or so many ns, four times what they are apart

/// The parts of a set that reach into the window. Binary search: a run has as many windows as it has steps.
IntervalSet inside(const IntervalSet& set, const Interval& window) {
  const auto& parts = set.parts();
  auto part =
      std::partition_point(parts.begin(), parts.end(), [&](const Interval& i) { return i.end_ns <= window.begin_ns; });
  std::vector<Interval> found;
  for (; part != parts.end() && part->begin_ns < window.end_ns; ++part)
    found.push_back({std::max(part->begin_ns, window.begin_ns), std::min(part->end_ns, window.end_ns)});
  return IntervalSet(std::move(found));
}

/// What a thread is busy for never falls, but three sums are read one after the other, and a long wait in sched_yield
/// is in two of them. The kernel books it as ready when the thread gets a CPU, the thread itself when the call has
/// returned: a sample between the two is too high by all of it, and what follows is right. Where the thread returns
/// while the sums are read, the sample is too low: it rises faster than time to the next.
std::vector<BusyTime::Sample> never_falling(const std::vector<BusyTime::Sample>& read) {
  std::vector<BusyTime::Sample> kept;
  for (size_t i = 0; i < read.size(); ++i) {
    if (!kept.empty() && read[i].busy_ns < kept.back().busy_ns) {
      // More than time by which a sum rises between two samples.
      const auto excess_ns = [](const BusyTime::Sample& a, const BusyTime::Sample& b) {
        return b.busy_ns - a.busy_ns - static_cast<double>(b.at_ns - a.at_ns);
      };
      const double before_ns = kept.size() < 2 ? 0 : std::max(0.0, excess_ns(kept[kept.size() - 2], kept.back()));
      if (i + 1 == read.size() || excess_ns(read[i], read[i + 1]) > before_ns) continue;
    }
    kept.push_back(read[i]);
  }
  for (size_t i = kept.size(); i-- > 1;) kept[i - 1].busy_ns = std::min(kept[i - 1].busy_ns, kept[i].busy_ns);
  return kept;
}

}  // namespace

TrainingState training_state(double busy, double spun) {
  if (busy < 0.5) return TrainingState::kAsleep;
  return spun >= 0.5 * busy ? TrainingState::kPolling : TrainingState::kComputing;
}

std::string_view name_of(TrainingState state) {
  constexpr std::string_view kNames[] = {"", "computing", "polling", "asleep"};
  return kNames[static_cast<size_t>(state)];
}

bool BusyTime::covers(const Interval& interval) const {
  if (samples_.size() < 2) return false;
  const int64_t near_ns =
      std::max(kNearNs, static_cast<int64_t>(kNearShare * static_cast<double>(interval.length_ns())));
  const auto has_near = [&](int64_t at_ns) {
    const auto after = std::lower_bound(samples_.begin(), samples_.end(), at_ns,
                                        [](const Sample& s, int64_t t) { return s.at_ns < t; });
    return (after != samples_.end() && after->at_ns - at_ns <= near_ns) ||
           (after != samples_.begin() && at_ns - std::prev(after)->at_ns <= near_ns);
  };
  return has_near(interval.begin_ns) && has_near(interval.end_ns);
}

double BusyTime::busy_until(int64_t at_ns) const {
  const auto after =
      std::lower_bound(samples_.begin(), samples_.end(), at_ns, [](const Sample& s, int64_t t) { return s.at_ns < t; });
  if (after == samples_.begin()) return after->busy_ns;
  const Sample& before = *std::prev(after);
  if (after == samples_.end()) return before.busy_ns;
  const double share = static_cast<double>(at_ns - before.at_ns) / static_cast<double>(after->at_ns - before.at_ns);
  return before.busy_ns + share * (after->busy_ns - before.busy_ns);
}

double BusyTime::busy_ns(const Interval& interval) const {
  if (interval.length_ns() <= 0 || samples_.empty()) return 0;
  return std::clamp(busy_until(interval.end_ns) - busy_until(interval.begin_ns), 0.0,
                    static_cast<double>(interval.length_ns()));
}

double BusyTime::blocked_ns(const Interval& interval) const {
  return interval.length_ns() <= 0 ? 0 : static_cast<double>(interval.length_ns()) - busy_ns(interval);
}

double BusyTime::blocked_ns(const IntervalSet& intervals) const {
  double sum_ns = 0;
  for (const Interval& interval : intervals.parts()) sum_ns += blocked_ns(interval);
  return sum_ns;
}

BusyTime read_busy_time(SQLite::Database& db, int64_t process) {
  std::vector<BusyTime::Sample> samples;
  Query row(
      db, "SELECT at_ns, cpu_ns + coalesce(ready_ns, 0) - spun_ns FROM thread_sample WHERE process = ? ORDER BY at_ns");
  for (row.bind(process); row.next();) samples.push_back({row.integer(0), row.real(1)});
  return BusyTime(never_falling(samples));
}

TrainingThread::TrainingThread(SQLite::Database& db, int64_t process, const BackgroundProcess& background)
    : busy_(read_busy_time(db, process)) {
  std::vector<Interval> data, moving, waiting, own, own_waiting, bounded, unsplit;
  Query rows(db, R"(
    SELECT e.start_ns, e.duration_ns, coalesce(k.wait_ns, w.wait_ns, 0), k.wait_method IS 'lower-bound',
           k.wait_ns IS NULL AND w.wait_ns IS NULL AND coalesce(k.why, w.why) IS 'PARTIAL_RANKS', e.thread IS ?4, e.kind = 1,
           c.size IS 1 AND c.kind IS NOT 'inter' AND (SELECT world_size FROM process WHERE id = ?3) > 1
    FROM event e
    LEFT JOIN communicator c ON c.id = e.comm
    LEFT JOIN collective k ON k.event = e.id
    LEFT JOIN call_wait w ON w.event = e.id AND e.thread IS ?4
    WHERE e.id BETWEEN ?1 AND ?2 AND e.process = ?3 AND e.kind < 3 AND e.id NOT IN (SELECT event FROM coordination))");
  for (rows.bind(background.first_event, background.last_event, process, background.thread); rows.next();) {
    const Interval call{rows.integer(0), rows.integer(0) + rows.integer(1)};
    const bool by_training = rows.integer(5) != 0;
    if (by_training && rows.integer(6) == 0) continue;  // in flight: the calls that begin and complete it are its time
    // a group of one among others: averaging that takes each rank alone in most steps
    if (!by_training && rows.integer(7) != 0) continue;
    if (rows.integer(3) != 0) bounded.push_back(call);
    if (rows.integer(4) != 0) unsplit.push_back(call);
    if (by_training) {
      own.push_back(call);
      own_waiting.push_back({call.begin_ns, call.begin_ns + rows.integer(2)});
      continue;
    }
    data.push_back(call);
    moving.push_back({call.begin_ns + rows.integer(2), call.end_ns});
    if (rows.integer(2) > 0) waiting.push_back({call.begin_ns, call.begin_ns + rows.integer(2)});
  }
  Query negotiated(db, "SELECT ready_ns, agreed_ns FROM negotiation WHERE process = ?");
  const auto n_data = static_cast<int64_t>(data.size());
  size_t negotiations = 0;
  for (negotiated.bind(process); negotiated.next(); ++negotiations)
    waiting.push_back({negotiated.integer(0), negotiated.integer(1)});
  Query coordinates(db, R"(
    SELECT count(*)
    FROM coordination c
    JOIN event e ON e.id = c.event
    WHERE c.event BETWEEN ?1 AND ?2 AND e.process = ?3)");
  coordinates.bind(background.first_event, background.last_event, process).next();
  // A barrier now and then is not a negotiation: where ranks negotiate, at least one call comes before each that moves
  // data.
  tells_waiting_ = negotiations > 0 || coordinates.integer(0) < n_data;
  data_ = IntervalSet(std::move(data));
  moving_ = IntervalSet(std::move(moving));
  waiting_ = subtract(IntervalSet(std::move(waiting)), moving_);
  own_ = IntervalSet(std::move(own));
  own_waiting_ = IntervalSet(std::move(own_waiting));
  bounded_ = IntervalSet(std::move(bounded));
  unsplit_ = IntervalSet(std::move(unsplit));
}

bool TrainingThread::reaches_into(const IntervalSet& set, const Interval& window) {
  return inside(set, window).length_ns() > 0;
}

std::optional<Partition> TrainingThread::partition(const Interval& window, const std::vector<Interval>& inputs) const {
  if (!busy_.covers(window)) return std::nullopt;
  const IntervalSet whole({window});
  const IntervalSet in_mpi = intersect(inside(own_, window), whole);
  const IntervalSet outside = subtract(whole, in_mpi);
  const auto of_window = [&](const IntervalSet& set) { return intersect(inside(set, window), outside); };
  const IntervalSet data = of_window(data_), waiting = of_window(waiting_);
  double compute_ns = 0;
  for (const Interval& part : outside.parts()) compute_ns += busy_.busy_ns(part);

  Partition result;
  result.duration_ns = std::max<int64_t>(0, window.length_ns());
  result.compute_ns = std::min(result.duration_ns - in_mpi.length_ns(), int64_t{std::llround(compute_ns)});
  const int64_t blocked_ns = result.duration_ns - in_mpi.length_ns() - result.compute_ns;
  result.wait_ns = std::min(blocked_ns, int64_t{std::llround(busy_.blocked_ns(waiting))});
  const int64_t transfer_ns =
      std::min(blocked_ns - result.wait_ns, int64_t{std::llround(busy_.blocked_ns(of_window(moving_)))});
  result.exposed_ns = in_mpi.length_ns() + result.wait_ns + transfer_ns;
  result.wait_ns += intersect(inside(own_waiting_, window), in_mpi).length_ns();
  result.idle_ns = result.duration_ns - result.compute_ns - result.exposed_ns;
  if (!inputs.empty()) {
    const IntervalSet loading = intersect(IntervalSet(inputs), outside);
    const double exposed_ns = busy_.blocked_ns(intersect(loading, unite(waiting, of_window(moving_))));
    result.input_ns =
        std::clamp<int64_t>(loading.length_ns() - std::llround(exposed_ns), 0, result.compute_ns + result.idle_ns);
  }
  const int64_t before_ns = std::llround(busy_.blocked_ns(subtract(waiting, data)));
  result.comm_ns = std::max(result.exposed_ns, in_mpi.length_ns() + data.length_ns() + before_ns);
  return result;
}

}  // namespace ddl
