/* The half of the NCCL double that loads a profiler plugin and tells it what happens, in the order in which NCCL does:
 * the call, the launch, then the collectives of the launch and, from a thread of NCCL's own, what the kernel's channels
 * measured. Versions: NCCL 2.27 looks for v4, 2.28 for v5 first, 2.29 for v6 first, 2.31 for v7. Layouts are those of
 * NVIDIA/nccl src/include/plugin/profiler, at v2.28.9-1 and, of v7, at commit 889806836097.
 *
 * FAKE_NCCL_SYMMETRIC: kernels are those on symmetric memory, of which v7 tells the phases. FAKE_NCCL_TAG: every call
 * has this tag. FAKE_NCCL_CE: copy engines carry out collectives. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#include "fake_nccl.h"

enum {
  GROUP = 1,
  COLL = 2,
  P2P = 4,
  KERNEL_CH = 64,
  GROUP_API = 256,
  COLL_API = 512,
  P2P_API = 1024,
  KERNEL_LAUNCH = 2048,
  CE_COLL = 4096,
  KERNEL_PHASE = 32768
};
enum { KERNEL_CH_STOP = 22, KERNEL_PHASE_STOP = 31, CHANNELS = 2 };

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
struct descriptor_v7 { /* the members that are larger than before, or new */
  uint64_t type;
  void* parentObj;
  int rank;
  union {
    struct {
      const char* func;
      size_t count;
      const char* datatype;
      int root;
      void* stream;
      bool graphCaptured;
      uint64_t userTag;
    } collApi;
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
      const char* kernelVariant;
      bool isSymColl;
      uint64_t userTag;
    } coll;
    struct {
      uint64_t seqNumber;
      const char* func;
      void const* sendBuff;
      void* recvBuff;
      size_t count;
      int root;
      const char* datatype;
      const char* syncStrategy;
      bool intraBatchSync;
      uint32_t batchSize, numBatches, ceSeqNum;
      void* stream;
      uint64_t userTag;
    } ceColl;
    struct {
      uint8_t channelId, phaseId;
      const char* phaseName;
      uint64_t pTimer;
    } kernelPhase;
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

static const char* type_names[] = {"ncclInt8",    "ncclUint8",    "ncclInt32",      "ncclUint32",
                                   "ncclInt64",   "ncclUint64",   "ncclFloat16",    "ncclFloat32",
                                   "ncclFloat64", "ncclBfloat16", "ncclFloat8e4m3", "ncclFloat8e5m2"};
static const char* functions[] = {"AllReduce", "Reduce",   "Broadcast", "ReduceScatter",
                                  "AllGather", "AlltoAll", "Gather",    "Scatter"};

void fake_profiler_init(struct fake_profiler_comm* c, int nccl_version, uint64_t id, const char* name, int size,
                        int rank) {
  const char* path = getenv("NCCL_PROFILER_PLUGIN");
  memset(c, 0, sizeof *c);
  c->rank = rank;
  if (!path || !strcmp(path, "none")) return;
  void* library = dlopen(strcmp(path, "STATIC_PLUGIN") ? path : NULL, RTLD_NOW | RTLD_LOCAL);
  for (int v = nccl_version >= 23100   ? 7
               : nccl_version >= 22900 ? 6
               : nccl_version >= 22800 ? 5
                                       : 4;
       library && v >= 4 && !c->plugin; --v) {
    char symbol[32];
    snprintf(symbol, sizeof symbol, "ncclProfiler_v%d", v);
    c->plugin = dlsym(library, symbol);
    c->version = v;
  }
  if (!c->plugin) return;
  const int failed =
      c->version == 4
          ? ((const struct plugin_v4*)c->plugin)->init(&c->context, &c->mask, name, id, 1, size, rank, NULL)
          : ((const struct plugin_v5*)c->plugin)->init(&c->context, id, &c->mask, name, 1, size, rank, NULL);
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
  if (c->version >= 7 && !message) {
    struct descriptor_v7 tagged = {.type = COLL_API, .parentObj = call->group, .rank = c->rank};
    tagged.collApi.func = call->function;
    tagged.collApi.count = call->count;
    tagged.collApi.datatype = type_names[call->datatype];
    tagged.collApi.root = call->root;
    tagged.collApi.userTag = getenv("FAKE_NCCL_TAG") ? strtoull(getenv("FAKE_NCCL_TAG"), NULL, 10) : 0;
    return start(c, &tagged, COLL_API);
  }
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
  int64_t start_ns, here_ns, end_ns;
};

/* initial_sync, until all ranks are here; compute; final_sync, the last 20 ns. They are told with the end of
 * their channel. */
