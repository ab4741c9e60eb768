#include "tests/analyzer/injected/gpu_cases.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace ddl::test {
namespace {

constexpr uint64_t kWithExperts = 4;  // every so manyth of the small jobs

constexpr GpuKind kGpuKinds[] = {
    {"gpu clean", GpuFault::kNone, false},
    {"gpu slow rank", GpuFault::kSlowRank, false},
    {"gpu slow node", GpuFault::kSlowNode, false},
    {"gpu slow link", GpuFault::kSlowLink, false},
    {"gpu uneven experts", GpuFault::kUnevenExperts, false},
    {"gpu host-bound rank", GpuFault::kHostBound, false},
    {"gpu late loader", GpuFault::kLateLoader, false},
    {"gpu 32 clean", GpuFault::kNone, true},
    {"gpu 32 slow rank", GpuFault::kSlowRank, true},
    {"gpu 32 slow node", GpuFault::kSlowNode, true},
    {"gpu 32 slow link", GpuFault::kSlowLink, true},
    {"gpu 32 host-bound rank", GpuFault::kHostBound, true},
    {"gpu 32 late loader", GpuFault::kLateLoader, true},
};

const char* expected(GpuFault fault) {
  switch (fault) {
    case GpuFault::kNone:
      return "";
    case GpuFault::kSlowRank:
    case GpuFault::kSlowNode:
      return "straggler";
    case GpuFault::kSlowLink:
      return "slow_link";
    case GpuFault::kUnevenExperts:
      return "uneven_experts";
    case GpuFault::kHostBound:
      return "host_bound";
    case GpuFault::kLateLoader:
      return "input_bound";
  }
  return "";
}

std::string members_text(const GpuJob& job) {
  const GpuTrace trace = run_gpu_job(job);
  return fmt::format("{}", fmt::join(trace.communicators[static_cast<size_t>(job.place)].members, ", "));
}

/// Whether it says the place: rank, node, or the communicator by its members.
bool names_place(const GpuJob& job, const Found& found) {
  switch (job.fault) {
    case GpuFault::kSlowNode:
      return found.sentence.find(fmt::format("ranks on node{} ", job.place)) != std::string::npos;
    case GpuFault::kSlowLink: {
      std::string members = members_text(job);
      if (const size_t last = members.rfind(", "); last != std::string::npos && std::count(members.begin(), members.end(), ',') < 4)
        members.replace(last, 2, " and ");
      return std::count(members.begin(), members.end(), ',') >= 4 || found.evidence.find("ranks " + members + " on") != std::string::npos;
    }
    default:
      return found.rank == job.place;
  }
}

}  // namespace

std::span<const GpuKind> gpu_kinds() { return kGpuKinds; }

GpuJob draw_gpu_case(const GpuKind& kind, uint64_t seed) {
  const bool experts = kind.fault == GpuFault::kUnevenExperts || seed % kWithExperts == 0;
  return draw_gpu_job(seed, kind.fault, kind.large ? GpuMesh::kLarge : experts ? GpuMesh::kExperts : GpuMesh::kSmall);
}

bool is_right(const GpuJob& job, const std::vector<Found>& found) {
  if (job.fault == GpuFault::kNone) return found.empty();
  if (found.empty() || found[0].id != expected(job.fault) || !names_place(job, found[0])) return false;
  return std::any_of(job.axes.begin(), job.axes.end(),
                     [&](const std::string& axis) { return found[0].evidence.find(fmt::format("axis '{}'", axis)) != std::string::npos; });
}

std::string told(const GpuJob& job) {
  std::string text = fmt::format("seed {}: data {} x tensor {} x pipeline {}, expert {}, {} ranks per node, {} steps, {} micro-batches\n",
                                 job.seed, job.data, job.tensor, job.pipeline, job.expert, job.ranks_per_node, job.steps, job.microbatches);
  if (job.fault == GpuFault::kNone) return text;
  return text + fmt::format("  injected {} at {} from step {}: {:.1f}%, axis {}\n", expected(job.fault),
                            job.fault == GpuFault::kSlowLink ? members_text(job) : fmt::format("{}", job.place), job.from_step,
                            job.cost * 100, fmt::join(job.axes, " or "));
}

}  // namespace ddl::test
