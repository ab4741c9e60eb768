#include "analyzer/passes/device_sweep.h"

#include <algorithm>
#include <array>

namespace ddl {
namespace {

using Events = std::vector<DeviceEvent>::const_iterator;

constexpr size_t kPieceEvents = 1 << 14;

void add_axes(const Interval& part, Events first, Events last, std::map<int64_t, AxisSums>& sums) {
  struct Axis {
    std::vector<Interval> kernels, transfers;
  };
  std::map<int64_t, Axis> axes;
  std::vector<Interval> computing;
  for (auto e = first; e < last; ++e) {
    const Interval& interval = e->operation.interval;
    if (interval.end_ns <= part.begin_ns) continue;
    if (e->operation.device_class == DeviceClass::kCompute) computing.push_back(interval);
    if (e->operation.device_class != DeviceClass::kCommunication) continue;
    Axis& axis = axes[e->axis];
    axis.kernels.push_back(interval);
    axis.transfers.push_back({interval.begin_ns + e->operation.wait_ns.value_or(0), interval.end_ns});
    AxisSums& sum = sums[e->axis];
    sum.split = sum.split && e->operation.wait_ns;
  }
  if (axes.empty()) return;
  const IntervalSet inside({part});
  const IntervalSet compute = intersect(IntervalSet(std::move(computing)), inside);
  for (auto& [index, axis] : axes) {
    const IntervalSet comm = intersect(IntervalSet(std::move(axis.kernels)), inside);
    const IntervalSet transfer = intersect(IntervalSet(std::move(axis.transfers)), inside);
    const int64_t exposed_ns = subtract(comm, compute).length_ns();
    AxisSums& sum = sums[index];
    sum.comm_ns += comm.length_ns();
    sum.wait_ns += comm.length_ns() - transfer.length_ns();
    sum.exposed_ns += exposed_ns;
    sum.exposed_wait_ns += exposed_ns - subtract(transfer, compute).length_ns();
  }
}

}  // namespace

DeviceSweep::DeviceSweep(const std::vector<DeviceWindow>& windows, const std::vector<Interval>& inputs)
    : windows_(windows), inputs_(inputs), sums_(windows.size()) {
  for (const Interval& i : inputs) longest_input_ns_ = std::max(longest_input_ns_, i.length_ns());
}

void DeviceSweep::add(const DeviceEvent& event) {
  const int64_t begin_ns = event.operation.interval.begin_ns;
  if (events_.size() >= carried_ + kPieceEvents && begin_ns > events_.back().operation.interval.begin_ns)
    end_piece(begin_ns, &event.operation);
  events_.push_back(event);
}

void DeviceSweep::finish() { end_piece(INT64_MAX, nullptr); }

void DeviceSweep::end_piece(int64_t end_ns, const DeviceOperation* next) {
  int64_t longest_ns = 0;
  for (const DeviceEvent& e : events_) longest_ns = std::max(longest_ns, e.operation.interval.length_ns());
  for (; window_ < windows_.size() && (windows_[window_].interval.begin_ns < end_ns || end_ns == INT64_MAX); ++window_)
    if (windows_[window_].step) open_.push_back(window_);
  const size_t run = windows_.size() - 1;
  for (const size_t window : open_) add_window(window, end_ns, next, longest_ns);
  if (!run_ended_ && windows_[run].interval.begin_ns < end_ns) add_window(run, end_ns, next, longest_ns);
  const auto ended = [&](size_t window) { return windows_[window].interval.end_ns <= end_ns; };
  std::erase_if(open_, ended);
  run_ended_ = run_ended_ || ended(run);
  add_layers(end_ns);
  std::erase_if(events_, [&](const DeviceEvent& e) { return e.operation.interval.end_ns <= end_ns; });
  carried_ = events_.size();
  begin_ns_ = end_ns;
}

void DeviceSweep::add_window(size_t number, int64_t end_ns, const DeviceOperation* next, int64_t longest_ns) {
  const Interval& whole = windows_[number].interval;
  const Interval part{std::max(whole.begin_ns, begin_ns_), std::min(whole.end_ns, end_ns)};
  WindowSums& sums = sums_[number];
  // Sorted by begin, and few are long: what began up to the longest one's length before the window may reach into it.
  const auto begins_before = [](const DeviceEvent& e, int64_t ns) { return e.operation.interval.begin_ns < ns; };
  const auto first = std::lower_bound(events_.cbegin(), events_.cend(), part.begin_ns - longest_ns, begins_before);
  const auto last = std::lower_bound(events_.cbegin(), events_.cend(), part.end_ns, begins_before);
  const auto fresh =
      whole.begin_ns >= begin_ns_ ? first : std::max(first, events_.cbegin() + static_cast<std::ptrdiff_t>(carried_));
  std::vector<DeviceOperation> operations;
  for (auto e = first; e < last; ++e) {
    if (e->operation.interval.end_ns <= part.begin_ns) continue;
    operations.push_back(e->operation);
    if (e < fresh) continue;
    sums.sigma_ns += e->sigma_ns;
    if (e->why != Why::kNone) sums.why = e->why;
  }
  std::vector<Interval> inputs;
  auto input = std::lower_bound(inputs_.begin(), inputs_.end(), part.begin_ns - longest_input_ns_,
                                [](const Interval& i, int64_t ns) { return i.begin_ns < ns; });
  for (; input != inputs_.end() && input->begin_ns < part.end_ns; ++input)
    if (input->end_ns > part.begin_ns) inputs.push_back(*input);
  add_axes(part, first, last, sums.axes);
  sums.partition.add(partition_device(part, operations, last != events_.cend() ? &last->operation : next, inputs));
}

void DeviceSweep::add_layers(int64_t end_ns) {
  std::map<std::pair<int64_t, int64_t>, std::array<std::vector<Interval>, 3>> groups;  // by step and layer
  std::map<int64_t, std::vector<Interval>> computing;                                  // by step
  for (const DeviceEvent& e : events_) {
    const Interval part{std::max(e.operation.interval.begin_ns, begin_ns_),
                        std::min(e.operation.interval.end_ns, end_ns)};
    groups[{e.step, e.layer}][static_cast<size_t>(e.operation.device_class)].push_back(part);
    if (e.operation.device_class == DeviceClass::kCompute) computing[e.step].push_back(part);
  }
  for (const auto& [key, classes] : groups) {
    const IntervalSet comm(classes[static_cast<size_t>(DeviceClass::kCommunication)]);
    GpuLayerSums& sums = layers_[key];
    sums.compute_ns += IntervalSet(classes[static_cast<size_t>(DeviceClass::kCompute)]).length_ns();
    sums.comm_ns += comm.length_ns();
    sums.copy_ns += IntervalSet(classes[static_cast<size_t>(DeviceClass::kCopy)]).length_ns();
    if (!comm.empty()) sums.exposed_comm_ns += subtract(comm, IntervalSet(computing[key.first])).length_ns();
  }
}

}  // namespace ddl
