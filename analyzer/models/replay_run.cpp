#include "analyzer/models/replay_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <span>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "analyzer/each_row.h"
#include "analyzer/passes/input_ranges.h"
#include "analyzer/passes/message_operation.h"
#include "analyzer/passes/operation.h"
#include "analyzer/passes/partition.h"
#include "analyzer/passes/process_events.h"
#include "analyzer/places_by_key.h"
#include "analyzer/query.h"
#include "analyzer/statistics.h"
#include "core/error.h"

namespace ddl::models {
namespace {

constexpr double kNs = 1e-9;
constexpr double kShortCallS = 10e-6;  // of a call that waits for nothing
constexpr double kAwayShare = 0.9;     // of the time in which a message stands because its other end computes
constexpr double kTellsBetter = 16;    // a variance that is less by this
constexpr size_t kSeenOften = 4;

struct Window {
  int64_t process = 0, rank = 0, thread = 0, step = 0;
  Interval interval;
};

/// One call, or one request that a call posted.
struct PartInCall {
  Replay::Op op = 0;
  Replay::Op before = 0;  ///< what ends when the call is entered, or posted
  int64_t rank = 0;
  Interval interval;
  std::optional<int64_t> xfer_ns;
};

struct Event {
  int64_t id = 0, thread = 0, kind = 0, op = 0;
  std::optional<int64_t> comm, seq, root;
  int64_t bytes = 0;
  Interval interval;
  std::optional<int64_t> xfer_ns;
  bool bounded = false;  ///< xfer_ns is an upper bound: members left no record, and the others may have waited for them
};

/// A member of a collective. A million are held.
struct Participant {
  int64_t comm = 0, seq = 0, op = 0;
  std::optional<int64_t> root;
  bool bounded = false;  ///< as Event
  PartInCall member;
};

/// Those of one collective.
class Participants {
 public:
  Participants(const std::vector<Participant>& all, std::span<const uint32_t> places) : all_(all), places_(places) {}
  size_t size() const { return places_.size(); }
  const Participant& operator[](size_t i) const { return all_[places_[i]]; }

 private:
  const std::vector<Participant>& all_;
  std::span<const uint32_t> places_;
};

/// What operations of one kind have in common.
struct KindKey {
  enum What { kBeforeCall, kAtPosition, kAtTheEnd, kTransfer, kOfOneRank } what;
  int64_t a = 0, b = 0, c = 0, d = 0;
  bool operator==(const KindKey&) const = default;
};
struct HashOfKind {
  size_t operator()(const KindKey& key) const {
    uint64_t hash = static_cast<uint64_t>(key.what);
    for (const int64_t part : {key.a, key.b, key.c, key.d})
      hash = (hash ^ static_cast<uint64_t>(part)) * 0x9e3779b97f4a7c15u ^ hash >> 29;
    return static_cast<size_t>(hash);
  }
};

/// A call of a rank.
struct Entry {
  int64_t begin_ns = 0, end_ns = 0;
  int64_t inside_ns = 0;  ///< in calls before it
  Replay::Op before = 0;  ///< what ends when it is entered
};

/// What the sends of one kind are like.
struct Sent {
  int64_t bytes = 0;
  bool buffered = false;
};

class RunReader {
 public:
  RunReader(SQLite::Database& db, int64_t world, const Regions& within, const std::optional<SmallCalls>& small)
      : db_(db),
        world_(world),
        within_(within),
        small_(small),
        member_(db, "SELECT rank FROM communicator_member WHERE communicator = ?1 AND side = 0 AND comm_rank = ?2") {
    Query ops(db, "SELECT id, name, class, nonblocking FROM op");
    while (ops.next())
      operations_.emplace(ops.integer(0), describe_operation(ops.text(1), ops.text(2), ops.integer(3) != 0));
    Query comms(db, "SELECT id, size FROM communicator");
    while (comms.next()) comm_sizes_[comms.integer(0)] = comms.integer(1);
    Query any_message(db, "SELECT 1 FROM message LIMIT 1");
    messages_ = any_message.next();
  }

  RunReplay read() {
    Query gpu(db_, "SELECT 1 FROM gpu_part g JOIN process p ON p.id = g.process WHERE p.world = ?1 LIMIT 1");
    if (gpu.bind(world_).next())
      throw Error(
          "the job computes on GPUs, and its waiting there is not in its MPI calls",
          "only jobs that compute on CPUs can be replayed so; what a faster kernel or operator would save: ddl report what_if",
          ExitCode::kDataMissing);
    Query background(db_,
                     "SELECT 1 FROM background_process b JOIN process p ON p.id = b.process WHERE p.world = ? LIMIT 1");
    if (background.bind(world_).next())
      throw Error("the job communicates from background threads, and its training threads do not wait in these calls",
                  "what a late rank costs there is its finding's saving: ddl report", ExitCode::kDataMissing);
    select_windows();
    if (!within_.empty()) read_ranges();
    read_processes();
    meet();
    pass_messages();
    find_hidden();
    find_unawaited();
    complete();
    choose_kinds();
    share_kinds();
    // The largest part of what is held, and no longer needed where most memory is.
    participants_ = {};
    by_position_ = {};
    if (unsplit_ns_ > kUnsplitShare * call_ns_)
      throw Error(fmt::format("waiting is unknown for {:.1f}% of the time inside calls", 100 * unsplit_ns_ / call_ns_),
                  "ddl report loss, or ddl analyze --metric wait_share, says why", ExitCode::kDataMissing);
    result_.undefined_waits = undefined_ns_ > kUnsplitShare * call_ns_;
    result_.replay.finish(true);
    if (!within_.empty()) result_.within_s.resize(result_.replay.ops().size(), 0);
    return std::move(result_);
  }

