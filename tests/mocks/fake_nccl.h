/* The mock of libnccl.so.2: its API as far as the tests' programs use it, and what its two halves share. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef int ncclResult_t;
typedef struct ncclComm* ncclComm_t;
typedef struct {
  char internal[128];
} ncclUniqueId;

/* One call, as its profiler's events tell of it. */
struct fake_call {
  const char* function; /* "AllReduce" */
  size_t count;
  int datatype, root;
  const void* send;
  void* receive;
  void* group; /* events that contain it; null: none */
  void* api;
  int64_t start_ns, end_ns; /* of its kernel, in virtual time */
  int64_t here_ns;          /* when the last rank's kernel had begun */
};

/* What a communicator knows of the plugin that watches it. */
struct fake_profiler_comm {
  const void* plugin; /* null: none */
  int version;
  int rank;
  int mask;
  void* context;
  uint64_t sequence[16]; /* per function, as NCCL counts */
};

void fake_profiler_init(struct fake_profiler_comm*, int nccl_version, uint64_t id, const char* name, int size,
                        int rank);
void fake_profiler_finalize(struct fake_profiler_comm*);
void* fake_profiler_group(struct fake_profiler_comm*);
void fake_profiler_group_end(struct fake_profiler_comm*, void* group);
void* fake_profiler_call(struct fake_profiler_comm*, const struct fake_call*, int message);
void fake_profiler_called(struct fake_profiler_comm*, void* api);
void* fake_profiler_launch(struct fake_profiler_comm*, void* group);
void fake_profiler_launched(struct fake_profiler_comm*, void* launch);
void fake_profiler_collective(struct fake_profiler_comm*, const struct fake_call*);
void fake_profiler_message(struct fake_profiler_comm*, const struct fake_call*, const char* function, int peer);

/* For programs. */
int64_t fake_nccl_now(void);
void fake_nccl_compute(int64_t ns);

#ifdef __cplusplus
}
#endif
