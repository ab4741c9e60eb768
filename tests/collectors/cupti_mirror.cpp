// Compares collectors/cupti_abi.h with the real headers of CUPTI, and reads buffers that were written with the real
// structs: the real libcupti walks them (that needs no driver), our mirrors tell what is in them.
//
// usage: cupti_mirror [LIBCUPTI]
#include <cuda.h>
#include <cupti.h>
#include <dlfcn.h>

#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "collectors/cupti.h"
#include "collectors/cupti_calls.h"

namespace {

namespace mirror = ddl::cupti;

#define SAME(REAL, member, MIRROR, ours)                                    \
  static_assert(offsetof(REAL, member) == offsetof(mirror::MIRROR, ours) && \
                sizeof(REAL::member) == sizeof(mirror::MIRROR::ours))
SAME(CUpti_ActivityKernel10, kind, Kernel, kind);
SAME(CUpti_ActivityKernel10, start, Kernel, start);
SAME(CUpti_ActivityKernel10, end, Kernel, end);
SAME(CUpti_ActivityKernel10, deviceId, Kernel, device);
SAME(CUpti_ActivityKernel10, contextId, Kernel, context);
SAME(CUpti_ActivityKernel10, streamId, Kernel, stream);
SAME(CUpti_ActivityKernel10, correlationId, Kernel, correlation);
SAME(CUpti_ActivityKernel10, name, Kernel, name);
SAME(CUpti_ActivityKernel10, graphNodeId, Kernel, graph_node);
SAME(CUpti_ActivityMemcpy6, copyKind, Memcpy, copy);
SAME(CUpti_ActivityMemcpy6, srcKind, Memcpy, source);
SAME(CUpti_ActivityMemcpy6, dstKind, Memcpy, destination);
SAME(CUpti_ActivityMemcpy6, bytes, Memcpy, bytes);
SAME(CUpti_ActivityMemcpy6, start, Memcpy, start);
SAME(CUpti_ActivityMemcpy6, end, Memcpy, end);
SAME(CUpti_ActivityMemcpy6, deviceId, Memcpy, device);
SAME(CUpti_ActivityMemcpy6, contextId, Memcpy, context);
SAME(CUpti_ActivityMemcpy6, streamId, Memcpy, stream);
SAME(CUpti_ActivityMemcpy6, correlationId, Memcpy, correlation);
SAME(CUpti_ActivityMemcpy6, graphNodeId, Memcpy, graph_node);
SAME(CUpti_ActivityMemcpyPtoP4, copyKind, PeerMemcpy, copy);
SAME(CUpti_ActivityMemcpyPtoP4, bytes, PeerMemcpy, bytes);
SAME(CUpti_ActivityMemcpyPtoP4, start, PeerMemcpy, start);
SAME(CUpti_ActivityMemcpyPtoP4, end, PeerMemcpy, end);
SAME(CUpti_ActivityMemcpyPtoP4, deviceId, PeerMemcpy, device);
SAME(CUpti_ActivityMemcpyPtoP4, contextId, PeerMemcpy, context);
SAME(CUpti_ActivityMemcpyPtoP4, streamId, PeerMemcpy, stream);
SAME(CUpti_ActivityMemcpyPtoP4, dstDeviceId, PeerMemcpy, destination_device);
SAME(CUpti_ActivityMemcpyPtoP4, correlationId, PeerMemcpy, correlation);
SAME(CUpti_ActivityMemcpyPtoP4, graphNodeId, PeerMemcpy, graph_node);
SAME(CUpti_ActivityMemset4, bytes, Memset, bytes);
SAME(CUpti_ActivityMemset4, start, Memset, start);
SAME(CUpti_ActivityMemset4, end, Memset, end);
SAME(CUpti_ActivityMemset4, deviceId, Memset, device);
SAME(CUpti_ActivityMemset4, contextId, Memset, context);
SAME(CUpti_ActivityMemset4, streamId, Memset, stream);
SAME(CUpti_ActivityMemset4, correlationId, Memset, correlation);
SAME(CUpti_ActivityMemset4, memoryKind, Memset, memory);
SAME(CUpti_ActivityMemset4, graphNodeId, Memset, graph_node);
SAME(CUpti_ActivitySynchronization2, type, Synchronization, type);
SAME(CUpti_ActivitySynchronization2, start, Synchronization, start);
SAME(CUpti_ActivitySynchronization2, end, Synchronization, end);
SAME(CUpti_ActivitySynchronization2, correlationId, Synchronization, correlation);
SAME(CUpti_ActivitySynchronization2, contextId, Synchronization, context);
SAME(CUpti_ActivitySynchronization2, streamId, Synchronization, stream);
SAME(CUpti_ActivitySynchronization2, cudaEventId, Synchronization, event);
SAME(CUpti_ActivitySynchronization2, cudaEventSyncId, Synchronization, recording);
SAME(CUpti_ActivityCudaEvent2, correlationId, CudaEvent, correlation);
SAME(CUpti_ActivityCudaEvent2, contextId, CudaEvent, context);
SAME(CUpti_ActivityCudaEvent2, streamId, CudaEvent, stream);
SAME(CUpti_ActivityCudaEvent2, eventId, CudaEvent, event);
SAME(CUpti_ActivityCudaEvent2, cudaEventSyncId, CudaEvent, recording);
SAME(CUpti_ActivityOverhead3, overheadKind, Overhead, overhead);
SAME(CUpti_ActivityOverhead3, start, Overhead, start);
SAME(CUpti_ActivityOverhead3, end, Overhead, end);
SAME(CUpti_CallbackData, callbackSite, CallbackData, site);
SAME(CUpti_CallbackData, correlationData, CallbackData, own);
SAME(CUpti_CallbackData, correlationId, CallbackData, correlation);
SAME(CUpti_ResourceData, resourceDescriptor, ResourceData, descriptor);
SAME(CUpti_GraphData, node, GraphData, node);
SAME(CUpti_GraphData, originalNode, GraphData, original_node);
SAME(CUpti_SubscriberParams, structSize, SubscriberParameters, size);
SAME(CUpti_SubscriberParams, subscriberName, SubscriberParameters, name);
SAME(CUpti_SubscriberParams, oldSubscriberName, SubscriberParameters, old_name);
SAME(CUpti_SubscriberParams, oldSubscriberSize, SubscriberParameters, old_bytes);
static_assert(CUpti_SubscriberParams_STRUCT_SIZE == sizeof(mirror::SubscriberParameters));
static_assert(CUPTI_OLD_SUBSCRIBER_NAME_MIN_LEN == 64);

static_assert(CUPTI_ERROR_MAX_LIMIT_REACHED == static_cast<int>(mirror::kMaxLimitReached));
static_assert(CUPTI_ERROR_NOT_INITIALIZED == static_cast<int>(mirror::kNotInitialized));
static_assert(CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED == static_cast<int>(mirror::kMultipleSubscribers));
static_assert(CUPTI_ACTIVITY_KIND_MEMCPY == static_cast<int>(mirror::kActivityMemcpy));
static_assert(CUPTI_ACTIVITY_KIND_MEMSET == static_cast<int>(mirror::kActivityMemset));
static_assert(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL == static_cast<int>(mirror::kActivityConcurrentKernel));
static_assert(CUPTI_ACTIVITY_KIND_OVERHEAD == static_cast<int>(mirror::kActivityOverhead));
static_assert(CUPTI_ACTIVITY_KIND_MEMCPY2 == static_cast<int>(mirror::kActivityMemcpy2));
static_assert(CUPTI_ACTIVITY_KIND_SYNCHRONIZATION == static_cast<int>(mirror::kActivitySynchronization));
static_assert(CUPTI_ACTIVITY_KIND_CUDA_EVENT == static_cast<int>(mirror::kActivityCudaEvent));
static_assert(CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_WAIT_EVENT == static_cast<int>(ddl::kStreamWaits));
static_assert(CUPTI_CB_DOMAIN_DRIVER_API == static_cast<int>(mirror::kDriver) &&
              CUPTI_CB_DOMAIN_RUNTIME_API == static_cast<int>(mirror::kRuntime));
static_assert(CUPTI_CB_DOMAIN_RESOURCE == static_cast<int>(mirror::kResource));
static_assert(CUPTI_API_ENTER == static_cast<int>(mirror::kEnter) && CUPTI_API_EXIT == static_cast<int>(mirror::kExit));
static_assert(CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED == mirror::kGraphNodeCreated &&
              CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED == mirror::kGraphNodeCloned);
static_assert(CUPTI_ACTIVITY_MEMCPY_KIND_HTOD == static_cast<int>(ddl::DeviceCopy::kHtoD));
static_assert(CUPTI_ACTIVITY_MEMCPY_KIND_DTOH == static_cast<int>(ddl::DeviceCopy::kDtoH));
static_assert(CUPTI_ACTIVITY_MEMCPY_KIND_DTOD == static_cast<int>(ddl::DeviceCopy::kDtoD));
static_assert(CUPTI_ACTIVITY_MEMCPY_KIND_PTOP == static_cast<int>(ddl::DeviceCopy::kPtoP));
static_assert(CUPTI_ACTIVITY_MEMORY_KIND_PAGEABLE == static_cast<int>(ddl::DeviceMemory::kPageable));
static_assert(CUPTI_ACTIVITY_MEMORY_KIND_PINNED == static_cast<int>(ddl::DeviceMemory::kPinned));
static_assert(CUPTI_ACTIVITY_MEMORY_KIND_MANAGED == static_cast<int>(ddl::DeviceMemory::kManaged));

int failures = 0;

void expect(bool holds, const char* what) {
  if (holds) return;
  std::printf("FAILED: %s\n", what);
  ++failures;
}

template <class T>
T& add(std::vector<uint64_t>& buffer, size_t& used, CUpti_ActivityKind kind) {
  T& record = *reinterpret_cast<T*>(reinterpret_cast<char*>(buffer.data()) + used);
  std::memset(static_cast<void*>(&record), 0x5a, sizeof record);
  record.kind = kind;
  used += sizeof record;
  return record;
}

template <class T>
void place(T& record, uint32_t number) {
  record.start = 1000 + number;
  record.end = 2000 + number;
  record.deviceId = 3;
  record.contextId = 4;
  record.streamId = 5;
  record.correlationId = number;
  record.graphNodeId = 600 + number;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return failures;
  void* library = dlopen(argv[1], RTLD_NOW);
  const auto next =
      library ? reinterpret_cast<decltype(&cuptiActivityGetNextRecord)>(dlsym(library, "cuptiActivityGetNextRecord"))
              : nullptr;
  if (!next) {
    std::printf("skipped: %s\n", library ? "no cuptiActivityGetNextRecord" : dlerror());
    return 77;
  }
  std::vector<uint64_t> buffer(1024);
  size_t used = 0;
  constexpr char kName[] = "_Z4gemmv";
  auto& kernel = add<CUpti_ActivityKernel10>(buffer, used, CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
  place(kernel, 1);
  kernel.name = kName;
  auto& copy = add<CUpti_ActivityMemcpy6>(buffer, used, CUPTI_ACTIVITY_KIND_MEMCPY);
  place(copy, 2);
  copy.copyKind = CUPTI_ACTIVITY_MEMCPY_KIND_DTOH;
  copy.srcKind = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE;
  copy.dstKind = CUPTI_ACTIVITY_MEMORY_KIND_PINNED;
  copy.bytes = 4096;
  auto& peer = add<CUpti_ActivityMemcpyPtoP4>(buffer, used, CUPTI_ACTIVITY_KIND_MEMCPY2);
  place(peer, 3);
  peer.copyKind = CUPTI_ACTIVITY_MEMCPY_KIND_PTOP;
  peer.bytes = 8192;
  peer.dstDeviceId = 7;
  auto& set = add<CUpti_ActivityMemset4>(buffer, used, CUPTI_ACTIVITY_KIND_MEMSET);
  place(set, 4);
  set.bytes = 77;
  set.memoryKind = CUPTI_ACTIVITY_MEMORY_KIND_MANAGED;
  auto& wait = add<CUpti_ActivitySynchronization2>(buffer, used, CUPTI_ACTIVITY_KIND_SYNCHRONIZATION);
  wait.type = CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_CONTEXT_SYNCHRONIZE;
  wait.start = 1005;
  wait.end = 2005;
  wait.contextId = 4;
  wait.streamId = CUPTI_SYNCHRONIZATION_INVALID_VALUE;
  wait.correlationId = 5;
  auto& overhead = add<CUpti_ActivityOverhead3>(buffer, used, CUPTI_ACTIVITY_KIND_OVERHEAD);
  overhead.overheadKind = CUPTI_ACTIVITY_OVERHEAD_CUPTI_INSTRUMENTATION;
  overhead.start = 1006;
  overhead.end = 2006;
  auto& waits = add<CUpti_ActivitySynchronization2>(buffer, used, CUPTI_ACTIVITY_KIND_SYNCHRONIZATION);
  waits.type = CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_WAIT_EVENT;
  waits.start = 1007;
  waits.end = 2007;
  waits.contextId = 4;
  waits.streamId = 14;
  waits.correlationId = 7;
  waits.cudaEventId = 88;
  waits.cudaEventSyncId = 99;
  auto& event = add<CUpti_ActivityCudaEvent2>(buffer, used, CUPTI_ACTIVITY_KIND_CUDA_EVENT);
  event.correlationId = 6;
  event.contextId = 4;
  event.streamId = 13;
  event.eventId = 88;
  event.cudaEventSyncId = 99;
  auto& api = add<CUpti_ActivityAPI>(buffer, used, CUPTI_ACTIVITY_KIND_RUNTIME);  // not ours
  api.start = api.end = 1;
  auto& lost = add<CUpti_ActivityKernel10>(buffer, used, CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
  place(lost, 8);
  lost.start = lost.end = 0;

  CUpti_Activity* record = nullptr;
  std::vector<ddl::DeviceRecord> found;
  int no_times = 0, not_ours = 0;
  CUptiResult result;
  const char* kernel_name = nullptr;
  while ((result = next(reinterpret_cast<uint8_t*>(buffer.data()), used, &record)) == CUPTI_SUCCESS) {
    ddl::DeviceRecord to;
    const char* name = nullptr;
    switch (mirror::convert(record, CUPTI_API_VERSION, 0, to, name)) {
      case mirror::Converted::kNow:
        to.start = 1008;
        to.end = 2008;
        [[fallthrough]];
      case mirror::Converted::kYes:
        found.push_back(to);
        if (name) kernel_name = name;
        break;
      case mirror::Converted::kNoTimes:
        ++no_times;
        break;
      case mirror::Converted::kNotOurs:
        ++not_ours;
        break;
    }
  }
  expect(result == CUPTI_ERROR_MAX_LIMIT_REACHED, "the walk ends at the end");
  expect(found.size() == 8 && no_times == 1 && not_ours == 1, "all records are met");
  if (found.size() != 8) return 1;
  using Kind = ddl::DeviceKind;
  constexpr Kind kKinds[] = {Kind::kKernel,      Kind::kMemcpy,   Kind::kMemcpy,      Kind::kMemset,
                             Kind::kSynchronize, Kind::kOverhead, Kind::kSynchronize, Kind::kEvent};
  for (uint32_t i = 0; i < 8; ++i) {
    const ddl::DeviceRecord& r = found[i];
    expect(ddl::device_kind(r.what) == kKinds[i] && r.start == 1001 + i && r.end == 2001 + i, "kinds and times");
    expect(r.context == ddl::kContextOfLaunch, "the layer is the launch's");
    if (i < 4)
      expect(r.device == 3 && r.cuda_context == 4 && r.stream == 5 && r.correlation == i + 1 && r.graph_node == 601 + i,
             "places");
  }
  expect(kernel_name == kName, "the kernel's name");
  expect(ddl::device_sub(found[1].what) == 2 && ddl::device_source(found[1].what) == 3 &&
             ddl::device_destination(found[1].what) == 2,
         "copies");
  expect(found[1].bytes == 4096 && found[2].bytes == 8192 && found[3].bytes == 77, "bytes");
  expect(ddl::device_sub(found[2].what) == 10 && found[2].name == 7, "copies between devices");
  expect(ddl::device_destination(found[3].what) == 5, "memsets");
  expect(found[4].correlation == 5 && ddl::device_sub(found[4].what) == 4 && found[4].stream == UINT32_MAX,
         "synchronisation");
  expect(ddl::device_sub(found[5].what) == 2, "overhead");
  expect(found[6].stream == 14 && found[7].stream == 13 && found[6].correlation == 7 && found[7].correlation == 6,
         "streams that wait");
  expect(found[6].name == 88 && found[7].name == 88 && found[6].graph_node == 99 && found[7].graph_node == 99,
         "what they wait for");
  std::printf("%zu records of the real libcupti told alike, %d failures\n", found.size(), failures);
  return failures != 0;
}
