// The ABI of NCCL's profiler plugins, versions 4 to 7 (NVIDIA/nccl, src/include/plugin/profiler, at v2.28.9-1 and, of
// version 7, at commit 889806836097): our own mirror of layouts that NVIDIA has frozen under these version numbers.
// There is no installed header to compare it with; tests/mocks has a second, independent one. Version 6 only adds
// members to the descriptor's union; version 7 also adds fields at the end of some that were there. Injected code.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace ddl {

constexpr uint64_t kNcclColl = 2;  // NcclDescriptor::type, and bits of the mask
constexpr uint64_t kNcclP2p = 4;
constexpr uint64_t kNcclKernelCh = 64;
constexpr uint64_t kNcclCollApi = 512;
constexpr uint64_t kNcclP2pApi = 1024;
constexpr uint64_t kNcclKernelLaunch = 2048;
constexpr uint64_t kNcclCeColl = 4096;        ///< version 6 on
constexpr uint64_t kNcclKernelPhase = 32768;  ///< version 7; only told together with kNcclKernelCh
constexpr int kNcclKernelChStop = 22;
constexpr int kNcclKernelPhaseStop = 31;

struct NcclCollApi {
  const char* function;  ///< "AllReduce"
  size_t count;
  const char* datatype;  ///< "ncclFloat32"
  int root;
  void* stream;
  bool captured;
  uint64_t tag;  ///< version 7; 0: none
};
struct NcclP2pApi {
  const char* function;
  size_t count;
  const char* datatype;
  void* stream;
  bool captured;
};
struct NcclColl {
  uint64_t number;  ///< on the communicator, of this function
  const char* function;
  const void* send;
  void* receive;
  size_t count;
  int root;
  const char* datatype;
  uint8_t channels;
  uint8_t warps;
  const char* algorithm;
  const char* protocol;
};
struct NcclP2p {
  const char* function;
  void* buffer;
  const char* datatype;
  size_t count;
  int peer;
  uint8_t channels;
};
struct NcclKernelCh {
  uint8_t channel;
  uint64_t timer_ns;
};
/// A collective that copy engines carry out.
struct NcclCeColl {
  uint64_t number;
  const char* function;
  const void* send;
  void* receive;
  size_t count;
  int root;
  const char* datatype;
  const char* strategy;  ///< how ranks meet: "MC" (multicast), "UC"
};
enum class NcclPhase : uint8_t { kInitialSync = 0, kCompute = 1, kFinalSync = 2 };
/// A part of what one channel of a kernel does; its parent is the channel.
struct NcclKernelPhase {
  uint8_t channel;
  uint8_t phase;
  const char* name;
  uint64_t timer_ns;
};

union NcclEventDetails {
  NcclCollApi coll_api;
  NcclP2pApi p2p_api;
  NcclColl coll;
  NcclP2p p2p;
  NcclKernelCh kernel_ch;
  NcclCeColl ce_coll;
  NcclKernelPhase phase;
};
struct NcclDescriptor {  // version 5 to 7
  uint64_t type;
  void* parent;
  int rank;
  NcclEventDetails details;
};
struct NcclDescriptorV4 {
  uint8_t type;
  void* parent;
  int rank;
  NcclEventDetails details;
};
static_assert(offsetof(NcclDescriptor, details) == 24 && offsetof(NcclDescriptorV4, details) == 24);
static_assert(offsetof(NcclColl, algorithm) == 64 && offsetof(NcclKernelCh, timer_ns) == 8);
static_assert(offsetof(NcclCollApi, tag) == 48 && offsetof(NcclCeColl, strategy) == 56 &&
              offsetof(NcclKernelPhase, timer_ns) == 16);

union NcclStateDetails {
  struct {
    uint64_t timer_ns;
  } kernel_ch;
};

using NcclInitV4 = int(void** context, int* mask, const char* name, uint64_t id, int nodes, int ranks, int rank,
                       void* log);
using NcclInit = int(void** context, uint64_t id, int* mask, const char* name, int nodes, int ranks, int rank,
                     void* log);

template <class Init>
struct NcclPlugin {
  const char* name;
  Init* init;
  int (*start_event)(void* context, void** handle, void* descriptor);
  int (*stop_event)(void* handle);
  int (*record_event_state)(void* handle, int state, NcclStateDetails* details);
  int (*finalize)(void* context);
};

}  // namespace ddl
