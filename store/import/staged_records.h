// Importers' reports, waiting for the rest of the trace: records of a fixed size, from which ImportedRun::finish()
// makes rows. Texts are numbers of ImportedRun's.
#pragma once

#include <cstdint>
#include <tuple>

#include "store/sorted_records.h"

namespace ddl::store {

enum class CpuKind : uint8_t { kStep, kRange, kLaunch, kCall };

constexpr uint32_t kNoName = UINT32_MAX;

struct CpuRecord {
  int64_t start_ns, duration_ns;
  uint32_t process, thread;  ///< numbers of the process in the order of add_process(), and of its thread
  /// of the step; of a range its ContextKind; of a launch its correlation; of a call event.kind
  int64_t number;
  CpuKind kind;
  bool has_seq = false, has_bytes = false, has_peer = false, has_tag = false;
  bool is_kernel = false;   ///< a launch: of a kernel
  uint32_t name = kNoName;  ///< of a range; of a call: of its layer, if no range says it
  // The call's operation, or that of kernels launched in the range. 0: none.
  uint32_t op = 0, comm = 0, datatype = 0, algorithm = 0, protocol = 0;
  int64_t seq = 0, bytes = 0, peer = 0, tag = 0;
};
struct CpuOrder {
  bool operator()(const CpuRecord& a, const CpuRecord& b) const {
    return std::tie(a.process, a.thread, a.start_ns, b.duration_ns, a.kind) <
           std::tie(b.process, b.thread, b.start_ns, a.duration_ns, b.kind);
  }
};

/// A call that launches GPU work, in its place.
struct LaunchRecord {
  int64_t correlation, start_ns, duration_ns, step;
  int64_t range, bytes;  ///< range: of NCCL, in which it lies, 0: none; op and what follows are of that
  uint32_t process, thread, region;
  uint32_t op, comm, datatype;
  bool has_step, has_bytes;
};
struct LaunchOrder {
  bool operator()(const LaunchRecord& a, const LaunchRecord& b) const {
    return std::tie(a.process, a.correlation) < std::tie(b.process, b.correlation);
  }
};

struct GpuRecord {
  int64_t start_ns, duration_ns;
  int64_t correlation;
  uint64_t place;  ///< in the order of reporting
  uint32_t process, name;
  uint8_t kind;
  bool is_nccl, is_of_call;
  bool has_device, has_context, has_stream, has_bytes, has_graph_node, has_payload;
  uint32_t copy, source, destination;                ///< texts; 0: none
  uint32_t op, comm, datatype, algorithm, protocol;  ///< of the collective; 0: none
  int64_t device, context, stream, bytes, graph_node, payload;
};
struct GpuLaunchOrder {
  bool operator()(const GpuRecord& a, const GpuRecord& b) const {
    return std::tie(a.process, a.correlation, a.is_of_call) < std::tie(b.process, b.correlation, b.is_of_call);
  }
};

/// With its launching call.
struct LaunchedRecord {
  GpuRecord gpu;
  uint32_t process_id;
  bool is_launched;
  LaunchRecord launch;
};
struct LaunchedOrder {
  bool operator()(const LaunchedRecord& a, const LaunchedRecord& b) const {
    return std::tie(a.process_id, a.gpu.start_ns, b.gpu.duration_ns, a.gpu.place) <
           std::tie(b.process_id, b.gpu.start_ns, a.gpu.duration_ns, b.gpu.place);
  }
};

}  // namespace ddl::store
