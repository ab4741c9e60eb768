#include "analyzer/passes/instance_events.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <tuple>

namespace ddl {
namespace {

constexpr int kBucketBits = 12;

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

}  // namespace

InstanceEvents::InstanceEvents(SQLite::Database& db, int64_t held)
    : rows_(db,
            "SELECT e.id, e.comm, e.seq, e.process, e.kind, e.op, coalesce(n.kernel_start_ns, e.start_ns), coalesce(n.kernel_duration_ns,"
            " e.duration_ns), e.bytes, e.peer, e.step, n.source = 'profiler', n.share_begin, n.share_end, n.share_total, n.comm_rank"
            " FROM event e NOT INDEXED LEFT JOIN nccl_collective n ON n.event = e.id"
            " WHERE e.seq >= ?1 AND e.seq < ?2 AND e.comm IS NOT NULL AND e.id NOT IN (SELECT event FROM coordination)") {
  cut(db, held);
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
  if (all > 0) events_.reserve(static_cast<size_t>(std::min(all, held)));
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

void InstanceEvents::read_piece() {
  events_.clear();
  shares_.assign(1, {});
  next_event_ = 0;
  rows_.bind(next_piece_ == 0 ? std::numeric_limits<int64_t>::min() : ends_[next_piece_ - 1], ends_[next_piece_]);
  ++next_piece_;
  while (rows_.next()) {
    InstanceEvent& e = events_.emplace_back();
    e.id = rows_.integer(0);
    e.communicator = static_cast<uint32_t>(rows_.integer(1));
    e.seq = rows_.integer(2);
    e.process = static_cast<uint32_t>(rows_.integer(3));
    e.nonblocking = rows_.integer(4) == 2;
    e.op = static_cast<uint32_t>(rows_.integer(5));
    e.enter_ns = rows_.integer(6);
    e.duration_ns = rows_.integer(7);
    e.payload_bytes = rows_.maybe_integer(8);
    e.root = rows_.maybe_integer(9);
    e.step = rows_.maybe_integer(10);
    e.near_in_time = rows_.maybe_integer(11) == 1;
    if (!rows_.is_null(12)) {
      e.share = static_cast<uint32_t>(shares_.size());
      shares_.push_back({rows_.integer(12), rows_.integer(13), rows_.integer(14)});
    }
    if (!rows_.is_null(15)) e.comm_rank = static_cast<int32_t>(rows_.integer(15));
  }
  rows_.reset();
  std::sort(events_.begin(), events_.end(), [](const InstanceEvent& a, const InstanceEvent& b) {
    return std::tie(a.seq, a.communicator, a.id) < std::tie(b.seq, b.communicator, b.id);
  });
}

const InstanceEvent* InstanceEvents::next() {
  while (next_event_ == events_.size()) {
    if (next_piece_ == ends_.size()) return nullptr;
    read_piece();
  }
  return &events_[next_event_++];
}

}  // namespace ddl
