// What CUPTI itself does on this machine, asked directly through its own headers, without libddl.so: the facts that
// collectors/ is built on. Prints "NAME VALUE" lines.
// usage: cupti            (what a launch costs takes a process each: cupti cost off|activity|callbacks|external|runtime)
#include <cuda.h>
#include <cupti.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <set>

#define CHECK(call)                                                                          \
  do {                                                                                       \
    if (const int code = static_cast<int>(call); code != 0) return std::printf("%s %d\n", #call, code), 1; \
  } while (0)

namespace {

__global__ void empty() {}

std::map<uint32_t, size_t> strides;
// of a runtime call: its own and those of the driver calls inside it
std::map<uint32_t, std::set<uint32_t>> correlations;
std::set<uint64_t> graph_nodes, cloned_nodes;
uint32_t outer_correlation;
uint64_t first_kernel_ns, last_kernel_ns, kernels, unstamped, event_waits;

void CUPTIAPI buffer_requested(uint8_t** buffer, size_t* size, size_t* records) {
  *size = 1 << 20;
  *records = 0;
  *buffer = static_cast<uint8_t*>(aligned_alloc(64, *size));
}

void CUPTIAPI buffer_completed(CUcontext, uint32_t, uint8_t* buffer, size_t, size_t valid) {
  CUpti_Activity* record = nullptr;
  const uint8_t* last = nullptr;
  uint32_t last_kind = 0;
  while (cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS) {
    const auto* at = reinterpret_cast<const uint8_t*>(record);
    if (last) strides[last_kind] = static_cast<size_t>(at - last);
    last = at;
    last_kind = record->kind;
    if (record->kind == CUPTI_ACTIVITY_KIND_SYNCHRONIZATION)
      event_waits += reinterpret_cast<const CUpti_ActivitySynchronization*>(record)->type == CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_EVENT_SYNCHRONIZE;
    if (record->kind != CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) continue;
    uint64_t start, node;
    std::memcpy(&start, at + 16, sizeof start);
    std::memcpy(&node, at + 144, sizeof node);
    ++kernels;
    unstamped += start == 0;
    if (first_kernel_ns == 0) first_kernel_ns = start;
    last_kernel_ns = start;
    if (node != 0) graph_nodes.insert(node);
  }
  free(buffer);
}

uint64_t CUPTIAPI our_clock() {
  return static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
}

void CUPTIAPI on_callback(void*, CUpti_CallbackDomain domain, CUpti_CallbackId id, const void* data) {
  if (domain == CUPTI_CB_DOMAIN_RESOURCE) {
    if (id != CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED && id != CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED) return;
    const auto* graph = static_cast<const CUpti_GraphData*>(static_cast<const CUpti_ResourceData*>(data)->resourceDescriptor);
    uint64_t node = 0;
    if (cuptiGetGraphNodeId(graph->node, &node) == CUPTI_SUCCESS && id == CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED) cloned_nodes.insert(node);
    return;
  }
  const auto* call = static_cast<const CUpti_CallbackData*>(data);
  if (call->callbackSite != CUPTI_API_ENTER) return;
  if (domain == CUPTI_CB_DOMAIN_RUNTIME_API) outer_correlation = call->correlationId;
  if (outer_correlation != 0) correlations[outer_correlation].insert(call->correlationId);
}

double ns_per_launch(int launches, cudaStream_t stream) {
  for (int i = 0; i < 1000; ++i) empty<<<1, 1, 0, stream>>>();
  cudaStreamSynchronize(stream);
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < launches; ++i) empty<<<1, 1, 0, stream>>>();
  const double ns = std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - begin).count() / launches;
  cudaStreamSynchronize(stream);
  return ns;
}

int cost(const char* what) {
  const bool off = !std::strcmp(what, "off"), callbacks = !std::strcmp(what, "callbacks"), external = !std::strcmp(what, "external");
  CUpti_SubscriberHandle subscriber = nullptr;
  if (!off) {
    CHECK(cuptiSubscribe(&subscriber, on_callback, nullptr));
    CHECK(cuptiActivityRegisterCallbacks(buffer_requested, buffer_completed));
    CHECK(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL));
    if (callbacks) CHECK(cuptiEnableCallback(1, subscriber, CUPTI_CB_DOMAIN_RUNTIME_API, CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000));
    if (external) CHECK(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION));
    if (!std::strcmp(what, "runtime")) CHECK(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_RUNTIME));
  }
  cudaStream_t stream;
  CHECK(cudaStreamCreate(&stream));
  if (external) CHECK(cuptiActivityPushExternalCorrelationId(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0, 1));
  std::printf("launch_ns %.0f\n", ns_per_launch(20000, stream));
  if (off) return 0;
  cuptiActivityFlushAll(1);
  size_t dropped = 0;
  cuptiActivityGetNumDroppedRecords(nullptr, 0, &dropped);
  std::printf("kernels %llu\ndropped %zu\nunstamped %llu\n", static_cast<unsigned long long>(kernels), dropped,
              static_cast<unsigned long long>(unstamped));
  cuptiActivityDisable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
  std::printf("launch_ns_after_disable %.0f\n", ns_per_launch(20000, stream));
  return 0;
}