 private:
  void select_windows() {
    Query annotated(db_, "SELECT max(annotated) FROM steady_step WHERE world = ?1");
    const bool steps = annotated.bind(world_).next() && annotated.integer(0) != 0;
    int64_t first = INT64_MIN;
    if (steps) {
      const std::map<int64_t, int64_t> events = count_events();
      int64_t sum = 0;
      for (auto step = events.rbegin(); step != events.rend(); ++step) {
        if (result_.steps > 0 && (sum += step->second) > kMostReplayedEvents) {
          ++result_.left_out;
          continue;
        }
        first = step->first;
        ++result_.steps;
        events_ += step->second;
      }
    }
    Query rows(
        db_,
        steps
            ? "SELECT s.process, p.rank, s.thread, s.step, s.start_ns, s.start_ns + s.duration_ns FROM step s JOIN process p ON p.id = "
              "s.process JOIN steady_step y ON y.world = p.world AND y.step = s.step WHERE p.world = ?1 AND s.step >= ?2 AND "
              "s.measured AND s.duration_ns IS NOT NULL AND p.rank IS NOT NULL AND (p.world, p.rank) NOT IN (SELECT world, rank FROM torn_rank) ORDER BY p.rank, s.start_ns"
            : "SELECT p.id, p.rank, 0, 0, coalesce(p.init_ns, p.start_ns), coalesce(p.finalize_ns, p.end_ns) FROM process p WHERE "
              "p.world = ?1 AND ?2 = ?2 AND p.rank IS NOT NULL AND (p.world, p.rank) NOT IN (SELECT world, rank FROM torn_rank) ORDER BY p.rank");
    for (rows.bind(world_, first); rows.next();)
      windows_.push_back(
          {rows.integer(0), rows.integer(1), rows.integer(2), rows.integer(3), {rows.integer(4), rows.integer(5)}});
    if (!steps) result_.steps = 1;
    if (windows_.empty())
      throw Error("the run has nothing to replay", "ddl report loss says what is missing", ExitCode::kDataMissing);
    Query kept(
        db_,
        steps
            ? "SELECT count(*) FROM step_part t JOIN process p ON p.id = t.process JOIN steady_step y ON y.world = p.world AND "
              "y.step = t.step WHERE p.world = ?1 AND t.step >= ?2 AND t.comm_ns IS NULL AND (p.world, p.rank) NOT IN (SELECT world, rank FROM "
              "torn_rank)"
            : "SELECT count(*) FROM rank_part t JOIN process p ON p.id = t.process WHERE p.world = ?1 AND ?2 = ?2 AND t.comm_ns IS NULL"
              " AND (p.world, p.rank) NOT IN (SELECT world, rank FROM torn_rank)");
    if (kept.bind(world_, first).next() && kept.integer(0) > 0)
      throw Error("not all events of the steps were kept", "ddl record --steps A:B keeps all of those steps",
                  ExitCode::kDataMissing);
    double sum_ns = 0;
    for (const Window& window : windows_) sum_ns += static_cast<double>(window.interval.length_ns());
    result_.recorded_step_s = sum_ns * kNs / static_cast<double>(windows_.size());
  }

  /// Events of the world's steady steps.
  std::map<int64_t, int64_t> count_events() {
    std::map<int64_t, int64_t> counts;
    std::unordered_set<int64_t> processes;
    Query of_world(db_, "SELECT id FROM process WHERE world = ?1");
    for (of_world.bind(world_); of_world.next();) processes.insert(of_world.integer(0));
    Query steady(db_, "SELECT step FROM steady_step WHERE world = ?1");
    for (steady.bind(world_); steady.next();) counts[steady.integer(0)] = 0;
    auto at = counts.end();
    int64_t process = -1;
    bool counts_here = false;
    // Grouped by process: what the last event said holds for the next one mostly.
    EachRow(db_, "process, step", "event NOT INDEXED").run([&](const RowValues& event) {
      if (event.is_null(1)) return;
      if (const int64_t of_row = event.integer(0); of_row != std::exchange(process, of_row))
        counts_here = processes.contains(of_row);
      if (!counts_here) return;
      const int64_t step = event.integer(1);
      if (at == counts.end() || at->first != step) at = counts.find(step);
      if (at != counts.end()) ++at->second;
    });
    std::erase_if(counts, [](const auto& step) { return step.second == 0; });
    return counts;
  }

  /// Those that were asked for.
  void read_ranges() {
    std::unordered_set<int64_t> processes;
    std::map<std::pair<int64_t, int64_t>, std::vector<Interval>> ranges;
    for (const Window& window : windows_) processes.insert(window.process);
    EachRow(db_, "process, thread, region, start_ns, duration_ns", "range_event WHERE step IS NOT NULL")
        .run([&](const RowValues& range) {
          if (!within_.contains(range.integer(2)) || !processes.contains(range.integer(0))) return;
          ranges[{range.integer(0), range.integer(1)}].push_back(
              {range.integer(3), range.integer(3) + range.integer(4)});
        });
    for (auto& [thread, of_thread] : ranges) ranges_.emplace(thread, IntervalSet(std::move(of_thread)));
  }

  /// What of [begin, end) is within them.
  int64_t within_ns(const Window& window, int64_t begin_ns, int64_t end_ns) const {
    const auto of_thread = ranges_.find({window.process, window.thread});
    if (of_thread == ranges_.end()) return 0;
    const std::vector<Interval>& ranges = of_thread->second.parts();
    int64_t ns = 0;
    auto range = std::lower_bound(ranges.begin(), ranges.end(), begin_ns,
                                  [](const Interval& r, int64_t t) { return r.end_ns <= t; });
    for (; range != ranges.end() && range->begin_ns < end_ns; ++range)
      ns += std::min(end_ns, range->end_ns) - std::max(begin_ns, range->begin_ns);
    return ns;
  }

