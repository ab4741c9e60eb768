// What a bitwise AND of few words says of who was ready for what. Injected code.
//
// Runtimes that reduce in a background thread (Horovod) agree first on what all ranks have ready: each sets a bit for
// each tensor that it has, and MPI_Allreduce with MPI_BAND leaves those that all have. A rank that is late shows here
// and nowhere else: the data operation begins when the last rank is ready. How many bits were set before and after is
// all that is recorded.
//
// While Horovod writes a timeline, the bits are followed by the same inverted, which tells rank 0 what any rank has
// ready: of both, as many are set whatever is ready. So only the first half counts then.
#pragma once

#include "core/recorder.h"

namespace ddl {

constexpr uint32_t kNotRead = UINT32_MAX;

/// Bits set in `bytes` bytes of the program's memory; kNotRead: not host memory, too many, or the kernel forbids
/// it. Never faults.
uint32_t count_bits(const void* words, uint64_t bytes);
/// How many of the bytes hold the bits: all, or the first half if the second is its inverse. Never faults.
uint64_t bytes_of_bits(const void* words, uint64_t bytes);
/// Is the call, of its thread, one to look into?
bool is_agreement(const OpenCall& call);
/// Records it. It has ended.
void write_agreement(const OpenCall& call, uint32_t sequence, uint32_t own_bits, uint32_t agreed_bits);

}  // namespace ddl
