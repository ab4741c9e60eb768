#include "analyzer/passes/stream_order.h"

#include <set>

#include "analyzer/query.h"

namespace ddl {
namespace {

// A stream that is only told to wait, step after step, has all its waits behind it each time: the older ones are long over.
constexpr size_t kMostWaits = 64;
constexpr size_t kMostFollowed = 1024;

}  // namespace

StreamOrder::StreamOrder(SQLite::Database& db, int64_t process) {
  Query rows(db, "SELECT context, stream, correlation, on_context, on_stream, on_correlation FROM stream_wait WHERE process = ?");
  rows.bind(process);
  while (rows.next()) {
    const Wait wait{{rows.integer(3), rows.integer(4)}, rows.integer(5)};
    waits_[{rows.integer(0), rows.integer(1)}].emplace(rows.integer(2), wait);
  }
}

void StreamOrder::add(const Stream& stream, int64_t call, int64_t end_ns, DeviceClass device_class) {
  if (call == 0) return;
  const Done done{end_ns, device_class};
  const auto [known, is_new] = done_[stream].try_emplace(call, done);
  if (!is_new && known->second.end_ns < done.end_ns) known->second = done;
}

const StreamOrder::Done* StreamOrder::last_before(const Stream& stream, int64_t call, std::vector<Wait>& waits) const {
  const Done* last = nullptr;
  int64_t since = 0;
  if (const auto done = done_.find(stream); done != done_.end()) {
    if (auto after = done->second.lower_bound(call); after != done->second.begin()) {
      --after;
      last = &after->second;
      since = after->first;
    }
  }
  if (const auto found = waits_.find(stream); found != waits_.end()) {
    auto wait = found->second.lower_bound(call);
    for (size_t taken = 0; wait != found->second.begin() && (--wait)->first > since && taken < kMostWaits; ++taken)
      waits.push_back(wait->second);
  }
  return last;
}

std::optional<Awaited> StreamOrder::awaited(const Stream& stream, int64_t call) const {
  if (call == 0) return std::nullopt;
  std::vector<Wait> open;
  last_before(stream, call, open);
  const Done* last = nullptr;
  std::set<std::pair<Stream, int64_t>> seen;
  while (!open.empty() && seen.size() < kMostFollowed) {
    const Wait wait = open.back();
    open.pop_back();
    if (!seen.insert({wait.on, wait.before_call}).second) continue;
    const Done* done = last_before(wait.on, wait.before_call, open);
    if (done && (!last || done->end_ns > last->end_ns)) last = done;
  }
  if (!last || last->device_class == DeviceClass::kCompute) return std::nullopt;
  return Awaited{last->end_ns, last->device_class == DeviceClass::kCopy};
}

}  // namespace ddl
