// Names as profilers write them: NCCL kernels, copies, torch's collectives and types. Shared by the importers and the
// export to Kineto's format.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/format.h"

namespace ddl::store {

/// "Memcpy HtoD (Pageable -> Device)", "Memset (Device)". Unknown parts are empty.
struct CopyName {
  std::string kind;                 ///< HtoD, DtoH, ...
  std::string source, destination;  ///< pageable, pinned, device, ...
};
CopyName parse_copy_name(std::string_view name);

struct TorchCollective {
  std::string_view name;  ///< torch's "Collective name"
  std::string_view op;    ///< NCCL's operation
  OpClass op_class;
};
/// "ncclDevKernel_AllReduce_Sum_f32_RING_LL(...)", "ncclKernel_AllReduce_RING_LL_Sum_float(...)": empty if the name
/// lacks it. "ncclAllReduceRingLLKernel_sum_f32(...)" (NCCL up to 2.7) has the operation only: one kernel of each was
/// compiled, for all algorithms.
struct NcclKernel {
  bool is_nccl = false;
  const TorchCollective* collective = nullptr;  ///< null: SendRecv, Generic and the like carry out several kinds
  bool is_exchange = false;                     ///< SendRecv: messages, or operations made of them
  std::string algorithm, protocol;
};
NcclKernel parse_nccl_kernel(std::string_view name);

/// Null: not a known NCCL collective or message.
const TorchCollective* find_torch_collective(std::string_view name);
/// For the range around its launch: "nccl:all_reduce", "nccl:send 0->1".
const TorchCollective* find_torch_range(std::string_view name);

/// By NCCL's name; the most usual one. Null: torch lacks it.
const TorchCollective* find_torch_collective_of(std::string_view op);

struct TorchType {
  uint32_t code = 0;  ///< core/names.h; 0: unknown
  int64_t bytes = 0;  ///< of an element; 0: unknown
};
/// "Float", "BFloat16", ...
TorchType find_torch_type(std::string_view name);

struct TorchTensors {
  std::optional<int64_t> bytes;  ///< of all; unset: missing or nonsensical
  uint32_t datatype = 0;         ///< core/names.h; 0: unknown, or several
};
/// An operation's tensors in "Input Dims" and "Input type": [[8, 1024], [16]] and ["float", "c10::Half"].
TorchTensors parse_tensors(std::string_view dims, std::string_view types);

struct TorchTypeName {
  std::string_view name;
  int64_t bytes = 0;
};
/// For a code of core/names.h; empty: torch lacks it.
TorchTypeName find_torch_type_of(uint32_t code);

/// "[0, 1, 2]"; empty if the list is abbreviated ("[0, 1, ..., 63]").
std::vector<int64_t> parse_ranks(std::string_view list);

}  // namespace ddl::store
