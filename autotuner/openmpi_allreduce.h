// What Open MPI's MPI_Allreduce runs: its algorithms, the built-in table that chooses among them, and their
// silent fallbacks.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ddl::tune {

/// Ids of coll_tuned_allreduce_algorithm.
enum OpenMpiAllreduce : int64_t {
  kIgnore = 0,
  kBasicLinear,
  kNonoverlapping,
  kRecursiveDoubling,
  kRing,
  kSegmentedRing,
  kRabenseifner
};

/// As the library enumerates them, "ignore" to "rabenseifner"; "algorithm 9" for higher ids.
std::string openmpi_algorithm(int64_t id);

/// The built-in table for commutative operations (Open MPI 4.1 and later), at least two ranks.
int64_t openmpi_fixed_allreduce(int64_t ranks, int64_t bytes);

/// The built-in table's choices from `from_bytes` to below `below_bytes` (nothing: any size), in words:
/// "recursive_doubling up to 16383 bytes, ring up to 65535, then rabenseifner".
std::string openmpi_default(int64_t ranks, int64_t from_bytes, std::optional<int64_t> below_bytes);

/// The algorithm that runs when this one is asked for: ring with fewer elements than ranks is recursive doubling,
/// segmented ring with messages shorter than a segment per rank (or without segments) is ring, Rabenseifner with fewer
/// elements than the power of two in `ranks`, or with an operation that does not commute, is basic linear.
int64_t openmpi_allreduce_that_runs(int64_t algorithm, int64_t segment_bytes, int64_t ranks, int64_t elements,
                                    int64_t element_bytes, bool commutative = true);

/// Open MPI 4.1 runs a ring that a rule or a user requests also with operations that do not commute, and
/// computes wrong results.
inline bool openmpi_needs_commutative(int64_t algorithm) { return algorithm == kRing || algorithm == kSegmentedRing; }

/// The same of MPI_Iallreduce (libnbc of 4.1: 800 of 1000 results of a ring or of Rabenseifner were wrong); by name or
/// number, as the variable's value says it.
constexpr const char* kIallreduceVariable = "OMPI_MCA_coll_libnbc_iallreduce_algorithm";
inline bool openmpi_iallreduce_needs_commutative(std::string_view algorithm) {
  return algorithm == "ring" || algorithm == "1" || algorithm == "rabenseifner" || algorithm == "3";
}

}  // namespace ddl::tune
