/* The ABI of NCCL's tuner plugins, versions 2 to 5: our own mirror of layouts and numbers that NVIDIA has frozen under
 * these version numbers. No toolkit installs these headers; tests/autotuner/nccl_plugin.py drives the plugin through
 * the real libnccl's own loaders of every version instead. Injected code. */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum { kNcclSuccess = 0, kNcclSystemError = 2 };
enum { kNcclLogInfo = 3, kNcclTuning = 64 }; /* level, subsystem */
enum { kNcclBroadcast, kNcclReduce, kNcclAllGather, kNcclReduceScatter, kNcclAllReduce, kNcclTunedFunctions };
enum {
  kNcclTree,
  kNcclRing,
  kNcclCollnetDirect,
  kNcclCollnetChain,
  kNcclNvls,
  kNcclNvlsTree,
  kNcclPat,
  kNcclAlgorithms
};
enum { kNcclLl, kNcclLl128, kNcclSimple, kNcclProtocols };

typedef void (*nccl_logger)(int level, unsigned long subsystem, const char* file, int line, const char* format, ...);

/* A cost below 0 in the table: NCCL cannot do that pair. The table is algorithms x protocols floats in one piece,
 * whatever its type says. */
typedef struct {
  const char* name;
  int (*init)(size_t ranks, size_t nodes, nccl_logger log, void** context);
  int (*choose)(void* context, int function, size_t bytes, int collnet, int nvls, int pipe_ops, int* algorithm,
                int* protocol, int* channels);
  int (*destroy)(void* context);
} nccl_tuner_v2;

typedef struct {
  const char* name;
  int (*init)(size_t ranks, size_t nodes, nccl_logger log, void** context);
  int (*choose)(void* context, int function, size_t bytes, int pipe_ops, float** costs, int algorithms, int protocols,
                int* channels);
  int (*destroy)(void* context);
} nccl_tuner_v3;

typedef struct {
  const char* name;
  int (*init)(size_t ranks, size_t nodes, nccl_logger log, void** context);
  int (*choose)(void* context, int function, size_t bytes, int pipe_ops, float** costs, int algorithms, int protocols,
                int registered, int* channels);
  int (*destroy)(void* context);
} nccl_tuner_v4;

typedef struct {
  const char* name;
  int (*init)(void** context, uint64_t communicator, size_t ranks, size_t nodes, nccl_logger log, void* nvlink_domains,
              void* constants);
  int (*choose)(void* context, int function, size_t bytes, int pipe_ops, float** costs, int algorithms, int protocols,
                int registered, int* channels);
  int (*destroy)(void* context);
} nccl_tuner_v5;
