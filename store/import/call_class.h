// The class of an MPI or NCCL call by its name, since other tools' traces have names only.
#pragma once

#include <string_view>

#include "core/format.h"

namespace ddl::store {

struct CallClass {
  OpClass op_class = OpClass::kOther;
  bool nonblocking = false;  ///< posts a request, or work for a device: its times are not the operation's
};

/// As in recordings, for calls that move data, wait for it, or request it, and for MPI's lifecycle: "MPI_Iallreduce",
/// "MPI_Send_init", "PMPI_Bcast_c", "MPI_Init", "ncclAllGather". kOther: any other name.
CallClass class_of_call(std::string_view name);

}  // namespace ddl::store
