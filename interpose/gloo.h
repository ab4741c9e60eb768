// Gloo's collectives (PyTorch on CPUs), by its exported C++ functions. Injected code.
//
// A collective runs in the call, on the thread that calls it: PyTorch's process groups have threads of their own for
// that, as other jobs have background threads. A context of Gloo is one process group on one rank. Its constructor has
// rank and size; members and name come from python/ddl_hooks around it (ddl_group_begin()). Without these a group as
// large as the job is the job.
//
// The number of a collective on its group is the tag that PyTorch counts up, not the order in which they begin: two
// threads serve a group.
//
// Messages (torch.distributed's send, recv, isend, irecv) and monitored_barrier, which is made of them, go through
// virtual functions of Gloo that no library can stand in for: python/ddl_hooks tells of them.
#pragma once

#include "interpose/mpi_abi.h"

namespace ddl {

constexpr uint32_t kFirstGlooOp = 0x700;  ///< below NCCL's, above MPI's

/// Operation ids of Record::word, from the table.
enum GlooOp : uint32_t {
  kGlooOpBeforeFirst = kFirstGlooOp - 1,
#define DDL_GLOO_COLLECTIVE(name, ...) kOp_gloo_##name,
#define DDL_GLOO_TOLD(name, ...) kOp_gloo_##name,
#include "interpose/gloo_calls.def"
  kGlooOpEnd
};
static_assert(kMpiOpEnd <= kFirstGlooOp && kGlooOpEnd <= kFirstNcclOp);

void reset_gloo();

}  // namespace ddl

extern "C" {
/// The contexts that this thread makes until ddl_group_end() are of the group `name` (at most 255 bytes are taken) of
/// the ranks `ranks`, of the job, in the group's order. Both must live until then. For python/ddl_hooks, which sees
/// PyTorch make its groups.
__attribute__((visibility("default"))) void ddl_group_begin(const char* name, const int* ranks, int count);
/// Returns the number of the first context that was made, for ddl_told_begin(); 0: none was.
__attribute__((visibility("default"))) uint32_t ddl_group_end(void);

/// A message that was posted and is not known to be complete. Its memory is the caller's.
struct ddl_posted {
  uint64_t start_ticks, payload;  ///< this and up to `peer` as in Record
  uint32_t comm, context, sequence;
  int32_t peer;
  uint32_t op;
  uint32_t kept;
};
static_assert(sizeof(ddl_posted) == 40);  // python/ddl_hooks gives it as much
/// The calling thread begins the call `name` of the table, of `group` (0: none). For python/ddl_hooks. `peer`: rank in
/// the group, -1: none, or any. `number`: tag of a message, number of a barrier on its group. `bytes`: of the tensor.
__attribute__((visibility("default"))) void ddl_told_begin(const char* name, uint32_t group, int peer, uint32_t number,
                                                           uint64_t bytes);
/// It has returned. `peer`: from whom a message came, where ddl_told_begin() could not know; else -1. `posted`: of
/// isend and irecv, to be filled in; of wait, what is complete now; else, or where the call has failed, NULL.
__attribute__((visibility("default"))) void ddl_told_end(int peer, struct ddl_posted* posted);
}
