// Shared by the reader and the writer of Chakra's execution traces (et_def.proto of mlcommons/chakra).
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace ddl::chakra {

enum class NodeType {
  kInvalid = 0,
  kMetadata = 1,
  kLoad = 2,
  kStore = 3,
  kCompute = 4,
  kSend = 5,
  kReceive = 6,
  kCollective = 7
};

/// Fields of Node and of AttributeProto.
enum NodeField : uint32_t {
  kId = 1,
  kName = 2,
  kType = 3,
  kControlDeps = 4,
  kDataDeps = 5,
  kStartMicros = 6,
  kDurationMicros = 7,
  kInputs = 8,
  kAttributes = 10
};
enum AttributeField : uint32_t { kAttributeName = 1, kInt32 = 7, kInt64 = 9, kBool = 27, kString = 29 };

/// CollectiveCommType of an MPI or NCCL operation, also for non-blocking, persistent and v-variants. Nothing:
/// Chakra lacks the type.
std::optional<int64_t> collective_type(std::string_view op);
/// The operation of a type, "MPI_Allreduce" or "ncclAllReduce"; may be empty.
std::string_view mpi_operation(int64_t type);
std::string_view nccl_operation(int64_t type);

}  // namespace ddl::chakra