static void tell_phases(const struct channels* w, void* channel, uint8_t number, int64_t start_ns, int64_t end_ns) {
  static const char* const names[] = {"initial_sync", "compute", "final_sync"};
  const int64_t edges[] = {start_ns, w->here_ns > start_ns ? w->here_ns : start_ns, end_ns - 20, end_ns};
  if (w->comm->version < 7 || !getenv("FAKE_NCCL_SYMMETRIC")) return;
  for (uint8_t phase = 0; phase < 3; ++phase) {
    struct descriptor_v7 d = {.type = KERNEL_PHASE, .parentObj = channel, .rank = w->comm->rank};
    d.kernelPhase.channelId = number;
    d.kernelPhase.phaseId = phase;
    d.kernelPhase.phaseName = names[phase];
    d.kernelPhase.pTimer = (uint64_t)edges[phase];
    void* handle = start(w->comm, &d, KERNEL_PHASE);
    union state_args args = {.kernelCh = {(uint64_t)edges[phase + 1]}};
    if (!handle) continue;
    ((const struct plugin_v5*)w->comm->plugin)->recordEventState(handle, KERNEL_PHASE_STOP, &args);
    stop(w->comm, handle);
  }
}

/* The proxy thread of NCCL. Channels do not begin and end together: the collective's time is from the first begin
 * to the last end. */
static void* watch_channels(void* data) {
  struct channels* w = data;
  for (int phase = 0; phase < 2; ++phase) {
    static __thread void* handles[CHANNELS];
    for (int i = 0; i < CHANNELS; ++i) {
      const int late = i == CHANNELS - 1;
      if (phase == 0) {
        const uint64_t timer = (uint64_t)(w->start_ns + (late ? 500 : 0));
        if (w->comm->version == 4) {
          struct descriptor_v4 d = {
              .type = KERNEL_CH, .parentObj = w->parent, .rank = w->comm->rank, .kernelCh = {(uint8_t)i, timer}};
          handles[i] = start(w->comm, &d, KERNEL_CH);
        } else {
          struct descriptor_v5 d = {
              .type = KERNEL_CH, .parentObj = w->parent, .rank = w->comm->rank, .kernelCh = {(uint8_t)i, timer}};
          handles[i] = start(w->comm, &d, KERNEL_CH);
        }
      } else if (handles[i]) {
        union state_args args = {.kernelCh = {(uint64_t)(w->end_ns - (late ? 0 : 300))}};
        tell_phases(w, handles[i], (uint8_t)i, w->start_ns + (late ? 500 : 0), w->end_ns - (late ? 0 : 300));
        ((const struct plugin_v5*)w->comm->plugin)->recordEventState(handles[i], KERNEL_CH_STOP, &args);
        stop(w->comm, handles[i]);
      }
    }
  }
  return NULL;
}

static void tell_channels(struct fake_profiler_comm* c, void* parent, const struct fake_call* call) {
  if (!parent || !(c->mask & KERNEL_CH) || getenv("FAKE_NCCL_NO_KERNEL_EVENTS")) return;
  struct channels work = {c, parent, call->start_ns, call->here_ns, call->end_ns};
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
  if (c->version >= 7 && getenv("FAKE_NCCL_CE")) {
    struct descriptor_v7 d = {.type = CE_COLL, .parentObj = call->api, .rank = c->rank};
    d.ceColl.func = call->function;
    d.ceColl.count = call->count;
    d.ceColl.datatype = type_names[call->datatype];
    d.ceColl.syncStrategy = "UC";
    stop(c, start(c, &d, CE_COLL));
    return;
  }
  if (c->version >= 7) {
    struct descriptor_v7 d = {.type = COLL,
                              .parentObj = call->api,
                              .rank = c->rank,
                              .coll = {sequence, call->function, call->send, call->receive, call->count, call->root,
                                       type_names[call->datatype], CHANNELS, 16, algorithm, protocol, NULL, NULL,
                                       getenv("FAKE_NCCL_SYMMETRIC") != NULL, 0}};
    handle = start(c, &d, COLL);
  } else if (c->version == 4) {
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
  tell_channels(c, handle, call);
}

void fake_profiler_message(struct fake_profiler_comm* c, const struct fake_call* call, const char* function, int peer) {
  if (!c->plugin) return;
  if (c->version == 4) {
    struct descriptor_v4 old = {
        .type = P2P, .rank = c->rank, .p2p = {function, NULL, type_names[call->datatype], call->count, peer, 1}};
    stop(c, start(c, &old, P2P));
    return;
  }
  struct descriptor_v5 d = {.type = P2P,
                            .parentObj = call->api,
                            .rank = c->rank,
                            .p2p = {function, NULL, type_names[call->datatype], call->count, peer, 1, NULL}};
  stop(c, start(c, &d, P2P));
}
