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
    {"gpu two slow ranks", GpuFault::kSlowRanks, false},
    {"gpu slow node", GpuFault::kSlowNode, false},
    {"gpu slow link", GpuFault::kSlowLink, false},
    {"gpu uneven experts", GpuFault::kUnevenExperts, false},
    {"gpu host-bound rank", GpuFault::kHostBound, false},
    {"gpu late loader", GpuFault::kLateLoader, false},
    {"gpu 32 clean", GpuFault::kNone, true},
    {"gpu 32 slow rank", GpuFault::kSlowRank, true},
    {"gpu 32 two slow ranks", GpuFault::kSlowRanks, true},
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
    case GpuFault::kSlowRanks:
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

/// As findings list them: all, or the first three and how many more.
std::string members_text(const GpuJob& job) {
  const auto first = job.members.begin();
  const auto ranks = static_cast<std::ptrdiff_t>(job.members.size());
  const std::ptrdiff_t shown = ranks <= 4 ? ranks - 1 : 3;
  const std::string text = fmt::format("ranks {}", fmt::join(first, first + shown, ", "));
  return ranks <= 4 ? fmt::format("{} and {}", text, job.members.back())
                    : fmt::format("{} and {} more", text, ranks - shown);
}

/// Whether it says the place: rank, node, or the communicator by its members.
bool names_place(const GpuJob& job, const Found& found) {
  const auto names_node = [&](int node) {
    return found.sentence.find(fmt::format("ranks on node{} ", node)) != std::string::npos;
  };
  switch (job.fault) {
    case GpuFault::kSlowRanks: {
      const auto [first, second] = std::minmax(job.place, job.second);
      if (!job.is_recorded(first)) return found.rank == second;
      if (!job.is_recorded(second)) return found.rank == first;
      const int node = first / job.ranks_per_node;
      const bool whole_node = node == second / job.ranks_per_node && job.known_ranks(node).size() == 2;
      return whole_node ? names_node(node)
                        : found.sentence.find(fmt::format("ranks {} and {}", first, second)) != std::string::npos;
    }
    case GpuFault::kSlowNode: {
      const std::vector<int> known = job.known_ranks(job.place);
      return known.size() == 1 ? found.rank == known.front() : names_node(job.place);
    }
    case GpuFault::kSlowLink:
      return found.sentence.find(fmt::format("the network of {} ", job.link)) != std::string::npos &&
             found.evidence.find(fmt::format("members: {} on", members_text(job))) != std::string::npos;
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

bool can_be_told(const GpuJob& job) {
  switch (job.fault) {
    case GpuFault::kNone:
      return true;
    case GpuFault::kSlowNode:
      return !job.known_ranks(job.place).empty();
    case GpuFault::kSlowLink:
      return std::count_if(job.members.begin(), job.members.end(), [&](int rank) { return job.is_recorded(rank); }) >=
             2;
    case GpuFault::kSlowRanks:
      return job.is_recorded(job.place) || job.is_recorded(job.second);
    default:
      return job.is_recorded(job.place);
  }
}

bool is_at_fault(const GpuJob& job, int64_t rank) {
  switch (job.fault) {
    case GpuFault::kNone:
    case GpuFault::kSlowLink:
      return false;
    case GpuFault::kSlowNode:
      return rank / job.ranks_per_node == job.place;
    default:
      return rank == job.place || rank == job.second;
  }
}

bool is_right(const GpuJob& job, const std::vector<Found>& found) {
  if (job.fault == GpuFault::kNone) return found.empty();
  if (found.empty() || found[0].id != expected(job.fault) || !names_place(job, found[0])) return false;
  return std::any_of(job.axes.begin(), job.axes.end(), [&](const std::string& axis) {
    return found[0].evidence.find(fmt::format("axis '{}'", axis)) != std::string::npos;
  });
}

std::string told(const GpuJob& job) {
  std::string text = fmt::format(
      "seed {}: data {} x tensor {} x pipeline {}, expert {}, {} ranks per node, {} steps, {} micro-batches\n",
      job.seed, job.data, job.tensor, job.pipeline, job.expert, job.ranks_per_node, job.steps, job.microbatches);
  if (!job.removed.empty()) text += fmt::format("  removed: {}\n", fmt::join(job.removed, ", "));
  if (job.fault == GpuFault::kNone) return text;
  return text + fmt::format("  injected {} at {} from step {}: {:.1f}%, axis {}\n", expected(job.fault),
                            job.fault == GpuFault::kSlowLink ? fmt::format("{} ({})", job.link, members_text(job))
                            : job.second >= 0                ? fmt::format("{} and {}", job.place, job.second)
                                                             : fmt::format("{}", job.place),
                            job.from_step, job.cost * 100, fmt::join(job.axes, " or "));
}

}  // namespace ddl::test
