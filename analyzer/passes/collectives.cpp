// Pass 1: puts the collectives together from the ranks' events and splits every one into waiting and transfer
// (specification.md "Waiting").
//
// Events come in the order of instances (instance_events.h); the members of one go through split_waiting() and on to
// the blame, the groups and table `collective`.
//
// Clocks: members on one host share a clock. Across hosts the max-start estimate is used on a communicator only if the
// offset's sigma is below a tenth of the median wait found with it (W2), which takes a first pass over the events of
// those communicators.
#include "analyzer/passes/passes.h"

#include <SQLiteCpp/Savepoint.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <set>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "analyzer/flat_map.h"
#include "analyzer/passes/blame.h"
#include "analyzer/passes/collective_groups.h"
#include "analyzer/passes/instance.h"
#include "analyzer/passes/passed_on.h"
#include "analyzer/query.h"
#include "analyzer/statistics.h"
#include "store/made_ahead.h"
#include "store/made_rows.h"

namespace ddl {
namespace {

struct Assembled {
  Instance instance;
  const CommunicatorInfo* communicator = nullptr;
  int64_t op = 0;
  int64_t seq = 0;
  bool mismatched = false;
  std::vector<const InstanceEvent*> events;  ///< of the members
  bool bounds_kernels = false;               ///< of GPUs, and the members that are not here left no record
  /// the members' times are sure in their length, and only near in their place
  bool near_in_time = false;
  std::optional<double> sigma_ns;  ///< of the members' clocks against each other
};

/// Reads instance after instance of a piece, those of all communicators mixed. One member on one-rank communicators,
/// where equal numbers mean nothing.
class InstanceReader {
 public:
  using Wanted = std::function<bool(const CommunicatorInfo&)>;

  /// Only those of communicators that are `wanted`.
  InstanceReader(InstanceEvents& events, const Catalog& catalog, const Wanted& wanted)
      : catalog_(catalog), events_(events) {
    for (const auto& [id, communicator] : catalog.communicators)
      if (wanted(communicator)) communicators_.emplace(static_cast<uint32_t>(id), &communicator);
  }

  /// After each InstanceEvents::next_piece().
  void begin_piece() { event_ = events_.next(); }

  bool next(Assembled& out) {
    const CommunicatorInfo* communicator = nullptr;
    while (event_ != nullptr && (communicator = wanted(event_->communicator)) == nullptr) event_ = events_.next();
    if (event_ == nullptr) return false;
    const uint32_t comm = event_->communicator, op = event_->op;
    out.communicator = communicator;
    out.op = op;
    out.seq = event_->seq;
    out.mismatched = out.near_in_time = false;
    out.instance.operation = &catalog_.operation(op);
    out.instance.nonblocking = event_->nonblocking;
    out.instance.root = event_->root == InstanceEvent::kNobody ? std::nullopt : std::optional<int64_t>(event_->root);
    out.instance.members.clear();
    out.events.clear();
    do {
      const KernelOfEvent& kernel = events_.kernel_of(*event_);
      out.mismatched |= event_->op != op;
      out.near_in_time |= kernel.near_in_time;
      out.instance.members.push_back(member(*communicator, kernel, out.instance.root.has_value()));
      out.events.push_back(event_);
      event_ = events_.next();
    } while (event_ != nullptr && communicator->size > 1 && event_->communicator == comm && event_->seq == out.seq);
    finish(out);
    return true;
  }

  int64_t bad_intervals() const { return bad_intervals_; }

 private:
  const CommunicatorInfo* wanted(uint32_t id) {
    if (id != last_asked_) {
      const auto found = communicators_.find(id);
      last_asked_ = id;
      last_wanted_ = found == communicators_.end() ? nullptr : found->second;
    }
    return last_wanted_;
  }

