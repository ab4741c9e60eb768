#include "analyzer/passes/instance_events.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <string>
#include <tuple>

#include "analyzer/parallel_reads.h"

namespace ddl {
namespace {

constexpr int kBucketBits = 12;
constexpr size_t kMostRuns = 8;  // the next event is the least of so many

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

bool has_rows(SQLite::Database& db, const char* table) { return Query(db, std::string("SELECT 1 FROM ") + table + " LIMIT 1").next(); }

/// Looking for rows in tables that have none, for each event, takes as long as reading it.
std::string statement(SQLite::Database& db, bool joined) {
  std::string sql = "SELECT e.id, e.comm, e.seq, e.process, e.kind, e.op, ";
  sql += joined ? "coalesce(n.kernel_start_ns, e.start_ns), coalesce(n.kernel_duration_ns, e.duration_ns), e.bytes, e.peer, e.step,"
                  " n.source = 'profiler', n.share_begin, n.share_end, n.share_total, n.comm_rank"
                  " FROM event e NOT INDEXED LEFT JOIN nccl_collective n ON n.event = e.id"
                : "e.start_ns, e.duration_ns, e.bytes, e.peer, e.step FROM event e NOT INDEXED";
  sql += " WHERE e.seq >= ?1 AND e.seq < ?2 AND e.comm IS NOT NULL";
  if (has_rows(db, "coordination")) sql += " AND e.id NOT IN (SELECT event FROM coordination)";
  return sql;
}

/// A rank in 32 bits. A damaged number becomes -2 or INT32_MAX, which no member has; -1 stands for a member whose rank is not known.
int32_t narrow(int64_t rank) { return static_cast<int32_t>(std::clamp<int64_t>(rank, -2, INT32_MAX)); }

}  // namespace

InstanceEvents::InstanceEvents(SQLite::Database& db, int64_t held, unsigned threads)
    : joined_(has_rows(db, "nccl_collective")), sql_(statement(db, joined_)), rows_(db, sql_), runs_(1), shares_(1) {
  Query last(db, "SELECT max(id) FROM event");
  const int64_t last_id = last.next() ? last.integer(0) : 0;
  if (last_id > held) {
    cut(db, held);
    return;
  }
  if (last_id > 0) ends_ = {std::numeric_limits<int64_t>::max()};
  if (last_id > 0 && threads > 1 && !joined_) read_runs(db, last_id, threads);
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
  runs_[0].events.reserve(static_cast<size_t>(std::min(all, held)));
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
  const auto begin_id = [&](size_t run) { return 1 + last_id * static_cast<int64_t>(run) / static_cast<int64_t>(runs_.size()); };
  read_in_parallel(db, threads, runs_.size(), [&](size_t i, SQLite::Database& connection) {
    Query rows(connection, sql_ + " AND e.id >= ?3 AND e.id < ?4");
    const int64_t begin = i == 0 ? std::numeric_limits<int64_t>::min() : begin_id(i);
    rows.bind(std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max(), begin, begin_id(i + 1));
    runs_[i].events.reserve(static_cast<size_t>(begin_id(i + 1) - begin_id(i)));
    read(rows, runs_[i]);
  });
  next_piece_ = ends_.size();
}

void InstanceEvents::read_piece() {
  shares_.assign(1, {});
  rows_.bind(next_piece_ == 0 ? std::numeric_limits<int64_t>::min() : ends_[next_piece_ - 1], ends_[next_piece_]);
  ++next_piece_;
  read(rows_, runs_[0]);
  rows_.reset();
}

void InstanceEvents::read(Query& rows, Run& run) {
  run.events.clear();
  run.next = 0;
  while (rows.next()) {
    InstanceEvent& e = run.events.emplace_back();
    e.id = rows.integer(0);
    e.communicator = static_cast<uint32_t>(rows.integer(1));
    e.seq = rows.integer(2);
    e.process = static_cast<uint32_t>(rows.integer(3));
    e.nonblocking = rows.integer(4) == 2;
    e.op = static_cast<uint32_t>(rows.integer(5));
    e.enter_ns = rows.integer(6);
    e.duration_ns = rows.integer(7);
    if (!rows.is_null(8)) e.payload_bytes = rows.integer(8);
    if (!rows.is_null(9)) e.root = narrow(rows.integer(9));
    if (!rows.is_null(10)) e.step = rows.integer(10);
    if (!joined_) continue;
    e.near_in_time = rows.maybe_integer(11) == 1;
    if (!rows.is_null(12)) {
      e.share = static_cast<uint32_t>(shares_.size());
      shares_.push_back({rows.integer(12), rows.integer(13), rows.integer(14)});
    }
    if (!rows.is_null(15)) e.comm_rank = static_cast<int32_t>(rows.integer(15));
  }
  std::sort(run.events.begin(), run.events.end(), comes_before);
}

void InstanceEvents::rewind() {
  for (Run& run : runs_) run.next = 0;
  if (are_held()) return;
  runs_[0].events.clear();
  next_piece_ = 0;
}

void InstanceEvents::forget() {
  for (Run& run : runs_) run = {};
  next_piece_ = ends_.size();
}

const InstanceEvent* InstanceEvents::next() {
  if (runs_.size() > 1) {
    Run* first = nullptr;
    for (Run& run : runs_)
      if (run.next < run.events.size() && (first == nullptr || comes_before(run.events[run.next], first->events[first->next])))
        first = &run;
    return first == nullptr ? nullptr : &first->events[first->next++];
  }
  Run& run = runs_[0];
  while (run.next == run.events.size()) {
    if (next_piece_ == ends_.size()) return nullptr;
    read_piece();
  }
  return &run.events[run.next++];
}

}  // namespace ddl
