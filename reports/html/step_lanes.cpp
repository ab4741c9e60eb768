#include "reports/html/step_lanes.h"

#include <fmt/format.h>

#include <algorithm>

#include "analyzer/passes/operation.h"
#include "analyzer/query.h"
#include "reports/format.h"

namespace ddl::reports::html {

StepLanes::StepLanes(const RunView& run, int64_t step) : run_(run), step_(step) {
  Query row(
      run.db,
      "SELECT p.rank, s.process, s.thread, s.start_ns, s.duration_ns FROM process p CROSS JOIN step s ON s.process = p.id AND s.step = ?2 AND s.measured"
      " WHERE p.world = ?1 AND p.rank IS NOT NULL AND s.duration_ns IS NOT NULL ORDER BY p.rank");
  row.bind(run.world, step);
  window_ = {INT64_MAX, INT64_MIN};
  while (row.next()) {
    const int64_t rank = row.integer(0), begin_ns = row.integer(3), end_ns = begin_ns + row.integer(4);
    places_[rank] = {row.integer(1), row.integer(2), {begin_ns, end_ns}};
    ranks_.push_back(rank);
    window_.begin_ns = std::min(window_.begin_ns, begin_ns);
    if (end_ns > window_.end_ns) window_.end_ns = end_ns, last_rank_ = rank;
  }
  if (ranks_.empty()) window_ = {};
  if (ranks_.empty()) return;
  read_operations();
  read_messages();
  read_backward();
  read_computing();
}

void StepLanes::read_operations() {
  Query row(run_.db, "SELECT id, name, class, nonblocking FROM op");
  while (row.next()) {
    if (describe_operation(std::string(row.text(1)), row.text(2), row.integer(3) != 0).waits_unnumbered)
      waits_unnumbered_.insert(row.integer(0));
  }
}

// In one go for all ranks: the table of messages has no index by call.
void StepLanes::read_messages() {
  Query row(
      run_.db,
      "SELECT e.process, e.start_ns, e.duration_ns, m.late_sender_wait_ns, p.rank FROM message m JOIN event e ON e.id = m.receive_call"
      " LEFT JOIN event o ON o.id = m.send LEFT JOIN process p ON p.id = o.process WHERE e.start_ns BETWEEN ?1 AND ?2"
      " UNION ALL SELECT e.process, e.start_ns, e.duration_ns, m.late_receiver_wait_ns, p.rank FROM message m JOIN event e ON e.id = "
      "m.send_call"
      " LEFT JOIN event o ON o.id = m.receive LEFT JOIN process p ON p.id = o.process WHERE e.start_ns BETWEEN ?1 AND ?2");
  row.bind(window_.begin_ns, window_.end_ns);
  while (row.next())
    messages_[row.integer(0)].push_back(
        {{row.integer(1), row.integer(1) + row.integer(2)}, row.maybe_integer(3), row.maybe_integer(4).value_or(-1)});
}

// Likewise.
void StepLanes::read_backward() {
  Query row(
      run_.db,
      "SELECT e.process, e.start_ns, e.duration_ns FROM range_event e JOIN region r ON r.id = e.region WHERE e.step = ? AND"
      " r.kind = 'phase' AND r.name LIKE 'backward%'");
  row.bind(step_);
  while (row.next()) backward_[row.integer(0)].push_back({row.integer(1), row.integer(1) + row.integer(2)});
}

// Some imported traces tell when a process computes: in its layers, and at no other time.
void StepLanes::read_computing() {
  Query row(
      run_.db,
      "SELECT e.process, e.start_ns, e.duration_ns FROM process_fact f CROSS JOIN range_event e ON e.process = f.process"
      " JOIN region r ON r.id = e.region AND r.kind = 'layer' WHERE f.key = 'computes' AND f.value = 'layers' AND e.start_ns < ?2"
      " AND e.start_ns + e.duration_ns > ?1");
  row.bind(window_.begin_ns, window_.end_ns);
  while (row.next()) computing_[row.integer(0)].push_back({row.integer(1), row.integer(1) + row.integer(2)});
}

/// The rank that entered it last. One collective has thousands of members, and each of them asks.
int64_t StepLanes::last_to_enter(int64_t comm, int64_t seq, int64_t kind) {
  const auto [known, fresh] = last_to_enter_.try_emplace({comm, seq, kind}, -1);
  if (fresh) {
    Query row(
        run_.db,
        "SELECT p.rank FROM event o JOIN process p ON p.id = o.process WHERE o.comm = ? AND o.seq = ? AND o.kind = ?"
        " ORDER BY o.start_ns DESC LIMIT 1");
    if (row.bind(comm, seq, kind).next()) known->second = row.maybe_integer(0).value_or(-1);
  }
  return known->second;
}

const Lane& StepLanes::lane(int64_t rank) {
  const auto found = lanes_.find(rank);
  return found != lanes_.end() ? found->second : lanes_.emplace(rank, read(rank)).first->second;
}

void StepLanes::read_collectives(const Place& place, Lane& lane, std::vector<Interval>& waits,
                                 std::vector<Interval>& unsplit) {
  Query row(
      run_.db,
      "SELECT e.start_ns, k.wait_ns, e.comm, e.seq, e.kind, e.duration_ns FROM event e JOIN collective k ON k.event = e.id"
      " LEFT JOIN communicator c ON c.id = e.comm WHERE e.process = ? AND e.start_ns BETWEEN ? AND ? AND e.kind < 3"
      " AND (k.wait_ns > 0 OR (k.wait_ns IS NULL AND NOT (c.size IS 1 AND c.kind <> 'inter')))");
  row.bind(place.process, place.window.begin_ns, place.window.end_ns);
  while (row.next()) {
    const std::optional<int64_t> wait_ns = row.maybe_integer(1);
    if (!wait_ns) unsplit.push_back({row.integer(0), row.integer(0) + row.integer(5)});
    if (!wait_ns) continue;
    const Interval wait{row.integer(0), row.integer(0) + *wait_ns};
    waits.push_back(wait);
    lane.blocked.push_back({wait.begin_ns, wait.end_ns, last_to_enter(row.integer(2), row.integer(3), row.integer(4))});
  }
}

Lane StepLanes::read(int64_t rank) {
  const Place& place = places_.at(rank);
  Lane lane;
  lane.rank = rank;
  lane.window = place.window;
  std::vector<Interval> calls, waits, unsplit;
  const auto told = computing_.find(place.process);
  // Where it is told what computes, messages lie on threads of their own, and block the step as its own
  // thread's calls do.
  Query call(
      run_.db,
      "SELECT e.start_ns, e.duration_ns, e.op, c.size IS 1 AND c.kind <> 'inter' FROM event e LEFT JOIN communicator c ON c.id = e.comm"
      " WHERE e.process = ? AND e.start_ns BETWEEN ? AND ? AND e.kind = 1 AND (e.thread = ? OR ?)");
  call.bind(place.process, place.window.begin_ns, place.window.end_ns, place.thread,
            static_cast<int64_t>(told != computing_.end()));
  while (call.next()) {
    calls.push_back({call.integer(0), call.integer(0) + call.integer(1)});
    if (waits_unnumbered_.contains(call.integer(2)) && call.integer(3) == 0) unsplit.push_back(calls.back());
  }
  read_collectives(place, lane, waits, unsplit);
  for (const Message& message : messages_[place.process]) {
    if (!message.wait_ns) unsplit.push_back(message.call);
    if (message.wait_ns.value_or(0) <= 0) continue;
    waits.push_back({message.call.begin_ns, message.call.begin_ns + *message.wait_ns});
    lane.blocked.push_back({waits.back().begin_ns, waits.back().end_ns, message.culprit});
  }
  std::sort(lane.blocked.begin(), lane.blocked.end(),
            [](const Blocked& a, const Blocked& b) { return a.end_ns < b.end_ns; });
  const IntervalSet inside({place.window}), called = intersect(IntervalSet(calls), inside);
  lane.compute = told != computing_.end() ? intersect(IntervalSet(told->second), inside) : subtract(inside, called);
  const IntervalSet exposed = subtract(called, lane.compute);
  lane.wait = intersect(exposed, IntervalSet(waits));
  lane.unsplit = subtract(intersect(exposed, IntervalSet(unsplit)), lane.wait);
  lane.transfer = subtract(subtract(exposed, lane.wait), lane.unsplit);
  lane.backward = intersect(lane.compute, IntervalSet(backward_[place.process]));
  return lane;
}

std::vector<PathPart> critical_path(StepLanes& lanes) {
  constexpr size_t kMostParts = 100'000;  // of clocks that contradict each other
  std::vector<PathPart> path;
  if (lanes.ranks().empty()) return path;
  int64_t rank = lanes.last_rank(), now_ns = lanes.window().end_ns;
  while (path.size() < kMostParts) {
    const Lane& lane = lanes.lane(rank);
    // The last time that it waited, before now, for somebody else who recorded this step.
    auto wait = std::upper_bound(lane.blocked.begin(), lane.blocked.end(), now_ns,
                                 [](int64_t t, const Blocked& b) { return t < b.end_ns; });
    const auto usable = [&](const Blocked& b) {
      return b.culprit >= 0 && b.culprit != rank && b.end_ns > lane.window.begin_ns &&
             std::binary_search(lanes.ranks().begin(), lanes.ranks().end(), b.culprit);
    };
    while (wait != lane.blocked.begin() && !usable(*(wait - 1))) --wait;
    if (wait == lane.blocked.begin()) {
      if (now_ns > lane.window.begin_ns) path.push_back({rank, {lane.window.begin_ns, now_ns}});
      break;
    }
    --wait;
    if (wait->end_ns < now_ns) path.push_back({rank, {wait->end_ns, now_ns}});
    now_ns = wait->end_ns;
    rank = wait->culprit;
    // The one who was waited for did not itself wait at that moment: what ended there on its lane is another wait
    // of the same length.
    const std::vector<Blocked>& others = lanes.lane(rank).blocked;
    if (std::any_of(others.begin(), others.end(), [&](const Blocked& b) { return b.end_ns == now_ns; })) --now_ns;
  }
  std::reverse(path.begin(), path.end());
  return path;
}

bool calls_show_computing(const RunView& run) {
  Query hidden(run.db,
               "SELECT 1 FROM background_process b JOIN process p ON p.id = b.process WHERE p.world = ? AND NOT EXISTS"
               " (SELECT 1 FROM process_fact f WHERE f.process = p.id AND f.key = 'computes')");
  hidden.bind(run.world);
  return !hidden.next();
}

std::optional<double> clock_error_ns(const RunView& run) {
  if (run.hosts < 2) return 0;
  const std::optional<double> sigma_ns = run.clock_sigma_ns();
  return sigma_ns ? std::optional(3 * *sigma_ns) : std::nullopt;
}

std::string clock_note(const RunView& run) {
  const std::optional<double> error_ns = clock_error_ns(run);
  if (!error_ns)
    return " Clocks of the hosts are not known against each other: lanes of different hosts, and a path between them, may be off.";
  if (*error_ns <= 0) return "";
  return fmt::format(
      " Lanes of different hosts may be off by {} against each other: so much of a path between them is clock error.",
      short_duration(static_cast<int64_t>(*error_ns)));
}

}  // namespace ddl::reports::html