  Member member(const CommunicatorInfo& communicator, const KernelOfEvent& kernel, bool rooted) {
    Member m;
    m.event = event_->id;
    m.process = event_->process;
    m.rank = catalog_.process(m.process).rank;
    if (kernel.comm_rank != InstanceEvent::kNobody) {
      m.comm_rank = kernel.comm_rank;
    } else if (rooted || events_.of_kernels()) {  // who is the root, or which of a process's GPUs it is
      const auto known = communicator.comm_rank.find(m.rank);
      m.comm_rank = known == communicator.comm_rank.end() ? -1 : known->second;
    }
    m.enter_ns = event_->enter_ns;
    m.duration_ns = event_->duration_ns;
    if (m.duration_ns < 0) {
      ++bad_intervals_;
      m.duration_ns = 0;
    }
    const auto unless_none = [](int64_t value) {
      return value == InstanceEvent::kNone ? std::nullopt : std::optional(value);
    };
    m.payload_bytes = unless_none(event_->payload_bytes);
    m.step = unless_none(event_->step);
    m.share_begin = kernel.share_begin;
    m.share_end = kernel.share_end;
    m.share_total = kernel.share_total;
    return m;
  }

  /// Members by process, which they are in nearly always.
  static void sort_members(Assembled& out) {
    std::vector<size_t> order(out.events.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      return identity(out.instance.members[a]) < identity(out.instance.members[b]);
    });
    std::vector<Member> members;
    std::vector<const InstanceEvent*> events;
    for (const size_t i : order) {
      members.push_back(out.instance.members[i]);
      events.push_back(out.events[i]);
    }
    out.instance.members = std::move(members);
    out.events = std::move(events);
  }

  /// A process may be several members of one communicator of NCCL.
  static std::pair<int64_t, int64_t> identity(const Member& m) { return {m.process, m.comm_rank}; }

  void finish(Assembled& out) const {
    const auto& members = out.instance.members;
    const auto in_order = [](const Member& a, const Member& b) { return identity(a) < identity(b); };
    if (!std::is_sorted(members.begin(), members.end(), in_order)) sort_members(out);
    bool distinct = true;
    ClockSpread clocks;
    int64_t host = -1;
    for (size_t i = 0; i < members.size(); ++i) {
      distinct &= i == 0 || identity(members[i]) != identity(members[i - 1]);
      const ProcessInfo& process = catalog_.process(members[i].process);
      if (process.host != host) clocks.add(catalog_.clock_of(process));
      host = process.host;
    }
    out.sigma_ns = clocks.sigma_ns();
    const auto present = static_cast<int64_t>(members.size());
    out.instance.complete = distinct && !out.mismatched && present == out.communicator->size;
    out.instance.partial = distinct && !out.mismatched && present < out.communicator->size;
    out.instance.size = out.communicator->kind == "inter" ? 0 : out.communicator->size;
    // Kernels of GPUs are cut by tables that know of no bounds of waits (devices.h).
    const bool bounds = out.instance.partial && present + absent_unrecorded(out) == out.communicator->size;
    out.instance.bounded = bounds && !out.instance.operation->on_device;
    out.bounds_kernels = bounds && out.instance.operation->on_device;
    if (out.near_in_time) out.sigma_ns.reset();
    out.instance.clock_trusted = out.sigma_ns == 0.0;
  }

  /// Members that are not here for they left no record of it.
  int64_t absent_unrecorded(const Assembled& one) const {
    const CommunicatorInfo& communicator = *one.communicator;
    const std::set<int64_t>& unrecorded = catalog_.unrecorded_ranks(communicator.world);
    if (unrecorded.empty() || communicator.kind == "inter") return 0;
    const auto [known, fresh] = unrecorded_members_.try_emplace(communicator.id, 0);
    if (fresh)
      known->second = std::count_if(communicator.ranks.begin(), communicator.ranks.end(),
                                    [&](int64_t r) { return unrecorded.contains(r); });
    const auto& members = one.instance.members;
    return known->second -
           std::count_if(members.begin(), members.end(), [&](const Member& m) { return unrecorded.contains(m.rank); });
  }

