/* NCCL's API as the tests' programs see it: linked to libnccl.so.2 (the mock has that name), or opened by hand
 * (-DBY_DLOPEN), which no preloaded library can intercept. The mock's own additions may be absent. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

typedef int ncclResult_t;
typedef struct ncclComm* ncclComm_t;
typedef struct {
  char internal[128];
} ncclUniqueId;

#define NCCL_API(X)                                                               \
  X(ncclGetUniqueId, (ncclUniqueId*))                                             \
  X(ncclCommInitRank, (ncclComm_t*, int, ncclUniqueId, int))                      \
  X(ncclCommInitRankConfig, (ncclComm_t*, int, ncclUniqueId, int, void*))         \
  X(ncclCommSplit, (ncclComm_t, int, int, ncclComm_t*, void*))                    \
  X(ncclCommShrink, (ncclComm_t, int*, int, ncclComm_t*, void*, int))             \
  X(ncclCommFinalize, (ncclComm_t))                                               \
  X(ncclCommDestroy, (ncclComm_t))                                                \
  X(ncclCommAbort, (ncclComm_t))                                                  \
  X(ncclCommGetAsyncError, (ncclComm_t, ncclResult_t*))                           \
  X(ncclCommRegister, (ncclComm_t, void*, size_t, void**))                        \
  X(ncclCommDeregister, (ncclComm_t, void*))                                      \
  X(ncclMemAlloc, (void**, size_t))                                               \
  X(ncclMemFree, (void*))                                                         \
  X(ncclGroupStart, (void))                                                       \
  X(ncclGroupEnd, (void))                                                         \
  X(ncclAllReduce, (const void*, void*, size_t, int, int, ncclComm_t, void*))     \
  X(ncclReduce, (const void*, void*, size_t, int, int, int, ncclComm_t, void*))   \
  X(ncclBroadcast, (const void*, void*, size_t, int, int, ncclComm_t, void*))     \
  X(ncclBcast, (void*, size_t, int, int, ncclComm_t, void*))                      \
  X(ncclReduceScatter, (const void*, void*, size_t, int, int, ncclComm_t, void*)) \
  X(ncclAllGather, (const void*, void*, size_t, int, ncclComm_t, void*))          \
  X(ncclAlltoAll, (const void*, void*, size_t, int, ncclComm_t, void*))           \
  X(ncclGather, (const void*, void*, size_t, int, int, ncclComm_t, void*))        \
  X(ncclScatter, (const void*, void*, size_t, int, int, ncclComm_t, void*))       \
  X(ncclSend, (const void*, size_t, int, int, ncclComm_t, void*))                 \
  X(ncclRecv, (void*, size_t, int, int, ncclComm_t, void*))                       \
  X(fake_nccl_compute, (int64_t))

#ifdef BY_DLOPEN
#include <dlfcn.h>
#define DECLARE(name, parameters) static ncclResult_t(*name) parameters;
NCCL_API(DECLARE)
__attribute__((constructor)) static void open_nccl(void) {
  void* library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
#define FIND(name, parameters) name = (ncclResult_t(*) parameters)dlsym(library, #name);
  NCCL_API(FIND)
}
#else
#define DECLARE(name, parameters) ncclResult_t name parameters;
NCCL_API(DECLARE)
#endif

/* Rank 0 makes the id, the others find it in the file $ID_FILE: what torchrun does with a store. */
static inline void share_id_by_file(ncclUniqueId* id, int rank) {
  const char* path = getenv("ID_FILE");
  char draft[4096];
  snprintf(draft, sizeof draft, "%s.draft", path);
  if (rank == 0) {
    ncclGetUniqueId(id);
    FILE* out = fopen(draft, "wb");
    fwrite(id, sizeof *id, 1, out);
    fclose(out);
    rename(draft, path);
  }
  FILE* in;
  while (!(in = fopen(path, "rb"))) usleep(1000);
  if (fread(id, sizeof *id, 1, in) != 1) abort();
  fclose(in);
}
