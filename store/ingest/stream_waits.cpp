#include "store/ingest/stream_waits.h"

#include <algorithm>

namespace ddl::store {

bool StreamWaits::add(const DeviceRecord& r) {
  const DeviceKind kind = device_kind(r.what);
  if (kind == DeviceKind::kSynchronize && device_sub(r.what) == kStreamWaits) waits_.push_back(r);
  if (kind != DeviceKind::kEvent) return false;
  const Recorded recorded{r.correlation, r.cuda_context, r.stream};
  if (r.graph_node != 0) numbered_[r.graph_node] = recorded;
  of_event_[{r.cuda_context, r.name}].push_back(recorded);
  return true;
}

const StreamWaits::Recorded* StreamWaits::recorded_for(const DeviceRecord& wait) const {
  if (wait.graph_node != 0) {
    const auto found = numbered_.find(wait.graph_node);
    return found == numbered_.end() ? nullptr : &found->second;
  }
  const auto found = of_event_.find({wait.cuda_context, wait.name});
  if (found == of_event_.end()) return nullptr;
  const auto after = std::lower_bound(
      found->second.begin(), found->second.end(), wait.correlation,
      [](const Recorded& recorded, uint32_t correlation) { return recorded.correlation < correlation; });
  return after == found->second.begin() ? nullptr : &*(after - 1);
}

void StreamWaits::write(Statements& db, int64_t process) {
  if (waits_.empty()) return;
  for (auto& [event, all] : of_event_)
    std::sort(all.begin(), all.end(),
              [](const Recorded& a, const Recorded& b) { return a.correlation < b.correlation; });
  Insert insert(db, "INSERT INTO stream_wait VALUES (?, ?, ?, ?, ?, ?, ?)");
  for (const DeviceRecord& wait : waits_) {
    if (const Recorded* on = recorded_for(wait); on && on->correlation < wait.correlation)
      insert.row(process, wait.cuda_context, wait.stream, wait.correlation, on->context, on->stream, on->correlation);
  }
}

}  // namespace ddl::store
