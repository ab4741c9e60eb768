/* What the files of the mock of libnccl share. */
#pragma once

#include "fake_nccl.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#define MAX_RANKS 8
#define CHUNK (1 << 20)
#define MAIL (64 << 10)

struct mail {
  atomic_int full;
  char data[MAIL];
};
struct shared {
  atomic_int arrived, generation;
  int64_t value[MAX_RANKS];
  char data[MAX_RANKS][CHUNK];
  struct mail mail[MAX_RANKS][MAX_RANKS];
};

struct ncclComm {
  uint64_t id;
  int rank, size, blocking, children, device;
  struct shared* shared;
  char name[64]; /* commName of its configuration, or its parent's */
  struct fake_profiler_comm profiler;
  pthread_t worker;
  int working;
  atomic_int result; /* 7 while a thread of ours is at it */
};

struct operation {
  struct fake_call call;
  struct ncclComm* comm;
  const char* send;
  char* receive;
  int datatype, op, peer; /* peer: of messages */
  int message;            /* 1 send, 2 receive */
  void* stream;
};

#define HIDDEN __attribute__((visibility("hidden")))

/* fake_nccl_data.c: shared memory between the ranks, and what collectives do with data. */
HIDDEN uint64_t mix(uint64_t a, uint64_t b);
HIDDEN struct shared* attach(uint64_t id);
HIDDEN void detach_name(uint64_t id);
HIDDEN void barrier(struct ncclComm* c);
HIDDEN int64_t maximum(struct ncclComm* c, int64_t value);
HIDDEN void run_collective(struct operation* o);
HIDDEN void run_message(struct operation* o);
HIDDEN int64_t size_of(const struct operation* o);
HIDDEN int is_data_type(int datatype);

/* fake_nccl.c: work, and the log of it. */
HIDDEN void join(struct ncclComm* c); /* waits for the thread that works for a communicator that does not block */
HIDDEN void open_call_log(int rank);
HIDDEN int in_group(void);

/* fake_nccl_communicators.c: those that a group has begun to make meet their other ranks. */
HIDDEN void join_pending(void);

/* The API: strong pnccl, weak nccl. */
#define API(name, parameters)                                           \
  ncclResult_t name parameters __attribute__((weak, alias("p" #name))); \
  __attribute__((visibility("default"))) ncclResult_t p##name parameters
