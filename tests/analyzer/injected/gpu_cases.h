// Cases of jobs on GPUs: what is injected, what the first finding must be, and whether it was.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tests/analyzer/injected/gpu_job.h"

namespace ddl::test {

struct Found {
  std::string id;
  int64_t rank;
  std::string sentence, evidence;
  double share;
  bool at_most;  ///< an upper bound
  std::string confidence;
};

struct GpuKind {
  const char* name;
  GpuFault fault;
  bool large;  ///< 2 x 4 x 4; else 2 x 2 x 2, or 8 replicas with experts
};
std::span<const GpuKind> gpu_kinds();

GpuJob draw_gpu_case(const GpuKind& kind, uint64_t seed);
/// Enough of what is at fault left a trace: the rank, one of several or of a node, two members of a link.
bool can_be_told(const GpuJob& job);
/// Whether the rank is what is at fault, or a member of it.
bool is_at_fault(const GpuJob& job, int64_t rank);
/// The first finding is the fault, with its place and its axis; of a healthy job there is none.
bool is_right(const GpuJob& job, const std::vector<Found>& found);
/// The job and what was injected, one line each.
std::string told(const GpuJob& job);

}  // namespace ddl::test
