// What one GPU of a process did, in the order of time: cut into pieces, of which one is in memory at a time. A
// piece ends where an operation begins, so that no gap lies in two of them, and all times of windows and layers are
// sums over pieces.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "analyzer/passes/device_partition.h"
#include "analyzer/passes/instance.h"

namespace ddl {

/// One operation of a GPU.
struct DeviceEvent {
  DeviceOperation operation;
  int64_t step = -1;  ///< -1: outside
  int64_t layer = 0;  ///< number of its layer and phase
  int64_t axis = -1;  ///< collectives: number of the axis
  Why why = Why::kNone;
  double sigma_ns = 0;  ///< clock sigma of its waiting
};

/// A step of the process, or its whole run.
struct DeviceWindow {
  std::optional<int64_t> step;  ///< unset: the whole run
  Interval interval;
};

/// Collectives of one axis in a window.
struct AxisSums {
  int64_t comm_ns = 0, wait_ns = 0, exposed_ns = 0, exposed_wait_ns = 0;
  bool split = true;  ///< the waiting of all of them is known
};

/// Sums over the operations in a window.
struct WindowSums {
  DevicePartition partition;
  double sigma_ns = 0;
  Why why = Why::kNone;
  std::map<int64_t, AxisSums> axes;  ///< by number
};

struct GpuLayerSums {
  int64_t compute_ns = 0, comm_ns = 0, copy_ns = 0, exposed_comm_ns = 0;
};

class DeviceSweep {
 public:
  /// `inputs`: by begin. `windows`: those of steps by begin, in the end that of the run. Both must outlive this.
  DeviceSweep(const std::vector<DeviceWindow>& windows, const std::vector<Interval>& inputs);

  /// By begin.
  void add(const DeviceEvent& event);
  /// To be called once, before sums are asked for.
  void finish();

  const std::vector<WindowSums>& of_windows() const { return sums_; }
  /// by step and layer
  const std::map<std::pair<int64_t, int64_t>, GpuLayerSums>& of_layers() const { return layers_; }

 private:
  /// `next`: the operation that begins there.
  void end_piece(int64_t end_ns, const DeviceOperation* next);
  void add_window(size_t number, int64_t end_ns, const DeviceOperation* next, int64_t longest_ns);
  void add_layers(int64_t end_ns);

  const std::vector<DeviceWindow>& windows_;
  const std::vector<Interval>& inputs_;
  int64_t longest_input_ns_ = 0;
  std::vector<DeviceEvent> events_;  ///< by begin: of the piece
  size_t carried_ = 0;               ///< of them, that began in earlier pieces
  int64_t begin_ns_ = INT64_MIN;     ///< of the piece
  size_t window_ = 0;                ///< the next one that begins
  std::vector<size_t> open_;         ///< windows of steps
  bool run_ended_ = false;
  std::vector<WindowSums> sums_;  ///< by window
  std::map<std::pair<int64_t, int64_t>, GpuLayerSums> layers_;
};

}  // namespace ddl
