#pragma once

#include <mpi.h>

#include <vector>

namespace ddl::allreduce {

/** On which node each rank of a communicator is. Nodes are numbered in the order of their lowest rank. */
class Topology {
 public:
  /** Collective over `comm`: ranks that share memory (MPI_Comm_split_type) are on one node. */
  static Topology discover(MPI_Comm comm);
  /** `nodes[r]` is any name of the node of rank `r`. */
  explicit Topology(const std::vector<int>& nodes);

  int ranks() const { return static_cast<int>(node_of_.size()); }
  int nodes() const { return static_cast<int>(members_.size()); }
  int node_of(int rank) const { return node_of_[static_cast<std::size_t>(rank)]; }
  /** The ranks of a node, ascending; the first is its leader. */
  const std::vector<int>& members(int node) const { return members_[static_cast<std::size_t>(node)]; }
  /** The leader of each node. */
  const std::vector<int>& leaders() const { return leaders_; }
  /** All ranks, node by node: neighbours in this order share a node where they can. */
  const std::vector<int>& by_node() const { return by_node_; }

 private:
  std::vector<int> node_of_;
  std::vector<std::vector<int>> members_;
  std::vector<int> leaders_;
  std::vector<int> by_node_;
};

/** Every way to write `ranks` as a product of factors above 1, the order of the factors told apart: 8, 2x4, 4x2,
 * 2x2x2. For 1: "1". */
std::vector<std::vector<int>> ordered_factorisations(int ranks);

}  // namespace ddl::allreduce
