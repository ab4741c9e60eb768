#include "workloads/allreduce/topology.h"

#include <algorithm>

namespace ddl::allreduce {

Topology Topology::discover(MPI_Comm comm) {
  int rank = 0;
  int ranks = 1;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &ranks);
  MPI_Comm node = MPI_COMM_NULL;
  MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &node);
  int leader = rank;  // the key above keeps the order, so this is the lowest rank of the node
  MPI_Bcast(&leader, 1, MPI_INT, 0, node);
  MPI_Comm_free(&node);
  std::vector<int> leaders(static_cast<std::size_t>(ranks));
  MPI_Allgather(&leader, 1, MPI_INT, leaders.data(), 1, MPI_INT, comm);
  return Topology(leaders);
}

Topology::Topology(const std::vector<int>& nodes) {
  std::vector<int> names;
  for (int rank = 0; rank < static_cast<int>(nodes.size()); ++rank) {
    const int name = nodes[static_cast<std::size_t>(rank)];
    const auto known = std::find(names.begin(), names.end(), name);
    const auto node = static_cast<std::size_t>(known - names.begin());
    if (known == names.end()) {
      names.push_back(name);
      members_.emplace_back();
      leaders_.push_back(rank);
    }
    members_[node].push_back(rank);
    node_of_.push_back(static_cast<int>(node));
  }
  for (const std::vector<int>& members : members_) by_node_.insert(by_node_.end(), members.begin(), members.end());
}

std::vector<std::vector<int>> ordered_factorisations(int ranks) {
  std::vector<std::vector<int>> result{{ranks}};
  for (int first = 2; first <= ranks / 2; ++first) {
    if (ranks % first != 0) continue;
    for (std::vector<int> rest : ordered_factorisations(ranks / first)) {
      rest.insert(rest.begin(), first);
      result.push_back(std::move(rest));
    }
  }
  return result;
}

}  // namespace ddl::allreduce
