// The operation of a NCCL or RCCL kernel, as far as its name tells.
#pragma once

#include <optional>

#include "store/import/imported_run.h"
#include "store/import/kernel_names.h"

namespace ddl::store {

/// Nothing for other kernels. Bytes and communicator are unknown.
inline std::optional<ImportedOperation> operation_of(const NcclKernel& kernel) {
  if (!kernel.is_nccl) return std::nullopt;
  ImportedOperation operation;
  operation.payload_bytes.reset();
  if (kernel.collective != nullptr) {
    operation.op = kernel.collective->op;
    operation.op_class = kernel.collective->op_class;
  }
  operation.algorithm = kernel.algorithm;
  operation.protocol = kernel.protocol;
  return operation;
}

}  // namespace ddl::store
