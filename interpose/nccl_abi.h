// NCCL's C ABI as far as the wrappers use it: our own mirror, so that nothing of ours needs nccl.h.
// tests/nccl/abi_check.cpp compares it with the real header where there is one. Injected code.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "core/recorder.h"

extern "C" {
typedef struct ncclComm* ncclComm_t;
typedef struct ncclWindow_vidmem* ncclWindow_t;
typedef struct CUstream_st* cudaStream_t;
struct ncclUniqueId {
  char internal[128];
};
typedef struct ncclConfig ncclConfig_t;    // passed through untouched
typedef struct ncclSimInfo ncclSimInfo_t;  // likewise
typedef int ncclResult_t;                  // enums there, and int to the ABI
typedef int ncclDataType_t;
typedef int ncclRedOp_t;
}

namespace ddl {

/// The begin of an ncclConfig_t, as far as its `size` and `version` say that it is there: NCCL only ever adds
/// fields at the end.
struct NcclConfig {
  size_t size;
  uint32_t magic;
  uint32_t version;
  int blocking;
  int cga_cluster_size;
  int min_ctas, max_ctas;
  const char* net_name;
  int split_share;
  int traffic_class;
  const char* comm_name;  ///< from kNcclCommName on; NULL: none
};
constexpr uint32_t kNcclConfigMagic = 0xcafebeef;
constexpr uint32_t kNcclCommName = 22700;

constexpr ncclResult_t kNcclSuccess = 0;
constexpr ncclResult_t kNcclInternalError = 3;
constexpr ncclResult_t kNcclInProgress = 7;  ///< of communicators that do not block: not an error

constexpr uint32_t kNcclDataTypes = 12;
constexpr uint32_t kNcclReductions = 5;
/// Bytes of an element, in the order of ncclDataType_t.
constexpr uint8_t kNcclDataTypeBytes[kNcclDataTypes] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};

/// Operation ids of Record::word, from the table.
enum NcclOp : uint32_t {
  kNcclOpBeforeFirst = kFirstNcclOp - 1,
#define DDL_NCCL_ROW(name, op_class, collective) kOp_##name,
#include "interpose/nccl_calls.def"
  kNcclOpEnd
};
static_assert(kNcclOpEnd <= 0xfff, "Record::word has 12 bits for it");

}  // namespace ddl
