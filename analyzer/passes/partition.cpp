#include "analyzer/passes/partition.h"

#include <algorithm>

namespace ddl {

void add_to(WindowEvents& window, const Activity& a, int64_t owner) {
  const bool own_call = !a.request && a.thread == owner;
  (own_call ? window.calls : window.background).push_back(a.interval);
  if (own_call && a.completion) window.completions.push_back(a.interval);
  if (a.request && a.collective) window.flights.push_back({a.interval, a.bytes});
  if (!own_call && !a.request) return;
  window.bounded |= a.bounded;
  if (a.wait_ns.value_or(0) > 0) {
    window.waiting.push_back({a.interval.begin_ns, a.interval.begin_ns + *a.wait_ns});
    window.sigma_ns += a.sigma_ns;
    if (a.bubble) window.bubble.push_back(window.waiting.back());
  }
  if (a.undefined) {
    (own_call ? window.undefined : window.undefined_flights).push_back(a.interval);
  } else if (a.unsplit) {
    window.unsplit.push_back(a.interval);
    window.unsplit_why = a.why;
  } else if (a.why == Why::kPartialRanks || a.why == Why::kClockUntrusted) {
    window.why = a.why;
  }
}

Partition partition(const Interval& window, const WindowEvents& events, int64_t mpi_ns) {
  const IntervalSet inside({window});
  const IntervalSet called = intersect(IntervalSet(events.calls), inside);
  const IntervalSet computing =
      events.computing ? intersect(IntervalSet(*events.computing), inside) : IntervalSet(std::vector<Interval>());
  const IntervalSet exposed = events.computing ? subtract(called, computing) : called;
  const IntervalSet comm = unite(called, intersect(IntervalSet(events.background), inside));
  const IntervalSet wait = intersect(exposed, IntervalSet(events.waiting));

  Partition result;
  result.duration_ns = std::max<int64_t>(0, window.length_ns());
  result.exposed_ns = std::clamp(mpi_ns, exposed.length_ns(), result.duration_ns);
  result.compute_ns = events.computing ? computing.length_ns() : result.duration_ns - result.exposed_ns;
  result.idle_ns = result.duration_ns - result.exposed_ns - result.compute_ns;
  result.comm_ns = std::max(comm.length_ns(), result.exposed_ns);
  result.wait_ns = wait.length_ns();
  if (!events.bubble.empty()) result.bubble_ns = intersect(exposed, IntervalSet(events.bubble)).length_ns();
  if (!events.inputs.empty()) {
    const IntervalSet inputs = intersect(IntervalSet(events.inputs), inside);
    result.input_ns = std::min(subtract(inputs, exposed).length_ns(), result.duration_ns - result.exposed_ns);
  }
  const IntervalSet unsplit = subtract(intersect(exposed, IntervalSet(events.unsplit)), wait);
  result.unsplit_ns = unsplit.length_ns();
  if (!events.undefined.empty() || !events.undefined_flights.empty()) {
    const IntervalSet completed = intersect(IntervalSet(events.completions), IntervalSet(events.undefined_flights));
    const IntervalSet undefined = intersect(exposed, unite(IntervalSet(events.undefined), completed));
    result.undefined_ns = subtract(subtract(undefined, wait), unsplit).length_ns();
  }
  return result;
}

std::optional<Tail> tail_of(const Interval& window, const WindowEvents& events) {
  if (events.why != Why::kNone && events.why != Why::kClockUntrusted) return std::nullopt;
  Tail tail;
  tail.split = events.why == Why::kNone;
  Interval last{window.begin_ns - 1, window.begin_ns};
  std::vector<Interval> in_flight;
  for (const Flight& flight : events.flights) {
    in_flight.push_back(flight.interval);
    if (flight.interval.begin_ns < window.begin_ns) continue;  // posted in an earlier step
    ++tail.all_buckets;
    tail.all_bytes += flight.bytes;
    if (flight.interval.begin_ns < last.begin_ns) continue;
    last = flight.interval;
    tail.last_bytes = flight.bytes;
  }
  if (tail.all_buckets == 0) return std::nullopt;
  for (const Flight& flight : events.flights) {
    if (flight.interval.begin_ns < window.begin_ns || flight.interval.end_ns <= last.begin_ns) continue;
    ++tail.buckets;
    tail.bytes += flight.bytes;
  }
  const IntervalSet end({Interval{last.begin_ns, window.end_ns}});
  const IntervalSet exposed = intersect(intersect(IntervalSet(events.completions), IntervalSet(in_flight)), end);
  const IntervalSet transfer = subtract(exposed, IntervalSet(events.waiting));
  tail.xfer_ns = subtract(transfer, IntervalSet(events.late_completions)).length_ns();
  return tail;
}

}  // namespace ddl
