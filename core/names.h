// Codes of MPI's and NCCL's predefined datatypes and reduction operations in Record::payload. Code 0 = derived,
// user-defined or none.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace ddl {

// The formatter would indent each row more than the one before.
// clang-format off
#define DDL_DATATYPES(X)                                                                                     \
  X(1, MPI_BYTE, 1) X(2, MPI_PACKED, 1) X(3, MPI_CHAR, 1) X(4, MPI_SIGNED_CHAR, 1)                           \
  X(5, MPI_UNSIGNED_CHAR, 1) X(6, MPI_SHORT, 2) X(7, MPI_UNSIGNED_SHORT, 2) X(8, MPI_INT, 4)                 \
  X(9, MPI_UNSIGNED, 4) X(10, MPI_LONG, 8) X(11, MPI_UNSIGNED_LONG, 8) X(12, MPI_LONG_LONG, 8)               \
  X(13, MPI_UNSIGNED_LONG_LONG, 8) X(14, MPI_FLOAT, 4) X(15, MPI_DOUBLE, 8) X(16, MPI_LONG_DOUBLE, 16)       \
  X(17, MPI_INT8_T, 1) X(18, MPI_UINT8_T, 1) X(19, MPI_INT16_T, 2) X(20, MPI_UINT16_T, 2)                    \
  X(21, MPI_INT32_T, 4) X(22, MPI_UINT32_T, 4) X(23, MPI_INT64_T, 8) X(24, MPI_UINT64_T, 8)                  \
  X(25, MPI_C_BOOL, 1) X(26, MPI_C_FLOAT_COMPLEX, 8) X(27, MPI_C_DOUBLE_COMPLEX, 16) X(28, MPI_FLOAT_INT, 8) \
  X(29, MPI_DOUBLE_INT, 12) X(30, MPI_2INT, 8) X(31, MPI_INTEGER, 4) X(32, MPI_REAL, 4)                      \
  X(33, MPI_DOUBLE_PRECISION, 8) X(34, MPI_COMPLEX, 8) X(35, MPI_DOUBLE_COMPLEX, 16) X(36, MPI_LOGICAL, 4)   \
  X(37, MPI_CHARACTER, 1) X(38, MPI_AINT, 8) X(39, MPI_OFFSET, 8) X(40, MPI_COUNT, 8)                        \
  X(41, MPI_WCHAR, 4)

#define DDL_REDUCTIONS(X)                                                                                              \
  X(1, MPI_SUM) X(2, MPI_MAX) X(3, MPI_MIN) X(4, MPI_PROD) X(5, MPI_LAND) X(6, MPI_BAND) X(7, MPI_LOR)                 \
  X(8, MPI_BOR) X(9, MPI_LXOR) X(10, MPI_BXOR) X(11, MPI_MAXLOC) X(12, MPI_MINLOC) X(13, MPI_REPLACE) X(14, MPI_NO_OP)

// Of NCCL: its own numbers, from kFirstNcclCode on.
#define DDL_NCCL_DATATYPES(X)                                                                                          \
  X(64, ncclInt8, 1) X(65, ncclUint8, 1) X(66, ncclInt32, 4) X(67, ncclUint32, 4) X(68, ncclInt64, 8)                  \
  X(69, ncclUint64, 8) X(70, ncclFloat16, 2) X(71, ncclFloat32, 4) X(72, ncclFloat64, 8) X(73, ncclBfloat16, 2)        \
  X(74, ncclFloat8e4m3, 1) X(75, ncclFloat8e5m2, 1)
#define DDL_NCCL_REDUCTIONS(X) X(64, ncclSum) X(65, ncclProd) X(66, ncclMax) X(67, ncclMin) X(68, ncclAvg)

// System calls in which threads sleep: what a thread that does not come is kept by. Code 0: not asked, or none of
// these. The numbers are ours.
#define DDL_BLOCKING_CALLS(X)                                                                                       \
  X(1, futex) X(2, nanosleep) X(3, clock_nanosleep) X(4, poll) X(5, ppoll) X(6, select) X(7, pselect6)              \
  X(8, epoll_wait) X(9, epoll_pwait) X(10, read) X(11, readv) X(12, pread64) X(13, write) X(14, writev)             \
  X(15, pwrite64) X(16, recvfrom) X(17, recvmsg) X(18, sendto) X(19, sendmsg) X(20, accept) X(21, accept4)          \
  X(22, connect) X(23, wait4) X(24, waitid) X(25, flock) X(26, fcntl) X(27, fsync) X(28, fdatasync) X(29, openat)   \
  X(30, close) X(31, io_getevents) X(32, pause) X(33, rt_sigsuspend) X(34, rt_sigtimedwait) X(35, msync)            \
  X(36, fallocate) X(37, renameat2) X(38, ioctl) X(39, io_uring_enter) X(40, statx) X(41, newfstatat) X(42, semop)
// clang-format on

constexpr uint32_t kFirstNcclCode = 64;

struct NamedCode {
  uint32_t code;
  const char* name;
};

inline constexpr NamedCode kDatatypeNames[] = {
#define DDL_NAMED(code, name, size) {code, #name},
    DDL_DATATYPES(DDL_NAMED) DDL_NCCL_DATATYPES(DDL_NAMED)
#undef DDL_NAMED
};

inline constexpr NamedCode kReductionNames[] = {
#define DDL_NAMED(code, name) {code, #name},
    DDL_REDUCTIONS(DDL_NAMED) DDL_NCCL_REDUCTIONS(DDL_NAMED)
#undef DDL_NAMED
};

inline constexpr NamedCode kBlockingCalls[] = {
#define DDL_NAMED(code, name) {code, #name},
    DDL_BLOCKING_CALLS(DDL_NAMED)
#undef DDL_NAMED
};

/// nullptr: no such code.
template <size_t n>
constexpr const char* name_of_code(const NamedCode (&names)[n], uint32_t code) {
  for (const NamedCode& name : names)
    if (name.code == code) return name.name;
  return nullptr;
}

}  // namespace ddl
