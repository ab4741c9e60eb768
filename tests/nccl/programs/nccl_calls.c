/* Every call of NCCL on known data, checked against what it must give; the device's part is the mock's. Prints nothing
 * but errors and "done", so that the output with and without recording can be compared. Under MPI (-DUSE_MPI) or with
 * RANK, WORLD_SIZE and an id in a file, as PyTorch does. usage: nccl_calls [nonblocking] */
#include "ddl/annotate.h"
#include "nccl_api.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef USE_MPI
#include <mpi.h>
#endif

static int rank, size, failed;

static void compute(int64_t ns) { fake_nccl_compute(ns); }

#define CHECK(condition)                                                                        \
  do {                                                                                          \
    if (!(condition)) failed = 1, printf("rank %d: line %d: %s\n", rank, __LINE__, #condition); \
  } while (0)

static void settle(ncclComm_t comm, ncclResult_t result) {
  while (result == 7) {
    ncclResult_t state = 0;
    ncclCommGetAsyncError(comm, &state);
    if (state != 7) result = state;
  }
  CHECK(result == 0);
}

enum { N = 3000 };
static float send[8 * N], receive[8 * N];

static void fill(void) {
  for (int i = 0; i < size * N; ++i) send[i] = (float)(rank + 1) * (float)(i % 97), receive[i] = -1;
}

static void exchange_id(ncclUniqueId* id) {
#ifdef USE_MPI
  if (rank == 0) ncclGetUniqueId(id);
  MPI_Bcast(id, sizeof *id, MPI_BYTE, 0, MPI_COMM_WORLD);
#else
  share_id_by_file(id, rank);
#endif
}

int main(int argc, char** argv) {
  const int nonblocking = argc > 1 && !strcmp(argv[1], "nonblocking");
#ifdef USE_MPI
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
#else
  rank = atoi(getenv("RANK"));
  size = atoi(getenv("WORLD_SIZE"));
#endif
  ncclUniqueId id;
  exchange_id(&id);
  struct {
    size_t size;
    unsigned magic, version;
    int blocking, rest[32];
  } config = {sizeof config, 0xcafebeef, 22809, !nonblocking, {0}};
  ncclComm_t comm, half, twin, small;
  const ncclResult_t made = ncclCommInitRankConfig(&comm, size, id, rank, (void*)&config);
  settle(comm, made);
  const float ranks_sum = (float)(size * (size + 1)) / 2;

  for (int step = 0; step < 3; ++step) {
    ddl_step_begin((uint64_t)step);
    ddl_layer_begin("dense");
    compute(20000 * (rank + 1));
    fill();
    settle(comm, ncclAllReduce(send, receive, N, 7, 0, comm, NULL));
    for (int i = 0; i < N; ++i) CHECK(receive[i] == ranks_sum * (float)(i % 97));
    ddl_layer_end();
    ddl_layer_begin("embedding");
    compute(5000 * (size - rank));
    settle(comm, ncclGroupStart()); /* three in one kernel */
    settle(comm, ncclReduceScatter(send, receive, 100, 7, 0, comm, NULL));
    settle(comm, ncclAllGather(send, receive + N, 200, 7, comm, NULL));
    settle(comm, ncclBroadcast(send, receive + 4 * N, 300, 7, size - 1, comm, NULL));
    settle(comm, ncclGroupEnd());
    for (int i = 0; i < 100; ++i) CHECK(receive[i] == ranks_sum * (float)((rank * 100 + i) % 97));
    for (int i = 0; i < 200 * size; ++i) CHECK(receive[N + i] == (float)(i / 200 + 1) * (float)(i % 200 % 97));
    for (int i = 0; i < 300; ++i) CHECK(receive[4 * N + i] == (float)size * (float)(i % 97));
    ddl_layer_end();
    ddl_step_end();
  }
  fill();
  settle(comm, ncclReduce(send, receive, N, 7, 2, 0, comm, NULL));
  settle(comm, ncclBcast(send, 50, 7, 0, comm, NULL)); /* NCCL makes it a call of ncclBroadcast */
  settle(comm, ncclAlltoAll(send, receive, 10, 7, comm, NULL));
  settle(comm, ncclGather(send, receive, 10, 7, 0, comm, NULL));
  settle(comm, ncclScatter(send, receive, 10, 7, 0, comm, NULL));
  ncclResult_t state = 7;
  while (state == 7) ncclCommGetAsyncError(comm, &state);
  fill();
  settle(comm, ncclGroupStart());
  settle(comm, ncclSend(send, 7, 7, (rank + 1) % size, comm, NULL));
  settle(comm, ncclRecv(receive, 7, 7, (rank + size - 1) % size, comm, NULL));
  settle(comm, ncclGroupEnd());
  CHECK(receive[1] == (float)((rank + size - 1) % size + 1) && receive[6] == 6 * receive[1]);
  CHECK(ncclAllReduce(send, receive, N, 99, 0, comm, NULL) == 4); /* refused: it has no number */

  settle(comm, ncclCommSplit(comm, rank % 2, -rank, &half, NULL));
  settle(comm, ncclCommSplit(comm, 0, rank, &twin, NULL));
  settle(half, ncclAllReduce(send, receive, 10, 7, 0, half, NULL));
  settle(twin, ncclAllReduce(send, receive, 20, 7, 4, twin, NULL));
  if (size > 1) {
    int excluded = size - 1;
    if (rank != excluded) {
      settle(comm, ncclCommShrink(comm, &excluded, 1, &small, NULL, 0));
      settle(small, ncclAllReduce(send, receive, 30, 7, 0, small, NULL));
      ncclCommAbort(small);
    }
  }
  void *memory, *handle;
  CHECK(ncclMemAlloc(&memory, 4096) == 0);
  CHECK(ncclCommRegister(comm, memory, 4096, &handle) == 0 && ncclCommDeregister(comm, handle) == 0);
  CHECK(ncclMemFree(memory) == 0);
  settle(comm, ncclCommFinalize(comm));
  ncclCommDestroy(half);
  ncclCommDestroy(twin);
  ncclCommDestroy(comm);
  printf("rank %d done\n", rank);
#ifdef USE_MPI
  MPI_Finalize();
#endif
  return failed;
}