  void read_processes() {
    ProcessEvents of_processes(db_);
    EachRow rows(
        db_,
        "e.id, e.thread, e.kind, e.op, e.comm, e.seq, e.start_ns, e.duration_ns, coalesce(k.bytes, e.bytes), e.peer, k.xfer_ns,"
        " k.wait_method IS 'lower-bound'",
        fmt::format("{} LEFT JOIN collective k ON k.event = e.id WHERE {} AND e.start_ns BETWEEN ?3 AND ?4",
                    of_processes.table(), of_processes.condition()));
    const auto events_held = static_cast<size_t>(events_);
    participants_.reserve(events_held);
    by_position_.reserve(events_held + windows_.size());
    result_.replay.reserve(2 * events_held + windows_.size());
    std::vector<Event> events;  // of a window
    for (size_t first = 0, end = 0; first < windows_.size(); first = end) {
      // Steps of one thread do not overlap: all of a process are filled as its events come.
      const int64_t process = windows_[first].process;
      do {
        ++end;
      } while (of_processes.in_order() && end < windows_.size() && windows_[end].process == process);
      if (first == 0 || windows_[first - 1].process != process) before_.reset();
      size_t at = first;
      const auto close = [&] {
        // Calls before the requests that they posted. They lie so nearly everywhere.
        const auto before = [](const Event& a, const Event& b) {
          return std::tie(a.interval.begin_ns, a.kind, a.id) < std::tie(b.interval.begin_ns, b.kind, b.id);
        };
        if (!std::is_sorted(events.begin(), events.end(), before)) std::sort(events.begin(), events.end(), before);
        read_window(windows_[at++], events);
        events.clear();
      };
      const auto add = [&](const RowValues& row) {
        if (row.integer(2) > 2) return;  // neither a call of MPI nor a request
        const int64_t begin_ns = row.integer(6);
        while (at < end && begin_ns >= windows_[at].interval.end_ns) close();
        if (at < end && begin_ns >= windows_[at].interval.begin_ns) events.push_back(event_of(row));
      };
      const ProcessEvents::Parameters where = of_processes.of(process, windows_[first].interval.begin_ns);
      rows.run(add, where.first, where.second, windows_[first].interval.begin_ns,
               windows_[end - 1].interval.end_ns - 1);
      while (at < end) close();
    }
  }

  static Event event_of(const RowValues& row) {
    return {row.integer(0),        row.integer(1),       row.integer(2),
            row.integer(3),        row.maybe_integer(4), row.maybe_integer(5),
            row.maybe_integer(9),  row.integer(8),       {row.integer(6), row.integer(6) + row.integer(7)},
            row.maybe_integer(10), row.integer(11) != 0};
  }

  void read_window(const Window& window, const std::vector<Event>& events) {
    std::map<std::pair<int64_t, int64_t>, int64_t> seen;  // operation and bytes: how often in this step
    std::multimap<int64_t, PartInCall> pending;           // requests, by when they were seen to be over
    int64_t now = window.interval.begin_ns, position = 0;
    for (size_t i = 0; i < events.size(); ++i) {
      const Event& event = events[i];
      // of a call, or within another one
      if (event.kind == 2 || event.thread != window.thread || event.interval.begin_ns < now) continue;
      const int64_t number = seen[{event.op, event.bytes}]++;
      const Replay::Op compute =
          add_compute(window, now, event.interval.begin_ns, {KindKey::kBeforeCall, event.op, event.bytes, number},
                      {KindKey::kAtPosition, position++});
      for (size_t r = i + 1; r < events.size() && events[r].interval.begin_ns == event.interval.begin_ns; ++r)
        if (events[r].kind == 2) add_request(window, events[r], operations_.at(events[r].op), compute, pending);
      const int64_t end_ns = std::min(event.interval.end_ns, window.interval.end_ns);
      before_ = add_call(window, event, operations_.at(event.op), compute, pending, end_ns);
      now = end_ns;
    }
    before_ = add_compute(window, now, window.interval.end_ns, {KindKey::kAtTheEnd}, {KindKey::kAtTheEnd});
  }

  /// For a kind that is decided when all have been read: by the call that follows, or by its place in the step.
  Replay::Op add_compute(const Window& window, int64_t begin_ns, int64_t end_ns, const KindKey& by_call,
                         const KindKey& by_position) {
    const Replay::Op op = add(window, kind_of(by_call, "compute", false), static_cast<double>(end_ns - begin_ns) * kNs);
    if (before_) result_.replay.after(op, *before_);
    by_position_.emplace_back(op, kind_of(by_position, "compute", false));
    if (!within_.empty()) {
      result_.within_s.resize(op + 1, 0);
      result_.within_s[op] = static_cast<double>(within_ns(window, begin_ns, end_ns)) * kNs;
    }
    return op;
  }

