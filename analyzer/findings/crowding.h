// More busy threads than CPUs to run them on: ranks bound to one core by a wrong mapping (two mpirun on one host, a
// batch system that binds all of them to the same set), too many ranks for the host, or a background thread that
// communicates on the core of the training thread. Threads take turns then: a thread that waits for its turn is late
// for the next collective, and transfer times say nothing about a network or an algorithm.
//
// For every set S of CPUs that some rank of a host is bound to: if ranks that can run nowhere but in S have more busy
// threads than S has CPUs, some of them must share. Only the smallest such sets are named. A rank has one busy thread,
// or two if a background thread communicates.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "analyzer/findings/finding.h"

namespace ddl {

struct CoreGroup {
  std::string host;
  std::vector<int64_t> ranks;
  std::set<int> cpus;
  std::string text;     ///< of `cpus`, as the rank told it
  int64_t threads = 0;  ///< busy ones, of all ranks
};

struct Crowding {
  std::vector<CoreGroup> groups;  ///< most threads per CPU first
  bool all_seen_at_end = true;    ///< no rank may have moved since
};

Crowding find_crowding(const FindingInput& input);
/// Do threads that carry out the world's collectives take turns?
bool is_crowded(const FindingInput& input);

}  // namespace ddl
