// What a rank really sends and receives, counted between the program and the MPI library (PMPI) and so independent of
// the count that workloads/allreduce keeps. Counts only while `counting`.
#pragma once

#include <cstdint>
#include <functional>

namespace ddl::allreduce {

struct Seen {
  uint64_t sent_messages = 0, sent_bytes = 0;
  uint64_t received_messages = 0, received_bytes = 0;
  uint64_t sent_between_nodes = 0;  ///< bytes, where `between_nodes` says so of the receiver
  uint64_t collectives = 0;         ///< an algorithm over point-to-point makes none
};

extern Seen seen;
extern bool counting;
extern std::function<bool(int to)> between_nodes;

}  // namespace ddl::allreduce
