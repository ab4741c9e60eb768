// Ranks that were ready to run and had no CPU: other processes, or more threads of the job than it has CPUs, ran on
// theirs. Nothing else that is recorded tells that from slow computing or a slow network: a rank without a CPU is late
// for a collective, and inside one moves no bytes.
//
// Ranks that shared_cores is about are left to it: of these the cause is known. One finding for all others, since what
// took the CPUs is mended host by host, not rank by rank.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "analyzer/cpu_waits.h"
#include "analyzer/findings/crowding.h"
#include "analyzer/findings/findings.h"
#include "analyzer/query.h"

namespace ddl {
namespace {

constexpr size_t kShownWaits = 4;

/// "5.75 of 7.46 s (77%)"
std::string wait_text(const CpuWait& wait) {
  return fmt::format("{} of {} ({})", duration_text(wait.ready_ns), duration_text(wait.over_ns),
                     percent_text(wait.share()));
}

std::vector<CpuWait> not_in_crowd(const FindingInput& input, std::vector<CpuWait> waits) {
  std::set<int64_t> crowd;
  for (const CoreGroup& group : find_crowding(input).groups) crowd.insert(group.ranks.begin(), group.ranks.end());
  std::erase_if(waits, [&](const CpuWait& wait) { return wait.share() <= kLeastCpuWait || crowd.contains(wait.rank); });
  std::ranges::stable_sort(waits, [](const CpuWait& a, const CpuWait& b) { return a.share() > b.share(); });
  return waits;
}

/// "all ranks of node1", if every rank of the hosts concerned waited; else nothing.
std::string hosts_text(const FindingInput& input, const std::vector<CpuWait>& waits) {
  std::map<std::string, int64_t> missing;  // by host: ranks that did not wait
  for (const CpuWait& wait : waits) --missing[wait.host];
  Query all(
      input.db,
      "SELECT h.name, count(DISTINCT p.rank) FROM process p JOIN host h ON h.id = p.host WHERE p.world = ? GROUP BY h.name");
  size_t hosts = 0;
  for (all.bind(input.world); all.next(); ++hosts)
    if (missing.contains(all.text(0))) missing[all.text(0)] += all.integer(1);
  if (std::ranges::any_of(missing, [](const auto& host) { return host.second != 0; })) return "";
  if (missing.size() == hosts && waits.size() == world_size(input))
    return hosts == 1 ? "all ranks" : fmt::format("all ranks, on {} hosts,", hosts);
  if (missing.size() == 1) return "all ranks of " + missing.begin()->first;
  return fmt::format("all ranks of {} hosts", missing.size());
}

std::string sentence(const FindingInput& input, const std::vector<CpuWait>& waits) {
  const std::string worst = rank_on_host(input.catalog, input.world, waits[0].rank);
  if (waits.size() == 1) return fmt::format("{} waited for a CPU for {}", worst, wait_text(waits[0]));
  std::string who = hosts_text(input, waits);
  if (who.empty()) {
    std::vector<int64_t> ranks;
    for (const CpuWait& wait : waits) ranks.push_back(wait.rank);
    std::ranges::sort(ranks);
    who = ranks_text(ranks);
  }
  return fmt::format("{} waited for a CPU, {} longest: {}", who, worst, wait_text(waits[0]));
}

/// They do not wait at a time, so what they waited adds up; but a step does not get shorter than what a rank computes
/// in it. Waits are taken to fall on computing and calls alike.
double most_ns(const FindingInput& input, const std::vector<CpuWait>& waits) {
  std::map<int64_t, double> shares;
  double sum = 0;
  for (const CpuWait& wait : waits) sum += shares[wait.rank] = wait.share();
  double least_ns = 0;
  Query computing(input.db, "SELECT rank, avg(compute_ns) FROM steady_part WHERE world = ? GROUP BY rank");
  for (computing.bind(input.world); computing.next();) {
    const auto share = shares.find(computing.integer(0));
    least_ns = std::max(least_ns, computing.real(1) * (1 - (share == shares.end() ? 0 : share->second)));
  }
  const double step_ns = mean_step_ns(input);
  return std::min(sum * step_ns, step_ns - least_ns);
}

std::string evidence(const FindingInput& input, const std::vector<CpuWait>& waits) {
  std::string text = "Ready to run and without a CPU, by the scheduler's account of their main threads:";
  for (size_t i = 0; i < std::min(waits.size(), kShownWaits); ++i)
    text += fmt::format("{} {} for {}, on a CPU for {}", i == 0 ? "" : ";",
                        rank_on_host(input.catalog, input.world, waits[i].rank), wait_text(waits[i]),
                        duration_text(waits[i].on_cpu_ns));
  if (waits.size() > kShownWaits) text += fmt::format("; and {} more", waits.size() - kShownWaits);
  return text +
         ". Other threads ran there, or a limit of the container's (cpu.max) held them back. It is part of their computing, waiting and"
         " transfer: ranks that wait for others by polling are ready, too.";
}

}  // namespace

DDL_FINDING(cpu_contention, kSpeed, "late", "ranks were ready to run and had no CPU for more than 5 % of the run",
            "the scheduler's account of each rank's main thread (schedstat), from MPI_Init to MPI_Finalize") {
  const std::vector<CpuWait> waits = not_in_crowd(input, read_cpu_waits(input.db, input.world));
  if (waits.empty()) return {};
  Finding finding;
  finding.sentence = sentence(input, waits);
  if (waits.size() == 1) finding.rank = waits[0].rank;
  for (const CpuWait& wait : waits) finding.ranks.push_back(wait.rank);
  if (const double most = most_ns(input, waits); most > 0) finding.saving_ns = static_cast<int64_t>(most);
  finding.at_most = true;
  finding.confidence = "sure";
  finding.evidence = evidence(input, waits);
  finding.evidence_sql = fmt::format(
      "SELECT p.rank, h.name AS host, f.key, f.value FROM process_fact f JOIN process p ON p.id = f.process JOIN host h ON h.id = p.host"
      " WHERE p.world = {} AND f.key IN ('on_cpu_ns', 'run_queue_wait_ns', 'cpu_account_ns', 'cpus') ORDER BY p.rank, f.key",
      input.world);
  finding.advice = fmt::format(
      "look what else runs on {}: ps -eLo psr,pcpu,pid,comm --sort -pcpu; ask for whole nodes (srun --exclusive), start fewer threads per "
      "rank (OMP_NUM_THREADS, DataLoader workers), and in a container see nr_throttled in cpu.stat",
      waits[0].host);
  return {std::move(finding)};
}

}  // namespace ddl
