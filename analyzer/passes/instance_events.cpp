#include "analyzer/passes/instance_events.h"

#include <malloc.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>
#include <string>
#include <tuple>
#include <utility>

#include "analyzer/parallel_reads.h"
#include "analyzer/places_by_key.h"
#include "analyzer/query.h"

namespace ddl {
namespace {

constexpr int kBucketBits = 12;
constexpr size_t kMostRuns = 8;  // the next event is the least of so many
constexpr int64_t kLeast = std::numeric_limits<int64_t>::min(), kMost = std::numeric_limits<int64_t>::max();

/// Numbers below 8,192 are buckets of their own; above, each power of two is cut into 4,096.
size_t bucket_of(int64_t seq) {
  const auto number = static_cast<uint64_t>(std::max<int64_t>(seq, 0));
  const int shift = std::max(0, static_cast<int>(std::bit_width(number)) - kBucketBits - 1);
  return (static_cast<size_t>(shift) << kBucketBits) + static_cast<size_t>(number >> shift);
}

/// The least number of the bucket.
int64_t begin_of(size_t bucket) {
  const size_t shift = bucket < (size_t{2} << kBucketBits) ? 0 : (bucket >> kBucketBits) - 1;
  return static_cast<int64_t>((bucket - (shift << kBucketBits)) << shift);
}

bool comes_before(const InstanceEvent& a, const InstanceEvent& b) {
  return std::tie(a.seq, a.communicator, a.id) < std::tie(b.seq, b.communicator, b.id);
}

bool has_rows(SQLite::Database& db, const char* table) {
  return Query(db, std::string("SELECT 1 FROM ") + table + " LIMIT 1").next();
}

/// A rank in 32 bits. A damaged number becomes -2 or INT32_MAX, which no member has; -1 stands for a member whose
/// rank is not known.
int32_t narrow(int64_t rank) { return static_cast<int32_t>(std::clamp<int64_t>(rank, -2, INT32_MAX)); }

}  // namespace

InstanceEvents::InstanceEvents(SQLite::Database& db, int64_t held, unsigned threads)
    : joined_(has_rows(db, "nccl_collective")),
      coordinates_(has_rows(db, "coordination")),
      rows_(rows_of(db)),
      runs_(1) {
  for (Query known(db, "SELECT id FROM communicator"); known.next();) communicators_.insert(known.integer(0));
  Query last(db, "SELECT max(id) FROM event");
  const int64_t last_id = last.next() ? last.integer(0) : 0;
  if (last_id > held) {
    cut(db, held);
    return;
  }
  if (last_id > 0) ends_ = {std::numeric_limits<int64_t>::max()};
  if (last_id > 0 && threads > 1 && !joined_)
    read_runs(db, last_id, threads);
  else
    runs_[0].slots.reserve(static_cast<size_t>(std::max<int64_t>(0, last_id)));
}

/// Looking for rows in tables that have none, for each event, takes as long as reading it.
EachRow InstanceEvents::rows_of(SQLite::Database& db) const {
  std::string columns = "e.id, e.comm, e.seq, e.process, e.kind, e.op, ";
  columns +=
      joined_
          ? "coalesce(n.kernel_start_ns, e.start_ns), coalesce(n.kernel_duration_ns, e.duration_ns), e.bytes, e.peer, e.step,"
            " n.source = 'profiler', n.share_begin, n.share_end, n.share_total, n.comm_rank"
          : "e.start_ns, e.duration_ns, e.bytes, e.peer, e.step";
  std::string from = "event e NOT INDEXED";
  if (joined_) from += " LEFT JOIN nccl_collective n ON n.event = e.id";
  from += " WHERE e.seq BETWEEN ?1 AND ?2 AND e.id >= ?3 AND e.id < ?4";
  if (coordinates_) from += " AND e.id NOT IN (SELECT event FROM coordination)";
  return {db, columns, from};
}

void InstanceEvents::cut(SQLite::Database& db, int64_t held) {
  Query numbers(db, "SELECT seq FROM event NOT INDEXED WHERE seq IS NOT NULL");
  std::vector<int64_t> counts;
  int64_t all = 0;
  for (; numbers.next(); ++all) {
    const size_t bucket = bucket_of(numbers.integer(0));
    if (counts.size() <= bucket) counts.resize(bucket + 1);
    ++counts[bucket];
  }
  runs_[0].slots.reserve(static_cast<size_t>(std::min(all, held)));
  int64_t inside = 0;
  for (size_t bucket = 0; bucket < counts.size(); ++bucket) {
    if (inside > 0 && inside + counts[bucket] > held) {
      ends_.push_back(begin_of(bucket));
      inside = 0;
    }
    inside += counts[bucket];
  }
  if (all > 0) ends_.push_back(std::numeric_limits<int64_t>::max());
}

/// Neighbouring ids by each thread.
void InstanceEvents::read_runs(SQLite::Database& db, int64_t last_id, unsigned threads) {
  runs_.resize(std::min<size_t>(threads, kMostRuns));
  const auto begin_id = [&](size_t run) {
    return 1 + last_id * static_cast<int64_t>(run) / static_cast<int64_t>(runs_.size());
  };
  read_in_parallel(db, threads, runs_.size(), [&](size_t i, SQLite::Database& connection) {
    EachRow rows = rows_of(connection);
    runs_[i].slots.reserve(static_cast<size_t>(begin_id(i + 1) - begin_id(i)));
    read(rows, runs_[i], kLeast, kMost, i == 0 ? kLeast : begin_id(i), begin_id(i + 1));
  });
  malloc_trim(0);  // what connections of other threads had allocated: the most memory is needed now
  read_ = true;
}

bool InstanceEvents::next_piece() {
  if (next_piece_ == ends_.size()) return false;
  const size_t piece = next_piece_++;
  if (read_) return true;
  read(rows_, runs_[0], piece == 0 ? kLeast : ends_[piece - 1], ends_[piece], kLeast, kMost);
  read_ = are_held();
  return true;
}

void InstanceEvents::read(EachRow& rows, Run& run, int64_t first_seq, int64_t end_seq, int64_t first_id,
                          int64_t end_id) {
  run.slots.clear();
  run.next = 0;
  if (joined_) kernels_.clear();  // else several threads read
  int64_t least_seq = kMost, most_seq = kLeast;
  int64_t comm = 0;
  bool known = false;
  const auto add = [&](const RowValues& row) {
    if (row.is_null(1)) return;
    if (const int64_t of_row = row.integer(1); of_row != std::exchange(comm, of_row))
      known = communicators_.contains(of_row);
    if (!known) return;
    InstanceEvent e = {};
    e.id = row.integer(0);
    e.communicator = static_cast<uint32_t>(comm);
    e.seq = row.integer(2);
    e.process = static_cast<uint32_t>(row.integer(3));
    e.nonblocking = row.integer(4) == 2;
    e.op = static_cast<uint32_t>(row.integer(5)) & INT32_MAX;
    e.enter_ns = row.integer(6);
    e.duration_ns = row.integer(7);
    e.payload_bytes = row.is_null(8) ? InstanceEvent::kNone : row.integer(8);
    e.root = row.is_null(9) ? InstanceEvent::kNobody : narrow(row.integer(9));
    e.step = row.is_null(10) ? InstanceEvent::kNone : row.integer(10);
    run.slots.push_back({e});
    least_seq = std::min(least_seq, e.seq);
    most_seq = std::max(most_seq, e.seq);
    if (!joined_) return;
    KernelOfEvent& kernel = kernels_.emplace_back();
    kernel.near_in_time = row.maybe_integer(11) == 1;
    if (!row.is_null(12)) {
      kernel.share_begin = row.integer(12);
      kernel.share_end = row.integer(13);
      kernel.share_total = row.integer(14);
    }
    if (!row.is_null(15)) kernel.comm_rank = static_cast<int32_t>(row.integer(15));
  };
  rows.run(add, first_seq, end_seq - 1, first_id, end_id);
  uint64_t comms = 1;
  for (const Slot& slot : run.slots) comms = std::max<uint64_t>(comms, uint64_t{slot.event.communicator} + 1);
  if (run.slots.empty() || static_cast<uint64_t>(most_seq) - static_cast<uint64_t>(least_seq) < uint64_t{1} << 32) {
    PlacesByKey places;
    places.reserve(run.slots.size());
    for (const Slot& slot : run.slots)
      places.add((static_cast<uint64_t>(slot.event.seq) - static_cast<uint64_t>(least_seq)) * comms +
                 slot.event.communicator);
    run.order = places.sorted();
  } else {
    run.order.resize(run.slots.size());
    std::iota(run.order.begin(), run.order.end(), 0);
    std::sort(run.order.begin(), run.order.end(),
              [&](uint32_t a, uint32_t b) { return comes_before(run.slots[a].event, run.slots[b].event); });
  }
}

void InstanceEvents::rewind() {
  for (Run& run : runs_) run.next = 0;
  next_piece_ = 0;
}

InstanceEvents::Rows::Rows(const InstanceEvents& events, int64_t first_event) : events_(events) {
  const auto before = [](const Slot& slot, int64_t event) { return slot.row.event < event; };
  for (; run_ < events_.runs_.size(); ++run_) {
    const std::vector<Slot>& slots = events_.runs_[run_].slots;
    place_ = static_cast<size_t>(std::lower_bound(slots.begin(), slots.end(), first_event, before) - slots.begin());
    if (place_ < slots.size()) return;
  }
}

void InstanceEvents::keep_rows() {
  if (!read_) return forget();
  for (Run& run : runs_) run.order = {};
  kernels_ = {};
}

void InstanceEvents::forget() {
  read_ = false;
  for (Run& run : runs_) run = {};
  kernels_ = {};
  next_piece_ = ends_.size();
}

const InstanceEvent* InstanceEvents::next() {
  Run* first = nullptr;
  for (Run& run : runs_)
    if (run.next < run.order.size() && (first == nullptr || comes_before(run.front(), first->front()))) first = &run;
  if (first == nullptr) return nullptr;
  constexpr size_t kFetched = 12;  // instances lie all over the table
  if (first->next + kFetched < first->order.size())
    __builtin_prefetch(&first->slots[first->order[first->next + kFetched]]);
  return &first->slots[first->order[first->next++]].event;
}

const KernelOfEvent& InstanceEvents::kernel_of(const InstanceEvent& event) const {
  static const KernelOfEvent kNone;
  if (!joined_) return kNone;
  return kernels_[static_cast<size_t>(reinterpret_cast<const Slot*>(&event) - runs_[0].slots.data())];
}

void InstanceEvents::put(const InstanceEvent& event, const SplitEvent& row) {
  reinterpret_cast<Slot*>(const_cast<InstanceEvent*>(&event))->row = row;
}

}  // namespace ddl
