// GPUs that have nothing to do because the host had not launched yet what came next (specification.md I2). What the
// host spends inside MPI meanwhile is communication and told by itself. One rank whose GPU waits for its host makes all
// others wait for it inside collectives: that is told first, by what a step takes less without it
// (passes/waited_for.h).
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "analyzer/facts.h"
#include "analyzer/findings/findings.h"
#include "analyzer/findings/waited_for.h"
#include "analyzer/passes/device_partition.h"
#include "analyzer/query.h"

namespace ddl {
namespace {

constexpr double kHostMinSavingShare = 0.05;  // of the step
constexpr double kTold = 0.01;                // of the waiting for launches, how long these take

constexpr const char* kHostAdvice =
    "launch less and earlier: CUDA graphs, torch.compile or fused optimizers, a larger batch, no .item(), print or synchronisation inside "
    "the step; look at what the host does in its gaps";

Finding late_host(const FindingInput& input, const WaitedFor& found) {
  Finding finding = describe(input, found);
  finding.sentence = idling_sentence(input, found, "until the host launches");
  finding.advice = fmt::format(
      "see what else runs on the host of {} (cores, clocks, other load, where its threads are bound); else {}",
      ranks_text(found.ranks), kHostAdvice);
  return finding;
}

constexpr const char* kStartAdvice =
    "where the start matters, see what the host does in it: reading input, loading libraries, allocating; where it does not, mark steps "
    "(NVTX, ddl/annotate.h), and it is left out of all numbers";

Finding late_start(double start_ns, double run_ns) {
  Finding finding;
  finding.subject = "start";
  finding.confidence = "sure";
  finding.sentence =
      fmt::format("GPUs have nothing to do in the first {} of the run: the host takes {} until it launches anything",
                  percent_text(start_ns / run_ns), duration_text(start_ns));
  finding.evidence = "It is part of all shares of the run, of idling above all.";
  finding.advice = kStartAdvice;
  return finding;
}

/// How long the first launch of a GPU takes to reach it, as far as that counts as the launch's; mean over the GPUs.
double first_launch_ns(const FindingInput& input) {
  Query row(
      input.db,
      "SELECT avg(iif(after_ns < ?2, after_ns, 0)) FROM (SELECT min(g.start_ns) - g.launch_ns AS after_ns FROM gpu_event g"
      " JOIN process p ON p.id = g.process WHERE p.world = ?1 AND g.kind IN (1, 2, 3) GROUP BY g.process, g.device)");
  row.bind(input.world, kLaunchLatencyNs);
  return row.next() ? row.maybe_real(0).value_or(0) : 0;
}

}  // namespace

DDL_FINDING(
    host_bound, kSpeed, "idle",
    "GPUs wait until the host launches the next kernel, or the first one (runs without steps); or one rank's does, and the others "
    "wait for that",
    "idle time before the launching call, less what the host spends in MPI; of one rank: its GPU waits "
    "least for others") {
  if (const auto late = waited_for(input, "host")) return {late_host(input, *late)};
  Query row(
      input.db,
      "SELECT total(idle_host_ns) / total(windows), total(duration_ns) / total(windows), (SELECT total(exposed_ns) / max(1, count(*))"
      " FROM steady_part WHERE world = ?1), total(idle_launch_ns) / total(windows) FROM steady_gpu WHERE world = ?1 HAVING total(windows) > 0");
  row.bind(input.world);
  if (!row.next()) return {};
  const double late_ns = row.real(0) - row.real(2), window_ns = row.real(1);
  const double until_first_ns =
      input.steps.annotated ? 0 : std::clamp(run_start_ns(input.db, input.world), 0.0, std::max(0.0, late_ns));
  const double until_launched_ns = late_ns - until_first_ns;
  std::vector<Finding> findings;
  if (until_first_ns >= kHostMinSavingShare * window_ns) findings.push_back(late_start(until_first_ns, window_ns));
  if (until_launched_ns < kHostMinSavingShare * window_ns) return findings;
  // A launch that comes before the GPU has nothing to do reaches it in time; that of the first one is a
  // part of the start.
  const double until_reached_ns = row.real(3) - (input.steps.annotated ? 0 : first_launch_ns(input));
  Query kernels(
      input.db,
      "SELECT count(*) * 1.0 / nullif((SELECT sum(windows) FROM steady_gpu WHERE world = ?1), 0), avg(g.duration_ns)"
      " FROM gpu_event g JOIN process p ON p.id = g.process WHERE p.world = ?1 AND g.kind = 1"
      " AND (NOT (SELECT count(*) FROM steady_number WHERE world = ?1) OR g.step IN (SELECT step FROM steady_number "
      "WHERE world = ?1))");
  kernels.bind(input.world);
  Finding finding;
  finding.saving_ns = static_cast<int64_t>(until_launched_ns + until_reached_ns);
  finding.confidence = "likely";
  finding.sentence = fmt::format("GPUs wait for the host for {} of the {}: {}{} until it launches the next kernel",
                                 percent_text(until_launched_ns / window_ns), input.steps.annotated ? "step" : "run",
                                 duration_text(until_launched_ns), input.steps.annotated ? "/step" : "");
  if (kernels.next() && !kernels.is_null(1)) {
    finding.evidence = fmt::format("{:.0f} kernel{}{} of {} on average.", kernels.real(0),
                                   std::lround(kernels.real(0)) == 1 ? "" : "s",
                                   input.steps.annotated ? " per step" : "", duration_text(kernels.real(1)));
  }
  if (until_reached_ns >= kTold * until_launched_ns)
    finding.evidence += fmt::format("{}Launches then take {}{} to reach the GPU.", finding.evidence.empty() ? "" : " ",
                                    duration_text(until_reached_ns), input.steps.annotated ? "/step" : "");
  finding.evidence_sql = fmt::format(
      "SELECT step, rank, device, idle_host_ns, idle_ns, compute_ns, duration_ns FROM v_gpu_part WHERE world = {} ORDER BY idle_host_ns "
      "DESC"
      " LIMIT 100",
      input.world);
  finding.advice = kHostAdvice;
  findings.insert(findings.begin(), std::move(finding));
  return findings;
}

}  // namespace ddl
