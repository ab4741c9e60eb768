/* The half of the NCCL double that loads a profiler plugin and tells it what happens, in the order in which NCCL does: the call, the
 * launch, then the collectives of the launch and, from a thread of NCCL's own, what the kernel's channels measured. Versions: NCCL 2.27
 * looks for v4, 2.28 for v5 first, 2.29 for v6 first. Layouts are those of NVIDIA/nccl src/include/plugin/profiler at v2.28.9-1. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#include "fake_nccl.h"

enum { GROUP = 1, COLL = 2, P2P = 4, KERNEL_CH = 64, GROUP_API = 256, COLL_API = 512, P2P_API = 1024, KERNEL_LAUNCH = 2048 };
enum { KERNEL_CH_STOP = 22, CHANNELS = 2 };

struct descriptor_v5 { /* and v6, which only adds members to the union */
  uint64_t type;
  void* parentObj;
  int rank;
  union {
    struct {
      bool graphCaptured;
      int groupDepth;
    } groupApi;
    struct {
      const char* func;
      size_t count;
      const char* datatype;
      int root;
      void* stream;
      bool graphCaptured;
    } collApi;
    struct {
      const char* func;
      size_t count;
      const char* datatype;
      void* stream;
      bool graphCaptured;
    } p2pApi;
    struct {
      void* stream;
    } kernelLaunch;
    struct {
      uint64_t seqNumber;
      const char* func;
      void const* sendBuff;
      void* recvBuff;
      size_t count;
      int root;
      const char* datatype;
      uint8_t nChannels, nWarps;
      const char *algo, *proto;
      void* parentGroup;
    } coll;
    struct {
      const char* func;
      void* buff;
      const char* datatype;
      size_t count;
      int peer;
      uint8_t nChannels;
      void* parentGroup;
    } p2p;
    struct {
      uint8_t channelId;
      uint64_t pTimer;
    } kernelCh;
    char room[128];
  };
};
struct descriptor_v4 {
  uint8_t type;
  void* parentObj;
  int rank;
  union {
    struct {
      uint64_t seqNumber;
      const char* func;
      void const* sendBuff;
      void* recvBuff;
      size_t count;
      int root;
      const char* datatype;
      uint8_t nChannels, nWarps;
      const char *algo, *proto;
    } coll;
    struct {
      const char* func;
      void* buff;
      const char* datatype;
      size_t count;
      int peer;
      uint8_t nChannels;
    } p2p;
    struct {
      uint8_t channelId;
      uint64_t pTimer;
    } kernelCh;
  };
};
union state_args {
  struct {
    uint64_t pTimer;
  } kernelCh;
  size_t other;
};

struct plugin_v5 {
  const char* name;
  int (*init)(void**, uint64_t id, int* mask, const char* name, int nodes, int ranks, int rank, void* log);
  int (*startEvent)(void*, void**, void*);
  int (*stopEvent)(void*);
  int (*recordEventState)(void*, int, union state_args*);
  int (*finalize)(void*);
};
struct plugin_v4 {
  const char* name;
  int (*init)(void**, int* mask, const char* name, uint64_t id, int nodes, int ranks, int rank, void* log);
  int (*startEvent)(void*, void**, void*);
  int (*stopEvent)(void*);
  int (*recordEventState)(void*, int, union state_args*);
  int (*finalize)(void*);
};

static const char* type_names[] = {"ncclInt8",    "ncclUint8",   "ncclInt32",   "ncclUint32",   "ncclInt64",      "ncclUint64",
                                   "ncclFloat16", "ncclFloat32", "ncclFloat64", "ncclBfloat16", "ncclFloat8e4m3", "ncclFloat8e5m2"};
static const char* functions[] = {"AllReduce", "Reduce", "Broadcast", "ReduceScatter", "AllGather", "AlltoAll", "Gather", "Scatter"};

void fake_profiler_init(struct fake_profiler_comm* c, int nccl_version, uint64_t id, int size, int rank) {
  const char* path = getenv("NCCL_PROFILER_PLUGIN");
  memset(c, 0, sizeof *c);
  c->rank = rank;
  if (!path || !strcmp(path, "none")) return;
  void* library = dlopen(strcmp(path, "STATIC_PLUGIN") ? path : NULL, RTLD_NOW | RTLD_LOCAL);
  for (int v = nccl_version >= 22900 ? 6 : nccl_version >= 22800 ? 5 : 4; library && v >= 4 && !c->plugin; --v) {
    char symbol[32];
    snprintf(symbol, sizeof symbol, "ncclProfiler_v%d", v);
    c->plugin = dlsym(library, symbol);
    c->version = v;
  }
  if (!c->plugin) return;
  const int failed = c->version == 4 ? ((const struct plugin_v4*)c->plugin)->init(&c->context, &c->mask, "world", id, 1, size, rank, NULL)
                                     : ((const struct plugin_v5*)c->plugin)->init(&c->context, id, &c->mask, "world", 1, size, rank, NULL);
  if (failed) c->plugin = NULL;
}

void fake_profiler_finalize(struct fake_profiler_comm* c) {
  if (c->plugin) ((const struct plugin_v5*)c->plugin)->finalize(c->context);
}

static void* start(struct fake_profiler_comm* c, void* descriptor, int type) {
  void* handle = NULL;
  if (!c->plugin || !(c->mask & type)) return NULL;
  ((const struct plugin_v5*)c->plugin)->startEvent(c->context, &handle, descriptor);
  return handle;
}
static void stop(struct fake_profiler_comm* c, void* handle) {
  if (c->plugin && handle) ((const struct plugin_v5*)c->plugin)->stopEvent(handle);
}