  const Catalog& catalog_;
  InstanceEvents& events_;
  std::unordered_map<uint32_t, const CommunicatorInfo*> communicators_;
  uint32_t last_asked_ = 0;  ///< which no communicator has
  const CommunicatorInfo* last_wanted_ = nullptr;
  const InstanceEvent* event_ = nullptr;                             ///< the first one of the next instance
  mutable std::unordered_map<int64_t, int64_t> unrecorded_members_;  ///< by communicator
  int64_t bad_intervals_ = 0;
};

/// What comes of so many instances, for the tables that grow with them.
struct SplitRows {
  std::vector<LateRankRow> late;
  struct CommStep {
    int64_t communicator, step;
    double xfer_ns;
    int64_t bytes;
    bool bounded;
  };
  std::vector<CommStep> comm_step;
  int64_t members = 0;
  bool ends_piece = false;  ///< the rows of table `collective` can be had of the events

  void clear() {
    late.clear();
    comm_step.clear();
    members = 0;
    ends_piece = false;
  }
};

/// Puts rows of table `collective` in the place of an instance's events.
void put_rows(const Assembled& one, const Split& split, std::optional<int64_t> bytes, std::optional<double> sigma_ns) {
  const auto at = [](const std::vector<int64_t>& values, size_t i) {
    return values.empty() ? SplitEvent::kNone : values[i];
  };
  for (size_t i = 0; i < one.events.size(); ++i) {
    const Member& m = one.instance.members[i];
    InstanceEvents::put(*one.events[i],
                        {m.event, m.duration_ns, bytes.value_or(SplitEvent::kNone), at(split.wait_ns, i),
                         at(split.min_duration_wait_ns, i), sigma_ns.value_or(NAN), split.method, split.why});
  }
}

class SplitRowsWriter {
 public:
  explicit SplitRowsWriter(SQLite::Database& db) : rows_(db) {}

  void write(const SplitRows& rows) {
    auto late = rows.late.begin();
    rows_.insert(
        "INSERT INTO late (world, step, rank, ties, wait_ns, longest_ns, instances, comm, message)"
        " SELECT c0, c1, c2, c3, c4, c5, 1, c6, 0 FROM made_rows",
        [&](MadeRow& row) {
          if (late == rows.late.end()) return false;
          row.set(late->world, late->step, late->rank, late->ties, late->wait_ns, late->longest_ns, late->communicator);
          ++late;
          return true;
        });
    auto of_step = rows.comm_step.begin();
    rows_.insert("INSERT INTO comm_step (comm, step, xfer_ns, bytes, bounded) SELECT c0, c1, c2, c3, c4 FROM made_rows",
                 [&](MadeRow& row) {
                   if (of_step == rows.comm_step.end()) return false;
                   row.set(of_step->communicator, of_step->step, of_step->xfer_ns, of_step->bytes, of_step->bounded);
                   ++of_step;
                   return true;
                 });
  }

  void write(const InstanceEvents& events) {
    const auto unless_none = [](int64_t value) {
      return value == SplitEvent::kNone ? std::nullopt : std::optional(value);
    };
    InstanceEvents::Rows next(events);
    rows_.insert(
        "INSERT INTO collective (event, bytes, wait_ns, xfer_ns, wait_method, min_duration_wait_ns, sigma_ns, why)"
        " SELECT c0, c1, c2, c3, c4, c5, c6, c7 FROM made_rows",
        [&](MadeRow& row) {
          const SplitEvent* r = next();
          if (r == nullptr) return false;
          const std::optional<int64_t> wait_ns = unless_none(r->wait_ns);
          row.set(r->event, unless_none(r->bytes), wait_ns,
                  wait_ns ? std::optional(r->duration_ns - *wait_ns) : std::nullopt, Lasting{name_of(r->method)},
                  unless_none(r->min_duration_wait_ns), r->sigma_ns, Lasting{name_of(r->why)});
          return true;
        });
  }

