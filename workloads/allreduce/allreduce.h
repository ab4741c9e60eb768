#pragma once

#include <mpi.h>

#include <string>

#include "workloads/allreduce/algorithms.h"

namespace ddl::allreduce {

/** An algorithm with what it is to be told. */
struct Choice {
  const Algorithm* algorithm = nullptr;
  std::size_t segment_bytes = 0;
  std::vector<int> dimensions{};  ///< empty: ranks per node x nodes

  /** As `parse_choice` reads it: "ring", "multi_ring:2x4". The segment is not part of it. */
  std::string name() const;
};

inline constexpr std::size_t kDefaultSegmentBytes = 128 * 1024;

/** NAME or, for multi_ring, NAME:2x4. Throws std::invalid_argument with a sentence for the user. */
Choice parse_choice(const std::string& text, std::size_t segment_bytes = kDefaultSegmentBytes);
/** "2x4"; factors from 1 to the largest int. Throws std::invalid_argument. */
std::vector<int> parse_dimensions(const std::string& text);

/** Throws std::invalid_argument where dimensions are given whose product is not `ranks`. */
void check_dimensions(const Choice& choice, int ranks);

/**
 * MPI_Allreduce made of point-to-point messages, on a duplicate of a communicator: nothing meets the job's own
 * messages.
 *
 * Construction and destruction are collective. Right for every number of ranks and elements, every predefined datatype
 * (and derived ones whose lower bound is 0 and whose extent holds all of them), every operation. Errors of MPI end the
 * job. One thread. */
class Allreduce {
 public:
  /** Throws std::invalid_argument, on all ranks alike, where the dimensions do not make the number of ranks. */
  Allreduce(MPI_Comm comm, Choice choice, Topology topology);
  ~Allreduce();
  Allreduce(const Allreduce&) = delete;
  Allreduce& operator=(const Allreduce&) = delete;

  /**
   * As MPI_Allreduce, MPI_IN_PLACE included. Returns the algorithm that ran: the butterfly instead of one that does not
   * keep the order of ranks, where the operation does not commute. */
  const Algorithm& operator()(const void* send, void* receive, int count, MPI_Datatype type, MPI_Op op);

  const Choice& choice() const { return choice_; }
  /** Sent by this rank since construction. */
  const Traffic& traffic() const { return traffic_; }

 private:
  Choice choice_;
  Topology topology_;
  MPI_Comm comm_ = MPI_COMM_NULL;
  std::vector<std::byte> scratch_;
  Traffic traffic_;
};

}  // namespace ddl::allreduce
