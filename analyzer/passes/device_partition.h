// Where one window of one GPU went (specification.md "Time sets" to "Idling of GPUs"): sets of intervals over all its
// streams, which add up to the nanosecond.
//
//   compute  K: kernels that compute          comm  C: kernels of collectives          copy  M: copies and memsets
//   idle     I: nothing of these, the edges of the window included.  |K| + |C \ K| + |M \ (K u C)| + |I| = duration
// Waiting for other ranks inside a collective's kernel is not idle: it is the first part of C, where it is known.
//
// Each gap without anything is told by the operation that ends it, of which the launching call is known, in this order:
//   input   the part in which the host was in a range that loads data (docs/decisions/0013)
//   host    up to the begin of the launching call: the host was late
//   launch  what is left after that, if it is less than kLaunchLatencyNs
//   kernel  launched before the gap began, and shorter than kKernelWaitNs: what lies between two kernels
//   dep     launched before the gap began, and waiting for an event behind a collective or a copy that still ran, on
//           another GPU (what runs on this one is not a gap): until that was done
//   other   the rest
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "analyzer/intervals.h"

namespace ddl {

constexpr int64_t kLaunchLatencyNs = 20'000;
constexpr int64_t kKernelWaitNs = 30'000;

enum class DeviceClass { kCompute, kCommunication, kCopy };

/// A collective or a copy that an operation waits for.
struct Awaited {
  int64_t end_ns;
  bool is_copy;
};

struct DeviceOperation {
  Interval interval;
  DeviceClass device_class = DeviceClass::kCompute;
  std::optional<int64_t> launch_ns;  ///< its launching call was entered
  /// collectives: waiting for other ranks, the first part of the interval; unset: not known
  std::optional<int64_t> wait_ns;
  std::optional<Awaited> awaits = {};  ///< the last one that its stream was told to wait for
};

struct DevicePartition {
  int64_t duration_ns = 0;
  int64_t compute_ns = 0, comm_ns = 0, copy_ns = 0;
  int64_t wait_ns = 0;          ///< of |C|: nothing but waiting; counts only if `split`
  int64_t exposed_comm_ns = 0;  ///< |C \ K|
  int64_t exposed_wait_ns = 0;  ///< of which waiting; counts only if `split`
  int64_t exposed_copy_ns = 0;  ///< |M \ (K u C)|
  int64_t active_ns = 0;        ///< |K u C u M|
  int64_t active_xfer_ns = 0;   ///< the same without the waiting; counts only if `split`
  int64_t idle_ns = 0;
  int64_t idle_input_ns = 0, idle_host_ns = 0, idle_launch_ns = 0, idle_kernel_ns = 0;
  int64_t idle_dep_comm_ns = 0, idle_dep_copy_ns = 0, idle_other_ns = 0;
  bool split = true;  ///< the waiting of every collective is known

  /// That of the window behind it. An operation begins where they meet, or both are within one: no gap lies in both.
  void add(const DevicePartition& next);
};

/// `operations`: those that overlap the window, by begin, longest first. `next`: the first one after it, if any.
/// `inputs`: when the host was in ranges that load data.
DevicePartition partition_device(const Interval& window, const std::vector<DeviceOperation>& operations,
                                 const DeviceOperation* next, const std::vector<Interval>& inputs);

}  // namespace ddl
