#include "store/import/chakra_types.h"

#include <array>
#include <cctype>
#include <iterator>
#include <string>

namespace ddl::chakra {

namespace {

struct CollectiveType {
  std::string_view mpi, nccl;
};
constexpr std::array<CollectiveType, 10> kCollectiveTypes = {{{"MPI_Allreduce", "ncclAllReduce"},
                                                              {"MPI_Reduce", "ncclReduce"},
                                                              {"MPI_Allgather", "ncclAllGather"},
                                                              {"MPI_Gather", "ncclGather"},
                                                              {"MPI_Scatter", "ncclScatter"},
                                                              {"MPI_Bcast", "ncclBroadcast"},
                                                              {"MPI_Alltoall", "ncclAlltoAll"},
                                                              {"MPI_Reduce_scatter", "ncclReduceScatter"},
                                                              {"MPI_Reduce_scatter_block", ""},
                                                              {"MPI_Barrier", ""}}};

/// "MPI_Ialltoallv" and "ncclAlltoAll" are "alltoall".
std::string plain_name(std::string_view op) {
  for (const std::string_view prefix : {"MPI_I", "MPI_", "nccl", "gloo_", "gloo::"}) {
    if (!op.starts_with(prefix)) continue;
    op.remove_prefix(prefix.size());
    break;
  }
  for (const std::string_view suffix : {"_c", "_init"})
    if (op.ends_with(suffix)) op.remove_suffix(suffix.size());
  std::string name;
  for (const char c : op)
    if (c != '_') name += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  for (const std::string_view with_counts : {"allgatherv", "gatherv", "scatterv", "alltoallv", "alltoallw"})
    if (name == with_counts) name.pop_back();
  return name == "broadcast" ? "bcast" : name;
}

}  // namespace

std::optional<int64_t> collective_type(std::string_view op) {
  const std::string name = plain_name(op);
  for (size_t type = 0; type < kCollectiveTypes.size(); ++type)
    if (name == plain_name(kCollectiveTypes[type].mpi)) return static_cast<int64_t>(type);
  return std::nullopt;
}

std::string_view mpi_operation(int64_t type) {
  return type >= 0 && type < std::ssize(kCollectiveTypes) ? kCollectiveTypes[static_cast<size_t>(type)].mpi
                                                          : std::string_view();
}

std::string_view nccl_operation(int64_t type) {
  return type >= 0 && type < std::ssize(kCollectiveTypes) ? kCollectiveTypes[static_cast<size_t>(type)].nccl
                                                          : std::string_view();
}

}  // namespace ddl::chakra