  Replay::Op add_call(const Window& window, const Event& event, const Operation& operation, Replay::Op compute,
                      std::multimap<int64_t, PartInCall>& pending, int64_t end_ns) {
    const double seconds = static_cast<double>(end_ns - event.interval.begin_ns) * kNs;
    call_ns_ += static_cast<double>(end_ns - event.interval.begin_ns);
    if (operation.waits_unnumbered) undefined_ns_ += static_cast<double>(end_ns - event.interval.begin_ns);
    const auto [first, last] = pending.equal_range(event.interval.end_ns);
    const bool collective = event.seq && event.comm && !operation.nonblocking;
    const Replay::Op op = add(window, transfer_kind(event, operation), seconds);
    result_.replay.after(op, compute);
    for (auto request = first; request != last; ++request) {
      result_.replay.after(op, request->second.op);
      completions_.emplace_back(op, request->second.op);
    }
    pending.erase(first, last);
    const PartInCall member{op, compute, window.rank, {event.interval.begin_ns, end_ns}, event.xfer_ns};
    if (messages_) {
      members_by_event_[event.id] = member;
      std::vector<Entry>& entries = entries_[window.rank];
      const int64_t inside_ns =
          entries.empty() ? 0 : entries.back().inside_ns + entries.back().end_ns - entries.back().begin_ns;
      entries.push_back({event.interval.begin_ns, end_ns, inside_ns, compute});
    }
    if (message_operation(operation).role == MessageRole::kProbe) probes_.insert(op);
    if (collective) participants_.push_back({*event.comm, *event.seq, event.op, event.root, event.bounded, member});
    if (collective && small_ && event.op == small_->op && event.bytes > 0 && event.bytes <= small_->most_bytes &&
        small_->fused_s.contains(*event.comm))
      result_.small.push_back({op, *event.comm});
    return op;
  }

  // A transfer beside the calls, from when it was posted.
  void add_request(const Window& window, const Event& event, const Operation& operation, Replay::Op posted,
                   std::multimap<int64_t, PartInCall>& pending) {
    result_.nonblocking = true;
    const Replay::Op op = add(window, transfer_kind(event, operation), 0);
    result_.replay.after(op, posted);
    const PartInCall member{op, posted, window.rank, event.interval, event.xfer_ns};
    pending.emplace(event.interval.end_ns, member);
    if (messages_) members_by_event_[event.id] = member;
    result_.nonblocking_messages |= !event.seq || !event.comm;
    if (event.seq && event.comm)
      participants_.push_back({*event.comm, *event.seq, event.op, event.root, event.bounded, member});
  }

  size_t transfer_kind(const Event& event, const Operation& operation) {
    const int64_t size = event.comm ? comm_sizes_[*event.comm] : 0;
    const size_t kind =
        kind_of({KindKey::kTransfer, event.kind, event.op, size, event.bytes}, operation.name, true, event.kind == 2);
    if (messages_ && kind >= sent_.size()) {
      sent_.resize(kind + 1);
      sent_[kind] = {event.bytes, message_operation(operation).buffered};
    }
    return kind;
  }

  size_t kind_of(const KindKey& key, const std::string& type, bool transfer, bool upper_bound = false) {
    const auto [at, fresh] = kinds_.try_emplace(key, 0);
    if (fresh) at->second = result_.replay.add_kind(type, transfer, upper_bound);
    return at->second;
  }

  Replay::Op add(const Window& window, size_t kind, double seconds) {
    return result_.replay.add(
        {.rank = window.rank, .step = window.step, .kind = kind, .seconds = std::max(0.0, seconds)});
  }

  std::optional<int64_t> rank_of(int64_t comm, std::optional<int64_t> comm_rank) {
    if (!comm_rank) return std::nullopt;
    return member_.bind(comm, *comm_rank).next() ? member_.maybe_integer(0) : std::nullopt;
  }

  /// What a collective takes in which members without a record may have kept the others waiting: what its like take of
  /// which all members are known, else the shortest of its like. By kind.
  std::unordered_map<size_t, int64_t> typical_transfers() const {
    std::unordered_map<size_t, std::vector<double>> known;
    std::unordered_map<size_t, int64_t> shortest;
    for (const Participant& one : participants_) {
      if (!one.member.xfer_ns) continue;
      const size_t kind = result_.replay.ops()[one.member.op].kind;
      if (!one.bounded) known[kind].push_back(static_cast<double>(*one.member.xfer_ns));
      const auto [at, fresh] = shortest.try_emplace(kind, *one.member.xfer_ns);
      if (!fresh) at->second = std::min(at->second, *one.member.xfer_ns);
    }
    for (auto& [kind, xfers_ns] : known) shortest[kind] = static_cast<int64_t>(median_of(xfers_ns));
    return shortest;
  }

  /// Places of the participants in the order of communicators and numbers.
  std::vector<uint32_t> by_collective() const {
    const auto key = [](const Participant& one) { return std::pair(one.comm, one.seq); };
    const auto narrow = [](int64_t number) { return number >= 0 && number <= INT32_MAX; };
    PlacesByKey places;
    places.reserve(participants_.size());
    for (const Participant& one : participants_) {
      if (!narrow(one.comm) || !narrow(one.seq)) break;
      places.add(static_cast<uint64_t>(one.comm) << 32 | static_cast<uint64_t>(one.seq));
    }
    std::vector<uint32_t> order = places.sorted();
    if (order.size() == participants_.size()) return order;
    order.resize(participants_.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](uint32_t a, uint32_t b) { return key(participants_[a]) < key(participants_[b]); });
    return order;
  }

