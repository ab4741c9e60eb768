// GPUs that have nothing to do because the host had not launched yet what came next (specification.md I2). What the host spends inside MPI
// meanwhile is communication and told by itself.
#include <fmt/format.h>

#include <algorithm>

#include "analyzer/findings/findings.h"
#include "analyzer/query.h"

namespace ddl {
namespace {

constexpr double kHostMinSavingShare = 0.05;  // of the step

}  // namespace

std::vector<Finding> find_host_bound(const FindingInput& input) {
  Query row(input.db,
            "SELECT total(idle_host_ns) / total(windows), total(duration_ns) / total(windows), (SELECT total(exposed_ns) / max(1, count(*))"
            " FROM steady_part WHERE world = ?1) FROM steady_gpu WHERE world = ?1 HAVING total(windows) > 0");
  row.bind(input.world);
  if (!row.next()) return {};
  const double saving_ns = row.real(0) - row.real(2), window_ns = row.real(1);
  if (saving_ns < kHostMinSavingShare * window_ns) return {};
  Query kernels(input.db,
                "SELECT count(*) * 1.0 / nullif((SELECT sum(windows) FROM steady_gpu WHERE world = ?1), 0), avg(g.duration_ns)"
                " FROM gpu_event g JOIN process p ON p.id = g.process WHERE p.world = ?1 AND g.kind = 1"
                " AND (NOT (SELECT count(*) FROM steady_number WHERE world = ?1) OR g.step IN (SELECT step FROM steady_number "
                "WHERE world = ?1))");
  kernels.bind(input.world);
  Finding finding;
  finding.saving_ns = static_cast<int64_t>(saving_ns);
  finding.confidence = "likely";
  finding.sentence =
      fmt::format("GPUs wait for the host for {} of the {}: {}{} until it launches the next kernel", percent_text(saving_ns / window_ns),
                  input.steps.annotated ? "step" : "run", duration_text(saving_ns), input.steps.annotated ? "/step" : "");
  if (kernels.next() && !kernels.is_null(1)) {
    finding.evidence = fmt::format("{:.0f} kernels{} of {} on average.", kernels.real(0), input.steps.annotated ? " per step" : "",
                                   duration_text(kernels.real(1)));
  }
  finding.evidence_sql = fmt::format(
      "SELECT step, rank, device, idle_host_ns, idle_ns, compute_ns, duration_ns FROM v_gpu_part WHERE world = {} ORDER BY idle_host_ns "
      "DESC"
      " LIMIT 100",
      input.world);
  finding.advice =
      "launch less and earlier: CUDA graphs, torch.compile or fused optimizers, a larger batch, no .item(), print or synchronisation "
      "inside "
      "the step; look at what the host does in its gaps";
  return {finding};
}

}  // namespace ddl
