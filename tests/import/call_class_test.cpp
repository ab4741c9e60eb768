#include "store/import/call_class.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

namespace ddl::store {
namespace {

struct Row {
  std::string name;
  OpClass op_class;
  bool nonblocking;
};

// What the recorder's own tables say of every call that it wraps.
const std::vector<Row>& recorded() {
  static const std::vector<Row> rows = {
#define MPI_VERSION 4
#define DDL_MPI4 1
#define DDL_MPI_ROW(name, op_class, nonblocking) {#name, op_class, nonblocking},
#include "interpose/mpi_calls.def"
#define DDL_NCCL_ROW(name, op_class, collective) {#name, op_class, true},
#include "interpose/nccl_calls.def"
  };
  return rows;
}

TEST(ClassOfCall, IsThatOfARecording) {
  const std::set<OpClass> told = {
      OpClass::kAllToAll,   OpClass::kBarrier,       OpClass::kRootToAll, OpClass::kAllToRoot, OpClass::kScan,
      OpClass::kNeighbor,   OpClass::kSend,          OpClass::kReceive,   OpClass::kProbe,     OpClass::kSendReceive,
      OpClass::kCompletion, OpClass::kDeviceMessage, OpClass::kLifecycle};
  size_t compared = 0;
  for (const Row& row : recorded()) {
    const CallClass found = class_of_call(row.name);
    if (!told.contains(row.op_class) || (row.op_class == OpClass::kLifecycle && row.name.starts_with("nccl"))) {
      EXPECT_EQ(found.op_class, OpClass::kOther) << row.name;
      continue;
    }
    ++compared;
    EXPECT_EQ(found.op_class, row.op_class) << row.name;
    EXPECT_EQ(found.nonblocking, row.nonblocking) << row.name;
  }
  EXPECT_GT(compared, 150u);
}

TEST(ClassOfCall, KnowsOtherSpellings) {
  EXPECT_EQ(class_of_call("PMPI_Allreduce").op_class, OpClass::kAllToAll);
  EXPECT_EQ(class_of_call("MPIX_Allreduce_init").op_class, OpClass::kAllToAll);
  EXPECT_EQ(class_of_call("mpi_waitall").op_class, OpClass::kCompletion);  // Fortran
  for (const char* other :
       {"", "Allreduce", "MPI_", "MPI_I", "MPI_Comm_split", "MPI_Allreduce2", "nccl", "ncclGroupEnd", "send"})
    EXPECT_EQ(class_of_call(other).op_class, OpClass::kOther) << other;
}

}  // namespace
}  // namespace ddl::store