 private:
  MadeRows rows_;
};

/// By world and rank: the clock of its processes; nothing: they have several.
using ClocksOfRanks = std::map<std::pair<int64_t, int64_t>, std::optional<int64_t>>;

ClocksOfRanks clocks_of_ranks(const Catalog& catalog) {
  ClocksOfRanks clocks;
  for (const auto& [id, process] : catalog.processes) {
    std::optional<int64_t>& clock =
        clocks.try_emplace({process.world, process.rank}, process.clock.clock).first->second;
    if (clock != process.clock.clock) clock.reset();
  }
  return clocks;
}

/// Do all members that may have left a record read one clock, so that nothing is to be asked of their times?
bool share_a_clock(const CommunicatorInfo& communicator, const ClocksOfRanks& clocks) {
  if (communicator.size == 0 || static_cast<int64_t>(communicator.ranks.size()) != communicator.size) return false;
  std::optional<int64_t> first;
  for (const int64_t rank : communicator.ranks) {
    if (rank < 0) return false;
    const auto known = clocks.find({communicator.world, rank});
    if (known == clocks.end()) continue;  // it left no record
    if (!known->second || (first && *first != *known->second)) return false;
    first = known->second;
  }
  return true;
}

/// Communicators across hosts whose waits are long enough against the error of the clocks.
std::set<int64_t> trusted_across_hosts(InstanceEvents& events, const Catalog& catalog) {
  std::set<int64_t> trusted;
  const auto usable = [](const auto& host) { return host.second.sigma_ns && *host.second.sigma_ns > 0; };
  if (std::none_of(catalog.host_clocks.begin(), catalog.host_clocks.end(), usable)) return trusted;
  struct Waits {
    MedianSketch waits_ns;
    double sigma_ns = 0;
  };
  std::map<int64_t, Waits> by_communicator;
  const ClocksOfRanks clocks = clocks_of_ranks(catalog);
  InstanceReader reader(events, catalog, [&](const CommunicatorInfo& c) { return !share_a_clock(c, clocks); });
  Assembled next;
  Split split;
  for (events.rewind(); events.next_piece();) {
    for (reader.begin_piece(); reader.next(next);) {
      if (next.instance.clock_trusted || !next.sigma_ns) continue;
      Waits& waits = by_communicator[next.communicator->id];
      waits.sigma_ns = std::max(waits.sigma_ns, *next.sigma_ns);
      next.instance.clock_trusted = true;
      split_waiting(next.instance, split);
      for (const int64_t wait_ns : split.wait_ns) {
        if (wait_ns > 0) waits.waits_ns.add(static_cast<double>(wait_ns));
      }
    }
  }
  for (const auto& [comm, waits] : by_communicator) {
    const std::optional<double> median_ns = waits.waits_ns.median();
    if (median_ns && waits.sigma_ns < kTrustedSigmaShare * *median_ns) trusted.insert(comm);
  }
  return trusted;
}

/// Highest number that each process left behind on each communicator: findings need it to tell who is behind.
class Reached {
 public:
  void add(int64_t comm, int64_t seq, const std::vector<Member>& members) {
    for (const Member& m : members) {
      Number& highest = seq_[key_of_pair(comm, m.process)];
      highest.seq = std::max(highest.seq, seq);
    }
  }
  void write(SQLite::Database& db) {
    const auto rows = seq_.take_sorted();
    auto next = rows.begin();
    MadeRows(db).insert("INSERT INTO reached (comm, process, seq) SELECT c0, c1, c2 FROM made_rows", [&](MadeRow& row) {
      if (next == rows.end()) return false;
      row.set(next->key >> 32, next->key & UINT32_MAX, next->value.seq);
      ++next;
      return true;
    });
  }

 private:
  struct Number {
    int64_t seq = 0;
  };
  FlatMap<Number> seq_;  ///< by communicator and process, 32 bits each as InstanceEvent has them
};

/// Transfer of each communicator by step: table comm_step. Non-blocking collectives only tell an upper bound and stay
/// out; those with members that left no record have a row each.
class TransferBySteps {
 public:
  void add(int64_t comm, const Instance& instance, const Split& split, std::optional<int64_t> bytes, SplitRows& rows) {
    const std::optional<int64_t> step = instance.members.front().step;
    if (!step || instance.nonblocking || split.wait_ns.empty() || bytes.value_or(0) == 0) return;
    if (split.method == WaitMethod::kLowerBound)
      return rows.comm_step.push_back({comm, *step, transfer_time_ns(instance, split), *bytes, true});
    OneStep& sum = sums_[comm];
    if (*step != sum.step) {
      write(comm, sum, rows);
      sum = {.step = *step};
    }
    sum.xfer_ns += transfer_time_ns(instance, split);
    sum.bytes += *bytes;
  }
  void flush(SplitRows& rows) {
    for (const auto& [comm, sum] : sums_) write(comm, sum, rows);
    sums_.clear();
  }