  void meet() {
    int64_t group = 0;
    std::unordered_map<size_t, int64_t> typical;
    const bool any_bound =
        std::any_of(participants_.begin(), participants_.end(), [](const Participant& one) { return one.bounded; });
    if (any_bound) typical = typical_transfers();
    const std::vector<uint32_t> order = by_collective();
    for (auto first = order.begin(), last = first; first != order.end(); first = last) {
      const Participant& head = participants_[*first];
      last = std::find_if(first, order.end(), [&](uint32_t place) {
        return participants_[place].comm != head.comm || participants_[place].seq != head.seq;
      });
      const Participants members(participants_, std::span(first, last));
      const Operation& operation = operations_.at(head.op);
      if (operation.wait == WaitRule::kSymmetric) {
        std::optional<int64_t> shortest;
        int64_t last_ns = INT64_MIN;  // when the last of them came
        for (size_t i = 0; i < members.size(); ++i) {
          const PartInCall& member = members[i].member;
          last_ns = std::max(last_ns, member.interval.begin_ns);
          if (member.xfer_ns && (!shortest || *member.xfer_ns < *shortest)) shortest = member.xfer_ns;
        }
        // Whose clocks do not say who posted last: nobody had it under way for less than it took.
        if (operation.nonblocking && !shortest && static_cast<int64_t>(members.size()) == comm_sizes_[head.comm])
          for (size_t i = 0; i < members.size(); ++i)
            shortest = std::min(shortest.value_or(INT64_MAX), members[i].member.interval.length_ns());
        for (size_t i = 0; i < members.size(); ++i) {
          const PartInCall& member = members[i].member;
          std::optional<int64_t> xfer_ns = operation.nonblocking ? shortest : member.xfer_ns;
          if (xfer_ns && members[i].bounded)
            xfer_ns = std::min(*xfer_ns, typical.at(result_.replay.ops()[member.op].kind));
          if (operation.nonblocking) posted_ns_[member.op] = last_ns;
          if (xfer_ns) {
            result_.replay.meet(member.op, group, static_cast<double>(*xfer_ns) * kNs);
          } else {
            unsplit_ns_ += static_cast<double>(member.interval.length_ns());
          }
        }
        ++group;
      } else if (operation.wait != WaitRule::kNone) {
        meet_root(operation, members, group++);
      } else if (members.size() > 1) {
        for (size_t i = 0; i < members.size(); ++i)
          unsplit_ns_ += static_cast<double>(members[i].member.interval.length_ns());
      }
    }
  }

  void meet_root(const Operation& operation, const Participants& members, int64_t group) {
    const std::optional<int64_t> root = rank_of(members[0].comm, members[0].root);
    size_t at = 0;
    while (at < members.size() && !(root && members[at].member.rank == *root)) ++at;
    for (size_t i = 0; i < members.size(); ++i) {
      const PartInCall& member = members[i].member;
      if (at == members.size() || !member.xfer_ns) {
        unsplit_ns_ += static_cast<double>(member.interval.length_ns());
      } else if (operation.wait == WaitRule::kLateRoot && i != at) {
        result_.replay.after(member.op, members[at].member.before);
        result_.replay.meet(member.op, -1, static_cast<double>(*member.xfer_ns) * kNs);
      } else if (operation.wait == WaitRule::kEarlyRoot && i == at) {
        gather(operation, members, member, group);
      }
    }
  }

  // The root leaves when all have come. So may others, where a member passes on what those behind it sent: who left
  // after the last had come is taken to have waited for it. Who left before, but after the root had come, waited for
  // the root; the others for nobody.
  void gather(const Operation& operation, const Participants& members, const PartInCall& root, int64_t group) {
    int64_t last_ns = root.interval.begin_ns;
    bool all = true;
    for (size_t i = 0; i < members.size(); ++i) {
      const PartInCall& member = members[i].member;
      if (member.op != root.op && member.interval.begin_ns >= root.interval.end_ns) {
        all = false;  // it had nothing to send
        continue;
      }
      result_.replay.after(root.op, member.before);
      last_ns = std::max(last_ns, member.interval.begin_ns);
    }
    result_.replay.meet(root.op, group,
                        static_cast<double>(std::max<int64_t>(0, root.interval.end_ns - last_ns)) * kNs);
    if (operation.nonblocking) return;  // when the others' parts were over is not known: they computed meanwhile
    for (size_t i = 0; i < members.size(); ++i) {
      const PartInCall& member = members[i].member;
      const auto [begin_ns, end_ns] = member.interval;
      if (member.op == root.op || end_ns <= root.interval.begin_ns) continue;
      if (all && end_ns > last_ns) {
        result_.replay.meet(member.op, group, static_cast<double>(end_ns - last_ns) * kNs);
      } else {
        result_.replay.after(member.op, root.before);
        result_.replay.meet(member.op, -1,
                            static_cast<double>(end_ns - std::max(begin_ns, root.interval.begin_ns)) * kNs);
      }
    }
  }

  /// Both ends of it are known.
  struct Message {
    const PartInCall *send, *receive;
    const PartInCall* awaits;  ///< what waits for the send: the receive, or the MPI_Probe before it
    /// in which the sender may have waited for the receiver; null: in none, or that is not known
    const PartInCall* send_call;
    const PartInCall* receive_call;
    int64_t margin_ns;  ///< by less than this nobody knows which of both came first
  };

  /// A call in which messages are seen to be over.
  struct Exchange {
    int64_t last_ns = INT64_MIN;             ///< when the last that it waited for came
    int64_t stood_ns = INT64_MIN;            ///< until when one of its messages stood: see find_standing()
    std::optional<Replay::Op> receive = {};  ///< something that it receives
  };

  std::vector<Message> read_messages() {
    constexpr double kSureSigmas = 10;
    std::vector<Message> messages;
    Query rows(db_, "SELECT send, receive, send_call, receive_call, late_receiver_wait_ns, sigma_ns FROM message");
    const auto find = [&](int column) -> const PartInCall* {
      const auto at = rows.is_null(column) ? members_by_event_.end() : members_by_event_.find(rows.integer(column));
      return at == members_by_event_.end() ? nullptr : &at->second;
    };
    while (rows.next()) {
      const PartInCall *send = find(0), *receive = find(1);
      if (!send || !receive) {  // the other end is not known, or not in these steps
        const bool unknown = rows.is_null(0) || rows.is_null(1);
        if (const PartInCall* one = send ? send : receive; one && unknown)
          unsplit_ns_ += static_cast<double>(one->interval.length_ns());
        continue;
      }
      if (send->op == receive->op) continue;
      const double sigma_ns = rows.is_null(5) ? 0 : rows.real(5);
      const bool may_wait = !rows.is_null(4) && !sent_[result_.replay.ops()[send->op].kind].buffered;
      const PartInCall* receive_call = find(3);
      const bool probed = receive_call && probes_.contains(receive_call->op);
      messages.push_back({send, receive, probed ? receive_call : receive, may_wait ? find(2) : nullptr, receive_call,
                          static_cast<int64_t>(kSureSigmas * sigma_ns)});
    }
    return messages;
  }