int facts() {
  uint32_t version = 0;
  cuptiGetVersion(&version);
  std::printf("cupti_version %u\n", version);
  CUpti_SubscriberHandle subscriber, second;
  CHECK(cuptiSubscribe(&subscriber, on_callback, nullptr));
  std::printf("second_subscriber %d\n", static_cast<int>(cuptiSubscribe(&second, on_callback, nullptr)));
  const int clock = static_cast<int>(cuptiActivityRegisterTimestampCallback(our_clock));
  std::printf("timestamp_callback %d\n", clock);
  CHECK(cuptiActivityRegisterCallbacks(buffer_requested, buffer_completed));
  for (const auto kind : {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY, CUPTI_ACTIVITY_KIND_MEMSET,
                          CUPTI_ACTIVITY_KIND_MEMCPY2, CUPTI_ACTIVITY_KIND_SYNCHRONIZATION, CUPTI_ACTIVITY_KIND_OVERHEAD,
                          CUPTI_ACTIVITY_KIND_CUDA_EVENT})
    std::printf("enable_%d %d\n", static_cast<int>(kind), static_cast<int>(cuptiActivityEnable(kind)));
  CHECK(cuptiEnableDomain(1, subscriber, CUPTI_CB_DOMAIN_RUNTIME_API));
  CHECK(cuptiEnableDomain(1, subscriber, CUPTI_CB_DOMAIN_DRIVER_API));
  CHECK(cuptiEnableDomain(1, subscriber, CUPTI_CB_DOMAIN_RESOURCE));

  cudaStream_t stream;
  CHECK(cudaStreamCreate(&stream));
  char *device, host[4096] = {};
  CHECK(cudaMalloc(&device, sizeof host));
  const uint64_t before = our_clock();
  correlations.clear();
  for (int i = 0; i < 10; ++i) empty<<<1, 1, 0, stream>>>();
  CHECK(cudaStreamSynchronize(stream));
  size_t most = 0;
  for (const auto& [outer, ids] : correlations) most = ids.size() > most ? ids.size() : most;
  std::printf("nested_has_own_id %d\n", most > 1);
  for (int i = 0; i < 3; ++i) CHECK(cudaMemcpyAsync(device, host, sizeof host, cudaMemcpyHostToDevice, stream));
  for (int i = 0; i < 3; ++i) CHECK(cudaMemsetAsync(device, 0, sizeof host, stream));

  cudaGraph_t graph;
  cudaGraphExec_t executable;
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  for (int i = 0; i < 3; ++i) empty<<<1, 1, 0, stream>>>();
  CHECK(cudaStreamEndCapture(stream, &graph));
  CHECK(cudaGraphInstantiate(&executable, graph, 0));
  for (int i = 0; i < 2; ++i) CHECK(cudaGraphLaunch(executable, stream));
  CHECK(cudaStreamSynchronize(stream));
  CHECK(cuptiActivityFlushAll(1));
  std::printf("own_clock_in_records %d\n", clock == 0 && first_kernel_ns >= before && last_kernel_ns <= our_clock());
  size_t known = 0;
  for (const uint64_t node : graph_nodes) known += cloned_nodes.count(node);
  std::printf("graph_nodes %zu\ngraph_nodes_known_from_clone %zu\n", graph_nodes.size(), known);
  for (const auto& [kind, bytes] : strides) std::printf("stride_%u %zu\n", kind, bytes);
  std::fflush(stdout);

  cudaEvent_t event;
  CHECK(cudaEventCreate(&event));
  CHECK(cudaEventRecord(event, stream));
  CHECK(cudaStreamSynchronize(stream));
  CHECK(cuptiActivityFlushAll(1));
  const uint64_t before_queries = event_waits;
  for (int i = 0; i < 10; ++i) CHECK(cudaEventQuery(event));
  CHECK(cuptiActivityFlushAll(1));
  std::printf("queries_told_as_waits %llu\n", static_cast<unsigned long long>(event_waits - before_queries));
  std::fflush(stdout);

  const pid_t child = fork();  // a child that touches neither CUDA nor CUPTI must be able to end
  if (child == 0) exit(0);
  int status = -1;
  waitpid(child, &status, 0);
  std::printf("fork_child_status %d\n", status);
  std::printf("finalize %d\n", static_cast<int>(cuptiFinalize()));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  CHECK(cuInit(0));
  return argc > 2 && !std::strcmp(argv[1], "cost") ? cost(argv[2]) : facts();
}
