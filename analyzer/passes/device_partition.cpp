#include "analyzer/passes/device_partition.h"

#include <algorithm>

namespace ddl {
namespace {

/// The operation that ends a gap.
const DeviceOperation* ender(const Interval& gap, const std::vector<DeviceOperation>& operations,
                             const DeviceOperation* next) {
  const auto found = std::lower_bound(operations.begin(), operations.end(), gap.end_ns,
                                      [](const DeviceOperation& o, int64_t ns) { return o.interval.begin_ns < ns; });
  return found != operations.end() ? &*found : next;
}

void classify(const Interval& gap, const DeviceOperation* end, const IntervalSet& inputs, DevicePartition& to) {
  const IntervalSet rest = subtract(IntervalSet({gap}), inputs);
  to.idle_input_ns += gap.length_ns() - rest.length_ns();
  if (!end || !end->launch_ns) {
    to.idle_other_ns += rest.length_ns();
    return;
  }
  const int64_t launch_ns = std::clamp(*end->launch_ns, gap.begin_ns, gap.end_ns);
  const int64_t host_ns = intersect(rest, IntervalSet({{gap.begin_ns, launch_ns}})).length_ns();
  const int64_t after_ns = rest.length_ns() - host_ns;
  to.idle_host_ns += host_ns;
  if (launch_ns > gap.begin_ns) {
    (after_ns < kLaunchLatencyNs ? to.idle_launch_ns : to.idle_other_ns) += after_ns;
  } else if (after_ns < kKernelWaitNs) {
    to.idle_kernel_ns += after_ns;
  } else {
    const int64_t until_ns = end->awaits ? std::clamp(end->awaits->end_ns, gap.begin_ns, gap.end_ns) : gap.begin_ns;
    const int64_t waited_ns = intersect(rest, IntervalSet({{gap.begin_ns, until_ns}})).length_ns();
    if (waited_ns > 0) (end->awaits->is_copy ? to.idle_dep_copy_ns : to.idle_dep_comm_ns) += waited_ns;
    (after_ns - waited_ns < kKernelWaitNs ? to.idle_kernel_ns : to.idle_other_ns) += after_ns - waited_ns;
  }
}

}  // namespace

void DevicePartition::add(const DevicePartition& next) {
  for (int64_t DevicePartition::*const time :
       {&DevicePartition::duration_ns, &DevicePartition::compute_ns, &DevicePartition::comm_ns,
        &DevicePartition::copy_ns, &DevicePartition::wait_ns, &DevicePartition::exposed_comm_ns,
        &DevicePartition::exposed_wait_ns, &DevicePartition::exposed_copy_ns, &DevicePartition::active_ns,
        &DevicePartition::active_xfer_ns, &DevicePartition::idle_ns, &DevicePartition::idle_input_ns,
        &DevicePartition::idle_host_ns, &DevicePartition::idle_launch_ns, &DevicePartition::idle_kernel_ns,
        &DevicePartition::idle_dep_comm_ns, &DevicePartition::idle_dep_copy_ns, &DevicePartition::idle_other_ns})
    this->*time += next.*time;
  split = split && next.split;
}

DevicePartition partition_device(const Interval& window, const std::vector<DeviceOperation>& operations,
                                 const DeviceOperation* next, const std::vector<Interval>& inputs) {
  std::vector<Interval> of_class[3], transfers;
  DevicePartition result;
  for (const DeviceOperation& o : operations) {
    of_class[static_cast<int>(o.device_class)].push_back(o.interval);
    if (o.device_class != DeviceClass::kCommunication) continue;
    result.split = result.split && o.wait_ns;
    transfers.push_back({o.interval.begin_ns + o.wait_ns.value_or(0), o.interval.end_ns});
  }
  const IntervalSet inside({window});
  const IntervalSet compute = intersect(IntervalSet(of_class[0]), inside);
  const IntervalSet comm = intersect(IntervalSet(of_class[1]), inside);
  const IntervalSet copy = intersect(IntervalSet(of_class[2]), inside);
  const IntervalSet transfer = intersect(IntervalSet(transfers), inside);
  const IntervalSet kernels = unite(compute, comm);
  const IntervalSet active = unite(kernels, copy);
  const IntervalSet idle = subtract(inside, active);

  result.duration_ns = std::max<int64_t>(0, window.length_ns());
  result.compute_ns = compute.length_ns();
  result.comm_ns = comm.length_ns();
  result.copy_ns = copy.length_ns();
  result.wait_ns = result.comm_ns - transfer.length_ns();
  result.exposed_comm_ns = subtract(comm, compute).length_ns();
  result.exposed_wait_ns = result.exposed_comm_ns - subtract(transfer, compute).length_ns();
  result.exposed_copy_ns = subtract(copy, kernels).length_ns();
  result.active_ns = active.length_ns();
  result.active_xfer_ns = unite(unite(compute, transfer), copy).length_ns();
  result.idle_ns = idle.length_ns();
  const IntervalSet loading(inputs);
  for (const Interval& gap : idle.parts()) classify(gap, ender(gap, operations, next), loading, result);
  return result;
}

}  // namespace ddl