  // A receive never ends before its send begins. A send may: small ones are eager, and over before anybody receives
  // them. Up to which size is seen from those; in a call that receives as well a send of that size is not what it
  // waited for. Of larger ones the sender waits until the receive is posted. What several messages of one call took is
  // known from when the last of them could begin.
  void pass_messages() {
    const std::vector<Message> messages = read_messages();
    const auto bytes = [&](const Message& m) { return sent_[result_.replay.ops()[m.send->op].kind].bytes; };
    const auto awaited = [](const Message& m) {
      if (!m.send_call) return false;
      const int64_t waited_ns = m.receive->interval.begin_ns - m.send_call->interval.begin_ns;
      const int64_t rest_ns = m.send_call->interval.end_ns - m.receive->interval.begin_ns;
      return waited_ns > 0 && rest_ns > 0 && std::max(waited_ns, rest_ns) > m.margin_ns;
    };
    std::unordered_map<Replay::Op, Exchange> exchanges;  // by call
    int64_t eager_bytes = -1;
    for (const Message& m : messages) {
      Exchange& exchange = exchanges[m.receive_call ? m.receive_call->op : m.receive->op];
      exchange.receive = m.awaits->op;
      if (const int64_t came_ns = m.send->interval.begin_ns; came_ns < m.awaits->interval.end_ns)
        exchange.last_ns = std::max(exchange.last_ns, came_ns);
      if (m.send_call && m.receive->interval.begin_ns > m.send_call->interval.end_ns + m.margin_ns)
        eager_bytes = std::max(eager_bytes, bytes(m));
    }
    int64_t least_bytes = INT64_MAX;  // of those that were not eager
    std::vector<bool> binds(messages.size(), false);
    for (size_t i = 0; i < messages.size(); ++i) {
      const Message& m = messages[i];
      if (!awaited(m)) continue;
      Exchange& exchange = exchanges[m.send_call->op];
      if (bytes(m) <= eager_bytes && exchange.receive) continue;
      binds[i] = true;
      exchange.last_ns = std::max(exchange.last_ns, m.receive->interval.begin_ns);
      if (bytes(m) > eager_bytes) least_bytes = std::min(least_bytes, bytes(m));
    }
    std::vector<End> ends;
    for (size_t i = 0; i < messages.size(); ++i) {
      const Message& m = messages[i];
      result_.replay.after(m.awaits->op, m.send->before);
      ends.push_back({m.awaits, m.receive_call, m.send->rank, m.margin_ns,
                      &exchanges.at(m.receive_call ? m.receive_call->op : m.receive->op)});
      const bool came_before =
          m.send_call && m.receive->interval.begin_ns + m.margin_ns <= m.send_call->interval.begin_ns;
      if (!binds[i] && !(came_before && bytes(m) >= least_bytes)) continue;
      const auto exchange = exchanges.find(m.send_call->op);
      const bool both = m.send->op == m.send_call->op && exchange != exchanges.end() && exchange->second.receive;
      // one call, one operation that takes time
      result_.replay.after(both ? *exchange->second.receive : m.send->op, m.receive->before);
      if (binds[i] && !both) ends.push_back({m.send, m.send_call, m.receive->rank, m.margin_ns, &exchange->second});
    }
    for (End& end : ends) find_standing(end);
    const std::unordered_map<size_t, Transfers> transfers = transfers_of(ends);
    for (const End& end : ends) transfer(end, transfers.at(result_.replay.ops()[end.part->op].kind));
  }

  /// One end of a message that waits for the other.
  struct End {
    const PartInCall* part;
    const PartInCall* call;  ///< in which it was over; null: not known
    int64_t other;           ///< rank
    int64_t margin_ns;
    Exchange* exchange;
    const Entry* moved_by = nullptr;  ///< the other rank's call that it stood until, if it did

    /// When all had come that its call waited for.
    int64_t begin_ns() const { return std::max(part->interval.begin_ns, exchange->last_ns); }
    bool is_request() const { return call && call->op != part->op; }
    /// Its call waited, and so was left when it was over. `request`: it is one, not a call.
    bool is_seen(bool request) const {
      return call ? !is_request() || static_cast<double>(call->interval.length_ns()) * kNs > kShortCallS : !request;
    }
    /// Since then, within its call.
    int64_t in_call_ns(int64_t since_ns) const {
      const int64_t begin = is_request() ? std::max(since_ns, call->interval.begin_ns) : since_ns;
      return std::max<int64_t>(0, part->interval.end_ns - begin);
    }
  };

