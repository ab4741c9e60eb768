#pragma once

#include <functional>
#include <string>
#include <vector>

#include "workloads/allreduce/sweep/openmpi.h"
#include "workloads/allreduce/sweep/options.h"
#include "workloads/allreduce/topology.h"

namespace ddl::allreduce {

/** What is measured: one way to add up floats over all ranks. */
struct Candidate {
  std::string name;
  std::size_t segment_bytes;
  std::function<void(const float* send, float* receive, int count)> run;
};

/**
 * The default twice, then what the options name, each once. Collective. `comments` gets what was asked for and cannot
 * be had. Throws UsageError for a name that nothing has. */
std::vector<Candidate> make_candidates(const Options& options, const Topology& topology, OpenMpi& openmpi,
                                       std::vector<std::string>& comments);

}  // namespace ddl::allreduce