 private:
  struct OneStep {
    int64_t step = 0;
    double xfer_ns = 0;
    int64_t bytes = 0;
  };
  static void write(int64_t comm, const OneStep& sum, SplitRows& rows) {
    if (sum.bytes > 0) rows.comm_step.push_back({comm, sum.step, sum.xfer_ns, sum.bytes, false});
  }

  std::map<int64_t, OneStep> sums_;  ///< by communicator: the step at hand
};

/// Sums that metrics read: tables wire and unsplit.
class Sums {
 public:
  void add(const CommunicatorInfo& communicator, int64_t op, const Instance& instance, const Split& split,
           std::optional<int64_t> bytes) {
    const auto calls = static_cast<int64_t>(instance.members.size());
    if (split.wait_ns.empty()) unsplit_calls_[{communicator.world, op, split.why}] += calls;
    const std::optional<int64_t> step = instance.members.front().step;
    const std::optional<double> factor = bus_factor(instance.operation->bus, communicator.size);
    if (!step || !factor || bytes.value_or(0) == 0) return;
    wire_bytes_[{communicator.world, *step}] +=
        static_cast<double>(*bytes) * static_cast<double>(communicator.size) * *factor;
  }

  void write(SQLite::Database& db) const {
    Query wire(db, "INSERT INTO wire (world, step, bytes) VALUES (?, ?, ?)");
    for (const auto& [key, bytes] : wire_bytes_) wire.run(key.first, key.second, bytes);
    Query unsplit(db, "INSERT INTO unsplit (world, op, why, calls) VALUES (?, ?, ?, ?)");
    for (const auto& [key, calls] : unsplit_calls_)
      unsplit.run(std::get<0>(key), std::get<1>(key), name_of(std::get<2>(key)), calls);
  }

 private:
  std::map<std::pair<int64_t, int64_t>, double> wire_bytes_;            ///< by world and step
  std::map<std::tuple<int64_t, int64_t, Why>, int64_t> unsplit_calls_;  ///< by world, operation and reason
};

/// Goes through the instances once: rows of the tables that grow with them come batch by batch, what others are filled
/// from is summed up.
class Splitter {
 public:
  Splitter(InstanceEvents& events, const Catalog& catalog, const std::set<int64_t>& trusted, int64_t count)
      : events_(events),
        catalog_(catalog),
        trusted_(trusted),
        reader_(events, catalog, [](const CommunicatorInfo&) { return true; }),
        blame_(catalog),
        passed_on_(catalog, count) {
    events_.rewind();
  }

  /// The rows of the next instances, of one piece. False: there are no more.
  bool next(SplitRows& rows) {
    rows.clear();
    if (ended_) return false;
    if (!inside_) {
      if (!events_.next_piece()) {
        ended_ = true;
        transfers_.flush(rows);
        return true;
      }
      inside_ = true;
      reader_.begin_piece();
    }
    while (inside_ && rows.members < kHeld) {
      inside_ = reader_.next(one_);
      if (inside_) add(one_, rows);
    }
    rows.ends_piece = !inside_;
    return true;
  }

  /// When there are no more.
  CollectiveLosses finish(SQLite::Database& db) {
    blame_.write(db);
    passed_on_.move(db);
    groups_.write(db, catalog_);
    reached_.write(db);
    sums_.write(db);
    losses_.bad_intervals = reader_.bad_intervals();
    return losses_;
  }

 private:
  static constexpr int64_t kHeld = 1 << 19;