  // Many libraries move a message only while both ranks are inside a call: one that was sent before a rank computes
  // stands until it calls again.
  void find_standing(End& end) const {
    const auto rank = entries_.find(end.other);
    if (rank == entries_.end()) return;
    const std::vector<Entry>& entries = rank->second;
    const auto last_before = [&](int64_t at_ns) {
      return std::upper_bound(entries.begin(), entries.end(), at_ns,
                              [](int64_t ns, const Entry& entry) { return ns < entry.begin_ns; });
    };
    const auto inside_ns = [&](int64_t at_ns) {
      const auto next = last_before(at_ns);
      if (next == entries.begin()) return int64_t{0};
      const Entry& entry = *std::prev(next);
      return entry.inside_ns + std::min(at_ns, entry.end_ns) - entry.begin_ns;
    };
    const auto next = last_before(end.part->interval.end_ns - end.margin_ns);
    if (next == entries.begin()) return;
    const Entry& entry = *std::prev(next);
    const int64_t stood_ns = entry.begin_ns - end.begin_ns();
    if (stood_ns <= end.margin_ns) return;
    const int64_t inside = inside_ns(entry.begin_ns) - inside_ns(end.begin_ns());
    if (static_cast<double>(inside) > (1 - kAwayShare) * static_cast<double>(stood_ns)) return;
    end.moved_by = &entry;
    end.exchange->stood_ns = std::max(end.exchange->stood_ns, entry.begin_ns);
  }

  /// What is known of a kind from those of which the end was seen.
  struct Transfers {
    bool stand = false;                      ///< until the other rank calls: that tells better how long they take
    bool always = false;                     ///< most of them do
    std::optional<int64_t> typical_ns = {};  ///< since all had come
  };

  std::unordered_map<size_t, Transfers> transfers_of(const std::vector<End>& ends) const {
    struct Seen {
      std::vector<double> since_all_ns, since_moved_ns;
      size_t stood = 0;
    };
    std::unordered_map<size_t, Seen> seen;
    std::unordered_map<size_t, Transfers> result;
    for (const End& end : ends) {
      const size_t kind = result_.replay.ops()[end.part->op].kind;
      result.try_emplace(kind);
      if (!end.is_seen(result_.replay.kinds()[kind].upper_bound)) continue;
      Seen& of = seen[kind];
      of.since_all_ns.push_back(static_cast<double>(end.in_call_ns(end.begin_ns())));
      of.since_moved_ns.push_back(
          static_cast<double>(end.in_call_ns(std::max(end.begin_ns(), end.exchange->stood_ns))));
      of.stood += end.moved_by ? 1 : 0;
    }
    const auto scatter = [](const std::vector<double>& values) {
      const double mean = std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
      double sum = 0;
      for (const double value : values) sum += (value - mean) * (value - mean);
      return sum;
    };
    for (auto& [kind, of] : seen) {
      if (of.since_all_ns.size() < kSeenOften) continue;
      Transfers& transfers = result.at(kind);
      transfers.stand = kTellsBetter * scatter(of.since_moved_ns) < scatter(of.since_all_ns);
      transfers.always = 2 * of.stood > of.since_all_ns.size();
      transfers.typical_ns = static_cast<int64_t>(median_of(of.since_all_ns));
    }
    return result;
  }

  // It takes the time since all have come that its call waited for; if it stood, since it moved, and both were inside
  // calls. That it stood is for the other rank's computing: where that is the job's way, it stands as long as that
  // computes; where few do, those of a late rank, it would not have, had others waited for nothing (a ring of buffered
  // sends: who waits in a call moves what it sent). One that was over when its rank asked, since that computed, or
  // waited for another one, took less: no more than its like.
  void transfer(const End& end, const Transfers& transfers) {
    int64_t begin_ns = end.begin_ns();
    if (transfers.stand) {
      if (end.moved_by && transfers.always) result_.replay.after(end.part->op, end.moved_by->before);
      begin_ns = std::max(begin_ns, end.exchange->stood_ns);
      if (end.is_request()) {
        result_.replay.after(end.part->op, end.call->before);
        begin_ns = std::max(begin_ns, end.call->interval.begin_ns);
      }
    }
    int64_t took_ns = std::max<int64_t>(0, end.part->interval.end_ns - begin_ns);
    const bool request = result_.replay.kinds()[result_.replay.ops()[end.part->op].kind].upper_bound;
    if (!transfers.stand && !end.is_seen(request) && transfers.typical_ns)
      took_ns = std::min(took_ns, *transfers.typical_ns);
    result_.replay.meet(end.part->op, -1, static_cast<double>(took_ns) * kNs);
  }

  // Ranks that run the same program compute alike in the same place of a step; stages of a pipeline before the same
  // call. Whichever kinds hold durations that differ less are taken.
  void choose_kinds() {
    const Replay& replay = result_.replay;
    const auto scatter = [&](auto kind_at) {
      std::vector<double> sum(replay.kinds().size()), count(replay.kinds().size());
      for (const auto& one : by_position_) sum[kind_at(one)] += replay.ops()[one.first].seconds, ++count[kind_at(one)];
      double total = 0;
      for (const auto& one : by_position_) {
        const double off = replay.ops()[one.first].seconds - sum[kind_at(one)] / count[kind_at(one)];
        total += off * off;
      }
      return total;
    };
    const double by_call = scatter([&](const auto& one) { return replay.ops()[one.first].kind; });
    if (scatter([](const auto& one) { return one.second; }) < by_call)
      for (const auto& [op, kind] : by_position_) result_.replay.relabel(op, kind);
  }

  // Computing that only one rank does in its place has no mean over ranks: all of it is one kind.
  void share_kinds() {
    const Replay& replay = result_.replay;
    constexpr int64_t kNobody = -1, kSeveral = -2;
    std::vector<int64_t> who(replay.kinds().size(), kNobody);
    for (const ReplayOp& op : replay.ops()) {
      int64_t& rank = who[op.kind];
      rank = rank == kNobody || rank == op.rank ? op.rank : kSeveral;
    }
    const size_t alone = kind_of({KindKey::kOfOneRank}, "compute", false);
    for (const auto& [op, kind] : by_position_)
      if (who[replay.ops()[op].kind] != kSeveral) result_.replay.relabel(op, alone);
  }

