// CUPTI's interface, written down again: the product includes no header of NVIDIA's. tests/collectors/cupti_mirror.cpp
// compares every offset and number with the real headers where they are. The records are the beginnings that all
// versions from CUPTI 11.0 to 13.0 share; how long a record is, only the library knows that wrote it
// (cuptiActivityGetNextRecord).
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace ddl::cupti {

constexpr uint32_t kOldestVersion = 13;  ///< CUDA 11.0
/// CUDA 12.8: each recording of an event has a number, which who waits for it names
constexpr uint32_t kNumbersEvents = 26;
constexpr uint32_t kMayRefuseBuffers = 27;  ///< before, CUPTI may crash when it gets no buffer

enum Result : int {
  kSuccess = 0,
  kMaxLimitReached = 12,
  kNotInitialized = 15,
  kMultipleSubscribers = 39,
};

enum ActivityKind : uint32_t {
  kActivityMemcpy = 1,
  kActivityMemset = 2,
  kActivityConcurrentKernel = 10,
  kActivityOverhead = 17,
  kActivityMemcpy2 = 22,
  kActivityCudaEvent = 36,
  kActivitySynchronization = 38,
};

struct Kernel {
  uint32_t kind;
  uint32_t registers[3];
  uint64_t start;
  uint64_t end;
  uint64_t completed;
  uint32_t device;
  uint32_t context;
  uint32_t stream;
  int32_t grid[3];
  int32_t block[3];
  int32_t shared[2];
  uint32_t local[2];
  uint32_t correlation;
  int64_t grid_id;
  const char* name;
  void* reserved;
  uint64_t queued;
  uint64_t submitted;
  uint32_t launch_flags;
  uint32_t shared_executed;
  uint64_t graph_node;
};
static_assert(offsetof(Kernel, start) == 16 && offsetof(Kernel, device) == 40 && offsetof(Kernel, correlation) == 92 &&
              offsetof(Kernel, name) == 104 && offsetof(Kernel, graph_node) == 144);

struct Memcpy {
  uint32_t kind;
  uint8_t copy;
  uint8_t source;
  uint8_t destination;
  uint8_t flags;
  uint64_t bytes;
  uint64_t start;
  uint64_t end;
  uint32_t device;
  uint32_t context;
  uint32_t stream;
  uint32_t correlation;
  uint32_t runtime_correlation;
  uint32_t padding;
  void* reserved;
  uint64_t graph_node;
};
static_assert(offsetof(Memcpy, bytes) == 8 && offsetof(Memcpy, correlation) == 44 &&
              offsetof(Memcpy, graph_node) == 64);

/// Between devices.
struct PeerMemcpy {
  uint32_t kind;
  uint8_t copy;
  uint8_t source;
  uint8_t destination;
  uint8_t flags;
  uint64_t bytes;
  uint64_t start;
  uint64_t end;
  uint32_t device;
  uint32_t context;
  uint32_t stream;
  uint32_t source_device;
  uint32_t source_context;
  uint32_t destination_device;
  uint32_t destination_context;
  uint32_t correlation;
  void* reserved;
  uint64_t graph_node;
};
static_assert(offsetof(PeerMemcpy, source_device) == 44 && offsetof(PeerMemcpy, correlation) == 60 &&
              offsetof(PeerMemcpy, graph_node) == 72);

struct Memset {
  uint32_t kind;
  uint32_t value;
  uint64_t bytes;
  uint64_t start;
  uint64_t end;
  uint32_t device;
  uint32_t context;
  uint32_t stream;
  uint32_t correlation;
  uint16_t flags;
  uint16_t memory;
  uint32_t padding;
  void* reserved;
  uint64_t graph_node;
};
static_assert(offsetof(Memset, correlation) == 44 && offsetof(Memset, memory) == 50 &&
              offsetof(Memset, graph_node) == 64);

struct Synchronization {
  uint32_t kind;
  uint32_t type;
  uint64_t start;
  uint64_t end;
  uint32_t correlation;
  uint32_t context;
  uint32_t stream;
  uint32_t event;
  uint64_t recording;  ///< from kNumbersEvents on
};
static_assert(offsetof(Synchronization, correlation) == 24 && offsetof(Synchronization, recording) == 40);

/// cudaEventRecord.
struct CudaEvent {
  uint32_t kind;
  uint32_t correlation;
  uint32_t context;
  uint32_t stream;
  uint32_t event;
  uint32_t padding;
  uint32_t device;  ///< from here on only from kNumbersEvents on
  uint32_t more_padding;
  void* reserved;
  uint64_t device_time;
  uint64_t recording;
};
static_assert(offsetof(CudaEvent, event) == 16 && offsetof(CudaEvent, recording) == 48);

struct Overhead {
  uint32_t kind;
  uint32_t overhead;
  uint32_t object_kind;
  uint32_t object_id[3];
  uint64_t start;
  uint64_t end;
};
static_assert(offsetof(Overhead, start) == 24);

// ------------------------------------------------------------------------------------------------ callbacks

enum Domain : int { kDriver = 1, kRuntime = 2, kResource = 3 };
enum Site : int { kEnter = 0, kExit = 1 };
constexpr uint32_t kGraphNodeCreated = 13;
constexpr uint32_t kGraphNodeCloned = 20;

struct CallbackData {
  int site;
  const char* function;
  const void* parameters;
  void* result;
  const char* symbol;
  void* context;
  uint32_t context_uid;
  uint64_t* own;  ///< 64 bits for whoever is called back, from enter to exit of one call
  uint32_t correlation;
};
static_assert(offsetof(CallbackData, own) == 56 && offsetof(CallbackData, correlation) == 64);

struct ResourceData {
  void* context;
  void* stream;
  void* descriptor;  ///< GraphData
};

struct GraphData {
  void* graph;
  void* original_graph;
  void* node;
  void* original_node;
  int node_type;
  void* dependency;
  void* executable;
};

struct SubscriberParameters {
  size_t size;
  const char* name;
  char* old_name;
  size_t old_bytes;
};

using Callback = void (*)(void* user, int domain, uint32_t cbid, const void* data);
using BufferRequested = void (*)(uint8_t** buffer, size_t* size, size_t* records);
using BufferCompleted = void (*)(void* context, uint32_t stream, uint8_t* buffer, size_t size, size_t valid);
using Timestamp = uint64_t (*)();

// clang-format off
/// Functions that we call: X(name in CUPTI less "cupti", member, parameters). The last two came later than CUPTI 11.0.
#define DDL_CUPTI_FUNCTIONS(X)                                                                                 \
  X(GetVersion, get_version, (uint32_t*))                                                                      \
  X(GetTimestamp, get_timestamp, (uint64_t*))                                                                  \
  X(Subscribe, subscribe, (void** subscriber, Callback, void* user))                                           \
  X(Unsubscribe, unsubscribe, (void* subscriber))                                                              \
  X(EnableCallback, enable_callback, (uint32_t enable, void* subscriber, int domain, uint32_t cbid))           \
  X(ActivityRegisterCallbacks, register_callbacks, (BufferRequested, BufferCompleted))                         \
  X(ActivityEnable, enable, (uint32_t kind))                                                                   \
  X(ActivityDisable, disable, (uint32_t kind))                                                                 \
  X(ActivityFlushAll, flush_all, (uint32_t forced))                                                            \
  X(ActivityGetNextRecord, next_record, (uint8_t* buffer, size_t valid, uint8_t** record))                     \
  X(ActivityGetNumDroppedRecords, dropped_records, (void* context, uint32_t stream, size_t* dropped))          \
  X(GetGraphNodeId, graph_node_id, (void* node, uint64_t* id))                                                 \
  X(ActivityRegisterTimestampCallback, register_timestamp, (Timestamp))                                        \
  X(Subscribe_v2, subscribe_v2, (void** subscriber, Callback, void* user, SubscriberParameters*))
// clang-format on

struct Functions {
#define DDL_CUPTI_MEMBER(name, member, parameters) int(*member) parameters;
  DDL_CUPTI_FUNCTIONS(DDL_CUPTI_MEMBER)
#undef DDL_CUPTI_MEMBER
};

}  // namespace ddl::cupti