  void add(Assembled& next, SplitRows& rows) {
    Instance& instance = next.instance;
    instance.clock_trusted |= !next.near_in_time && trusted_.contains(next.communicator->id);
    Split& split = split_;
    if (next.communicator->kind == "inter") {
      split.clear();
      split.why = Why::kNotApplicable;  // the other group's members are not ours to see
    } else {
      split_waiting(instance, split);
      losses_.partial += !instance.complete && !next.mismatched ? 1 : 0;
      losses_.mismatched += next.mismatched ? 1 : 0;
    }
    if (split.clock_violations > 0)
      losses_.clock_violations[next.communicator->world] += sound_violations(instance, split);

    const auto is_shared = [](const Member& m) { return m.share_total != 1; };
    const bool only_transfer =
        next.bounds_kernels && std::none_of(instance.members.begin(), instance.members.end(), is_shared);
    bound_.clear();
    if (only_transfer) {
      instance.bounded = true;
      split_waiting(instance, bound_);
      instance.bounded = false;
    }
    const Split& of_transfer = bound_.wait_ns.empty() ? split : bound_;

    take_share(instance, split);
    const std::optional<int64_t> bytes = operation_bytes(instance);
    const bool uses_clock = split.method != WaitMethod::kMinDuration;
    put_rows(next, split, bytes, uses_clock ? next.sigma_ns : std::optional(0.0));
    rows.members += static_cast<int64_t>(instance.members.size());
    const double sigma_ns = uses_clock ? next.sigma_ns.value_or(0) : 0;
    const int64_t row =
        blame_.add(next.communicator->world, next.communicator->id, instance, split, sigma_ns, rows.late);
    if (row > 0) passed_on_.add(*next.communicator, instance, split, next.sigma_ns, row);
    if (!next.mismatched) {
      groups_.add(*next.communicator, next.op, instance, bytes, split, sigma_ns);
      if (&of_transfer == &bound_) groups_.add_bound(*next.communicator, next.op, instance, bytes, bound_);
      sums_.add(*next.communicator, next.op, instance, split, bytes);
    }
    transfers_.add(next.communicator->id, instance, of_transfer, bytes, rows);
    reached_.add(next.communicator->id, next.seq, instance.members);
  }

  /// Calls that contradict the clocks without what doubtful processes say: a flipped bit of a time is no
  /// clock that was set.
  int64_t sound_violations(const Instance& instance, const Split& split) const {
    const auto is_doubtful = [&](const Member& m) { return catalog_.process(m.process).doubtful; };
    if (std::none_of(instance.members.begin(), instance.members.end(), is_doubtful)) return split.clock_violations;
    Instance sound = instance;
    std::erase_if(sound.members, is_doubtful);
    sound.bounded = true;
    return sound.members.empty() ? 0 : split_waiting(sound).clock_violations;
  }

  InstanceEvents& events_;
  const Catalog& catalog_;
  const std::set<int64_t>& trusted_;
  InstanceReader reader_;
  Assembled one_;
  Split split_;
  Split bound_;          ///< of kernels of which some left no record: tells their transfer from above, and no waits
  bool inside_ = false;  ///< a piece
  bool ended_ = false;
  CollectiveLosses losses_;
  Blame blame_;
  PassedOn passed_on_;
  CollectiveGroups groups_;
  Reached reached_;
  TransferBySteps transfers_;
  Sums sums_;
};

}  // namespace

CollectiveLosses analyze_collectives(SQLite::Database& db, const Catalog& catalog, InstanceEvents& events,
                                     const PassProgress& progress, unsigned threads) {
  const std::set<int64_t> trusted = trusted_across_hosts(events, catalog);
  Query count(db, "SELECT count(*) FROM event WHERE seq IS NOT NULL");
  const int64_t all = count.next() ? count.integer(0) : 0;
  Ticker ticker(progress, all);
  Splitter splitter(events, catalog, trusted, all);
  SQLite::Savepoint savepoint(db, "collectives");
  {
    SplitRowsWriter writer(db);
    // Where events come in several pieces they are read on the connection that rows are written on.
    store::MadeAhead<SplitRows> batches(threads > 1 && events.are_held(),
                                        [&](SplitRows& rows) { return splitter.next(rows); });
    for (SplitRows rows; batches.next(rows);) {
      writer.write(rows);
      if (rows.ends_piece) writer.write(events);
      ticker.add(rows.members);
    }
  }
  events.keep_rows();
  CollectiveLosses losses = splitter.finish(db);
  savepoint.release();
  return losses;
}

}  // namespace ddl
