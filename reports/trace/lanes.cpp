#include "reports/trace/lanes.h"

#include <algorithm>

namespace ddl::reports {

void Lanes::add(int64_t begin_ns, int64_t end_ns, const TraceEvent& event, const std::vector<SlicePart>& parts) {
  auto lane = std::find_if(lanes_.begin(), lanes_.end(), [&](const Lane& l) { return l.end_ns <= begin_ns; });
  if (lane == lanes_.end()) lane = lanes_.insert(lane, {packets_.track(parent_, name_, order_), 0});
  lane->end_ns = end_ns;
  packets_.begin(lane->track, begin_ns, event);
  for (const SlicePart& part : parts) {
    packets_.begin(lane->track, part.begin_ns, {.category = part.category, .name = part.name});
    packets_.end(lane->track, part.end_ns);
  }
  packets_.end(lane->track, end_ns);
}

void NestedLanes::close_until(Lane& lane, int64_t time_ns) {
  for (; !lane.ends_ns.empty() && lane.ends_ns.back() <= time_ns; lane.ends_ns.pop_back())
    packets_.end(lane.track, lane.ends_ns.back());
}

void NestedLanes::add(int64_t begin_ns, int64_t end_ns, const TraceEvent& event) {
  const auto fits = [&](Lane& lane) {
    close_until(lane, begin_ns);
    return lane.ends_ns.empty() || end_ns <= lane.ends_ns.back();
  };
  auto lane = std::find_if(lanes_.begin(), lanes_.end(), fits);
  if (lane == lanes_.end()) lane = lanes_.insert(lane, {packets_.track(parent_, name_, order_), {}});
  lane->ends_ns.push_back(end_ns);
  packets_.begin(lane->track, begin_ns, event);
}

void NestedLanes::finish() {
  for (Lane& lane : lanes_) close_until(lane, INT64_MAX);
}

}  // namespace ddl::reports