void* fake_profiler_group(struct fake_profiler_comm* c) {
  if (c->version == 4) return NULL;
  struct descriptor_v5 d = {.type = GROUP_API, .rank = c->rank};
  return start(c, &d, GROUP_API);
}
void fake_profiler_group_end(struct fake_profiler_comm* c, void* group) { stop(c, group); }

void* fake_profiler_call(struct fake_profiler_comm* c, const struct fake_call* call, int message) {
  if (c->version == 4) return NULL;
  struct descriptor_v5 d = {.type = message ? P2P_API : COLL_API, .parentObj = call->group, .rank = c->rank};
  if (message) {
    d.p2pApi.func = call->function;
    d.p2pApi.count = call->count;
    d.p2pApi.datatype = type_names[call->datatype];
  } else {
    d.collApi.func = call->function;
    d.collApi.count = call->count;
    d.collApi.datatype = type_names[call->datatype];
    d.collApi.root = call->root;
  }
  return start(c, &d, message ? P2P_API : COLL_API);
}
void fake_profiler_called(struct fake_profiler_comm* c, void* api) { stop(c, api); }

void* fake_profiler_launch(struct fake_profiler_comm* c, void* group) {
  if (c->version == 4) return NULL;
  struct descriptor_v5 d = {.type = KERNEL_LAUNCH, .parentObj = group, .rank = c->rank};
  return start(c, &d, KERNEL_LAUNCH);
}
void fake_profiler_launched(struct fake_profiler_comm* c, void* launch) { stop(c, launch); }

struct channels {
  struct fake_profiler_comm* comm;
  void* parent;
  int64_t start_ns, end_ns;
};

/* The proxy thread of NCCL. Channels do not begin and end together: the collective's time is from the first begin to the last end. */
static void* watch_channels(void* data) {
  struct channels* w = data;
  for (int phase = 0; phase < 2; ++phase) {
    static __thread void* handles[CHANNELS];
    for (int i = 0; i < CHANNELS; ++i) {
      const int late = i == CHANNELS - 1;
      if (phase == 0) {
        const uint64_t timer = (uint64_t)(w->start_ns + (late ? 500 : 0));
        if (w->comm->version == 4) {
          struct descriptor_v4 d = {.type = KERNEL_CH, .parentObj = w->parent, .rank = w->comm->rank, .kernelCh = {(uint8_t)i, timer}};
          handles[i] = start(w->comm, &d, KERNEL_CH);
        } else {
          struct descriptor_v5 d = {.type = KERNEL_CH, .parentObj = w->parent, .rank = w->comm->rank, .kernelCh = {(uint8_t)i, timer}};
          handles[i] = start(w->comm, &d, KERNEL_CH);
        }
      } else if (handles[i]) {
        union state_args args = {.kernelCh = {(uint64_t)(w->end_ns - (late ? 0 : 300))}};
        ((const struct plugin_v5*)w->comm->plugin)->recordEventState(handles[i], KERNEL_CH_STOP, &args);
        stop(w->comm, handles[i]);
      }
    }
  }
  return NULL;
}

static void tell_channels(struct fake_profiler_comm* c, void* parent, int64_t start_ns, int64_t end_ns) {
  if (!parent || !(c->mask & KERNEL_CH) || getenv("FAKE_NCCL_NO_KERNEL_EVENTS")) return;
  struct channels work = {c, parent, start_ns, end_ns};
  pthread_t thread;
  pthread_create(&thread, NULL, watch_channels, &work);
  pthread_join(thread, NULL);
}

void fake_profiler_collective(struct fake_profiler_comm* c, const struct fake_call* call) {
  if (!c->plugin) return;
  size_t f = 0;
  while (strcmp(functions[f], call->function)) ++f;
  const uint64_t sequence = c->sequence[f]++;
  const char* algorithm = call->count > 1000 ? "RING" : "TREE";
  const char* protocol = call->count > 1000 ? "SIMPLE" : "LL";
  void* handle;
  if (c->version == 4) {
    struct descriptor_v4 d = {.type = COLL,
                              .rank = c->rank,
                              .coll = {sequence, call->function, call->send, call->receive, call->count, call->root,
                                       type_names[call->datatype], CHANNELS, 16, algorithm, protocol}};
    handle = start(c, &d, COLL);
  } else {
    struct descriptor_v5 d = {.type = COLL,
                              .parentObj = call->api,
                              .rank = c->rank,
                              .coll = {sequence, call->function, call->send, call->receive, call->count, call->root,
                                       type_names[call->datatype], CHANNELS, 16, algorithm, protocol, NULL}};
    handle = start(c, &d, COLL);
  }
  stop(c, handle);
  tell_channels(c, handle, call->start_ns, call->end_ns);
}

void fake_profiler_message(struct fake_profiler_comm* c, const struct fake_call* call, const char* function, int peer) {
  if (!c->plugin) return;
  if (c->version == 4) {
    struct descriptor_v4 old = {.type = P2P, .rank = c->rank, .p2p = {function, NULL, type_names[call->datatype], call->count, peer, 1}};
    stop(c, start(c, &old, P2P));
    return;
  }
  struct descriptor_v5 d = {.type = P2P,
                            .parentObj = call->api,
                            .rank = c->rank,
                            .p2p = {function, NULL, type_names[call->datatype], call->count, peer, 1, NULL}};
  stop(c, start(c, &d, P2P));
}
