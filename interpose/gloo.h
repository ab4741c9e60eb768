// Gloo's collectives (PyTorch on CPUs), by its exported C++ functions. Injected code.
//
// A collective runs in the call, on the thread that calls it: PyTorch's process groups have threads of their own for that, as other jobs
// have background threads. A context of Gloo is one process group on one rank. Its constructor has rank and size; members and name come from
// python/ddl_hooks around it (ddl_group_begin()). Without these a group as large as the job is the job.
//
// The number of a collective on its group is the tag that PyTorch counts up, not the order in which they begin: two threads serve a group.
#pragma once

#include "interpose/mpi_abi.h"

namespace ddl {

constexpr uint32_t kFirstGlooOp = 0x700;  ///< below NCCL's, above MPI's

/// Operation ids of Record::word, from the table.
enum GlooOp : uint32_t {
  kGlooOpBeforeFirst = kFirstGlooOp - 1,
#define DDL_GLOO_COLLECTIVE(name, ...) kOp_gloo_##name,
#include "interpose/gloo_calls.def"
  kGlooOpEnd
};
static_assert(kMpiOpEnd <= kFirstGlooOp && kGlooOpEnd <= kFirstNcclOp);

void reset_gloo();

}  // namespace ddl

extern "C" {
/// The contexts that this thread makes until ddl_group_end() are of the group `name` (at most 255 bytes are taken) of the ranks `ranks`, of the
/// job, in the group's order. Both must live until then. For python/ddl_hooks, which sees PyTorch make its groups.
__attribute__((visibility("default"))) void ddl_group_begin(const char* name, const int* ranks, int count);
__attribute__((visibility("default"))) void ddl_group_end(void);
}
