// More busy threads than CPUs to run them on (crowding.h). What it costs is not known from here.
#include <fmt/format.h>

#include <algorithm>

#include "analyzer/cpu_waits.h"
#include "analyzer/findings/crowding.h"
#include "analyzer/findings/findings.h"
#include "analyzer/findings/job_end.h"

namespace ddl {
namespace {

constexpr size_t kShownGroups = 4;

std::string cpus_text(const CoreGroup& group) {
  return fmt::format("CPU{} {} of {}", group.cpus.size() == 1 ? "" : "s", group.text, group.host);
}

std::string sentence(const CoreGroup& group) {
  const bool in_background = group.threads > static_cast<int64_t>(group.ranks.size());
  if (in_background && group.ranks.size() == 1)
    return fmt::format("rank {} trains and communicates on {} ({})", group.ranks[0],
                       group.cpus.size() == 1 ? "one core" : fmt::format("{} cores", group.cpus.size()),
                       cpus_text(group));
  if (in_background) {
    return fmt::format("{}, with {} busy threads for training and communication, share {} CPU{} ({})",
                       ranks_text(group.ranks), group.threads, group.cpus.size(), group.cpus.size() == 1 ? "" : "s",
                       cpus_text(group));
  }
  if (group.cpus.size() == 1)
    return fmt::format("{} are bound to the same core ({})", ranks_text(group.ranks), cpus_text(group));
  return fmt::format("{} share {} CPUs ({})", ranks_text(group.ranks), group.cpus.size(), cpus_text(group));
}

/// What the one of them that waited longest says, if it was as much as is told elsewhere (cpu_contention.cpp).
std::string waited_text(const FindingInput& input, const CoreGroup& group) {
  std::vector<CpuWait> waits = read_cpu_waits(input.db, input.world);
  std::erase_if(waits, [&](const CpuWait& wait) {
    return wait.share() <= kLeastCpuWait || !std::ranges::binary_search(group.ranks, wait.rank);
  });
  if (waits.empty()) return "";
  const CpuWait& worst = *std::ranges::max_element(waits, {}, &CpuWait::share);
  return fmt::format(" Ready to run and without a CPU for {} of {} ({}): rank {}{}.", duration_text(worst.ready_ns),
                     duration_text(worst.over_ns), percent_text(worst.share()), worst.rank,
                     waits.size() == 1 ? "" : ", the longest of them");
}

}  // namespace

DDL_FINDING(shared_cores, kSpeed, "late", "more ranks than CPUs", "the CPUs that ranks were bound to") {
  const Crowding crowding = find_crowding(input);
  const std::vector<CoreGroup>& groups = crowding.groups;
  if (groups.empty()) return {};

  Finding finding;
  for (const CoreGroup& group : groups)
    finding.ranks.insert(finding.ranks.end(), group.ranks.begin(), group.ranks.end());
  finding.sentence = sentence(groups[0]);
  if (groups.size() > 1)
    finding.sentence += fmt::format(", and {} more group{} like it", groups.size() - 1, groups.size() == 2 ? "" : "s");
  finding.confidence = crowding.all_seen_at_end ? "sure" : "likely";
  finding.evidence = fmt::format("What the ranks could run on when {} started:", calls_mpi(input.db) ? "MPI" : "they");
  for (size_t i = 0; i < std::min(groups.size(), kShownGroups); ++i)
    finding.evidence +=
        fmt::format("{} {} on {}", i == 0 ? "" : ";", ranks_text(groups[i].ranks), cpus_text(groups[i]));
  finding.evidence += groups.size() > kShownGroups
                          ? "; ..."
                          : ". They take turns; what that costs is part of their computing and of the others' waiting.";
  finding.evidence += waited_text(input, groups[0]);
  finding.evidence_sql = fmt::format(
      "SELECT rank, host, local_rank, cpus, numa FROM v_rank WHERE world = {} ORDER BY host, rank", input.world);
  const bool in_background = groups[0].threads > static_cast<int64_t>(groups[0].ranks.size());
  finding.advice =
      in_background
          ? "give the thread that communicates a core of its own: mpirun --bind-to none, or --map-by slot:PE=2 (what it did: "
            "--report-bindings), srun --cpus-per-task=2; or start fewer ranks per host"
          : "give each rank cores of its own: mpirun --map-by core --bind-to core (threads: --map-by slot:PE=N; what it did: --report-bindings), "
            "srun "
            "--cpu-bind=cores --cpus-per-task=N; or start fewer ranks per host";
  return {finding};
}

}  // namespace ddl