  // Transfers go on one after the other behind computing, and all are seen to be over in the call that waits for them.
  // Only from when the last of them was posted was there nothing else to wait for: what the others took before lies
  // behind computing, and moves with it.
  void find_hidden() {
    std::unordered_map<Replay::Op, int64_t> newest;  // by call
    for (const auto& [call, request] : completions_)
      if (const auto posted = posted_ns_.find(request); posted != posted_ns_.end()) {
        int64_t& ns = newest.try_emplace(call, posted->second).first->second;
        ns = std::max(ns, posted->second);
      }
    std::unordered_set<int64_t> last;  // groups
    for (const auto& [call, request] : completions_)
      if (const auto posted = posted_ns_.find(request); posted != posted_ns_.end() && posted->second == newest.at(call))
        last.insert(result_.replay.ops()[request].group);
    for (const auto& [request, ns] : posted_ns_)
      if (!last.contains(result_.replay.ops()[request].group)) result_.hidden.push_back(request);
  }

  // A transfer that was over when a rank asked, on all ranks, may have been for long.
  void find_unawaited() {
    std::unordered_set<int64_t> awaited;  // groups
    const std::vector<ReplayOp>& ops = result_.replay.ops();
    for (const auto& [call, request] : completions_)
      if (ops[call].seconds > kShortCallS) awaited.insert(ops[request].group);
    for (const auto& [request, ns] : posted_ns_)
      if (!awaited.contains(ops[request].group)) result_.unawaited.push_back(request);
  }

  // A call in which a transfer was seen to be over waits for it, and takes no time of its own.
  void complete() {
    for (const auto& [call, request] : completions_)
      if (result_.replay.ops()[request].seconds > 0) result_.replay.meet(call, -1, 0);
  }

  SQLite::Database& db_;
  int64_t world_;
  const Regions& within_;
  const std::optional<SmallCalls> small_;
  std::map<std::pair<int64_t, int64_t>, IntervalSet> ranges_;  ///< by process and thread
  int64_t events_ = 0;                                         ///< of the steps that are replayed; 0 without steps
  Query member_;
  RunReplay result_;
  std::unordered_map<int64_t, Operation> operations_;
  std::unordered_map<int64_t, int64_t> comm_sizes_;
  std::vector<Window> windows_;
  std::optional<Replay::Op> before_;  ///< the last operation of the process that is read
  std::unordered_map<KindKey, size_t, HashOfKind> kinds_;
  std::vector<Sent> sent_;                                    ///< by kind
  std::vector<Participant> participants_;                     ///< in the order of reading
  bool messages_ = false;                                     ///< the run has any
  std::unordered_map<int64_t, PartInCall> members_by_event_;  ///< for messages
  std::unordered_map<int64_t, std::vector<Entry>> entries_;   ///< of messages' ranks, in the order of time
  std::unordered_set<Replay::Op> probes_;                     ///< calls that wait for a message and leave it there
  std::vector<std::pair<Replay::Op, size_t>> by_position_;    ///< computing, and its kind by its place in the step
  /// of non-blocking collectives: when the last member posted
  std::unordered_map<Replay::Op, int64_t> posted_ns_;
  std::vector<std::pair<Replay::Op, Replay::Op>> completions_;  ///< call, request that completed in it
  double call_ns_ = 0, unsplit_ns_ = 0, undefined_ns_ = 0;
};

}  // namespace

std::map<int64_t, int64_t> stages_of(SQLite::Database& db, int64_t world) {
  std::map<int64_t, int64_t> stages;
  Query rows(
      db,
      "SELECT p.rank, l.stage FROM process p LEFT JOIN pipeline l ON l.process = p.id WHERE p.world = ?1 AND p.rank IS NOT NULL");
  for (rows.bind(world); rows.next(); stages[rows.integer(0)] = rows.integer(1))
    if (rows.is_null(1)) return {};
  return stages;
}

std::vector<int64_t> last_gpu_steps(SQLite::Database& db, int64_t world, std::optional<int64_t> since) {
  Query counted(db, R"(
    SELECT n.step, count(*)
    FROM steady_number n
    JOIN process p ON p.world = n.world
    JOIN gpu_event g ON g.process = p.id AND g.step = n.step
    WHERE n.world = ? AND g.kind IN (1, 2, 3) AND g.duration_ns > 0
    GROUP BY n.step
    ORDER BY n.step DESC)");
  counted.bind(world);
  std::vector<int64_t> steps;
  int64_t held = 0;
  while (counted.next()) {
    if (since && counted.integer(0) < *since) break;
    held += 2 * counted.integer(1);
    if (held > kMostReplayedEvents) break;
    steps.push_back(counted.integer(0));
  }
  std::reverse(steps.begin(), steps.end());
  return steps;
}

RunReplay replay_run(SQLite::Database& db, int64_t world, const Regions& within,
                     const std::optional<SmallCalls>& small) {
  return RunReader(db, world, within, small).read();
}

Regions regions_of_layer(SQLite::Database& db, const std::string& layer) {
  Regions regions;
  Query rows(db, "SELECT id FROM region WHERE kind = 'layer' AND layer = ?");
  for (rows.bind(layer); rows.next();) regions.insert(rows.integer(0));
  return regions;
}

Regions regions_of_samples(SQLite::Database& db) {
  Regions regions;
  std::set<std::string> passes;
  Query marked(db, "SELECT id, phase FROM region WHERE phase IN ('forward', 'backward')");
  for (; marked.next(); passes.insert(marked.text(1))) regions.insert(marked.integer(0));
  if (passes.size() < 2) return {};
  Query loading(db, fmt::format("SELECT id FROM region WHERE {}", kInputRanges));
  while (loading.next()) regions.insert(loading.integer(0));
  return regions;
}

}  // namespace ddl::models
