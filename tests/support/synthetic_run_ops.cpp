#include "tests/support/synthetic_run_ops.h"

#include <stdexcept>
#include <string>
#include <vector>

namespace ddl::test::synthetic {
namespace {

constexpr Op kOperations[] = {
    {"MPI_Waitall", OpClass::kCompletion, false, Size::kNone, false},
    {"MPI_Wait", OpClass::kCompletion, false, Size::kNone, false},
    {"MPI_Test", OpClass::kCompletion, false, Size::kNone, false},
    {"MPI_Send", OpClass::kSend, false, Size::kNone, false},
    {"MPI_Ssend", OpClass::kSend, false, Size::kNone, false},
    {"MPI_Recv", OpClass::kReceive, false, Size::kNone, false},
    {"MPI_Isend", OpClass::kSend, true, Size::kNone, false},
    {"MPI_Irecv", OpClass::kReceive, true, Size::kNone, false},
    {"MPI_Sendrecv", OpClass::kSendReceive, false, Size::kNone, false},
    {"MPI_Comm_split", OpClass::kCommunicator, false, Size::kNone, false},
    {"MPI_Comm_dup", OpClass::kCommunicator, false, Size::kNone, false},
    {"MPI_Comm_set_name", OpClass::kOther, false, Size::kNone, false},
    {"MPI_Barrier", OpClass::kBarrier, false, Size::kNone, false},
    {"MPI_Bcast", OpClass::kRootToAll, false, Size::kSent, false},
    {"MPI_Scatter", OpClass::kRootToAll, false, Size::kSentByRoot, false},
    {"MPI_Reduce", OpClass::kAllToRoot, false, Size::kSent, true},
    {"MPI_Gather", OpClass::kAllToRoot, false, Size::kSentByAll, false},
    {"MPI_Allreduce", OpClass::kAllToAll, false, Size::kSent, true},
    {"MPI_Allgather", OpClass::kAllToAll, false, Size::kSentByAll, false},
    {"MPI_Allgatherv", OpClass::kAllToAll, false, Size::kSentByAll, false},
    {"MPI_Alltoall", OpClass::kAllToAll, false, Size::kSent, false},
    {"MPI_Alltoallv", OpClass::kAllToAll, false, Size::kSent, false},
    {"MPI_Reduce_scatter", OpClass::kAllToAll, false, Size::kSent, true},
    {"MPI_Reduce_scatter_block", OpClass::kAllToAll, false, Size::kSent, true},
    {"MPI_Scan", OpClass::kScan, false, Size::kNone, true},
    {"MPI_Neighbor_alltoall", OpClass::kNeighbor, false, Size::kNone, false},
    {"MPI_Ineighbor_alltoall", OpClass::kNeighbor, true, Size::kNone, false},
    {"MPI_Win_fence", OpClass::kRmaSync, false, Size::kNone, false},
    {"MPI_Win_sync", OpClass::kRmaSync, false, Size::kNone, false},
    {"MPI_Win_start", OpClass::kRmaSync, false, Size::kNone, false},
    {"MPI_Win_wait", OpClass::kRmaSync, false, Size::kNone, false},
    {"MPI_Ibarrier", OpClass::kBarrier, true, Size::kNone, false},
    {"MPI_Ibcast", OpClass::kRootToAll, true, Size::kSent, false},
    {"MPI_Ireduce", OpClass::kAllToRoot, true, Size::kSent, true},
    {"MPI_Igather", OpClass::kAllToRoot, true, Size::kSentByAll, false},
    {"MPI_Iscatter", OpClass::kRootToAll, true, Size::kSentByRoot, false},
    {"MPI_Iallreduce", OpClass::kAllToAll, true, Size::kSent, true},
    {"MPI_Iallgather", OpClass::kAllToAll, true, Size::kSentByAll, false},
    {"MPI_Ialltoall", OpClass::kAllToAll, true, Size::kSent, false},
    {"MPI_Ireduce_scatter", OpClass::kAllToAll, true, Size::kSent, true},
    {"MPI_Init", OpClass::kLifecycle, false, Size::kNone, false},
    {"MPI_Init_thread", OpClass::kLifecycle, false, Size::kNone, false},
    {"MPI_Finalize", OpClass::kLifecycle, false, Size::kNone, false},
    {"MPI_Abort", OpClass::kLifecycle, false, Size::kNone, false},
};

std::vector<Op> numbered() {
  std::vector<Op> all(std::begin(kOperations), std::end(kOperations));
  for (size_t i = 0; i < all.size(); ++i) all[i].id = kFirstCallOp + static_cast<uint32_t>(i);
  return all;
}

}  // namespace

bool Op::is_collective() const {
  switch (op_class) {
    case OpClass::kAllToAll:
    case OpClass::kBarrier:
    case OpClass::kRootToAll:
    case OpClass::kAllToRoot:
    case OpClass::kScan:
    case OpClass::kNeighbor:
    case OpClass::kRmaSync:
    case OpClass::kCommunicator:
      return true;
    default:
      return false;
  }
}

bool Op::is_numbered() const { return is_collective() && (op_class != OpClass::kRmaSync || name == "MPI_Win_fence"); }

bool Op::is_symmetric() const {
  return op_class == OpClass::kAllToAll || op_class == OpClass::kBarrier || op_class == OpClass::kCommunicator;
}

std::span<const Op> operations() {
  static const std::vector<Op> all = numbered();
  return all;
}

const Op& operation(std::string_view name) {
  for (const Op& op : operations()) {
    if (op.name == name) return op;
  }
  throw std::out_of_range("synthetic runs do not know " + std::string(name));
}

}  // namespace ddl::test::synthetic
