// What a call of MPI or NCCL is, by its name: traces of other tools tell names only.
#pragma once

#include <string_view>

#include "core/format.h"

namespace ddl::store {

struct CallClass {
  OpClass op_class = OpClass::kOther;
  bool nonblocking = false;  ///< it posts a request, or work for a device: its times are not those of what it does
};

/// As recordings have it of what moves data, waits for it, or asks for it: "MPI_Iallreduce", "MPI_Send_init", "PMPI_Bcast_c",
/// "ncclAllGather". kOther: any other name.
CallClass class_of_call(std::string_view name);

}  // namespace ddl::store
