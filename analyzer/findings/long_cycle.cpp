// Training threads wait for the next cycle of the negotiation, which comes seldom against the step
// (HOROVOD_CYCLE_TIME).
//
// What is ready is told to the other ranks when the background thread wakes, every cycle: until then the training
// thread, which has nothing to do before its gradients are reduced, is blocked, and nobody is late. When it was ready
// is known to a cycle only, so that part of the blocked time is bounded: by what all ranks were blocked at least, and
// by one cycle for each batch that was agreed on.
#include <fmt/format.h>

#include <cstdlib>

#include "analyzer/findings/findings.h"
#include "analyzer/query.h"

namespace ddl {
namespace {

constexpr double kMinCycleShare = 0.05;   // of the step
constexpr double kLongCycle = 0.1;        // of the step
constexpr double kLeastCycleNs = 2e6;     // Horovod's own choice is 1 ms, or 5 ms
constexpr double kUnaskedCycleNs = 20e6;  // where nobody set it, shorter ones may come of threads that share cores
constexpr double kAsSet = 1.25;           // of what was set: cycles that take longer have another cause

/// What HOROVOD_CYCLE_TIME was set to, ns; 0: not, or not to a number.
double cycle_that_was_set(const FindingInput& input) {
  Query row(input.db, "SELECT value FROM meta WHERE key = 'env.HOROVOD_CYCLE_TIME'");
  if (!row.next()) return 0;
  const std::string text = row.text(0);
  char* end = nullptr;
  const double ms = std::strtod(text.c_str(), &end);
  return end != text.c_str() && ms > 0 ? ms * 1e6 : 0;
}

}  // namespace

DDL_FINDING(long_cycle, kSpeed, "where",
            "training threads wait for the next cycle of Horovod's negotiation, long against the step",
            "the rhythm of coordination, HOROVOD_CYCLE_TIME, and for how long all training threads are blocked while "
            "nothing is moved and nobody is late") {
  if (!input.steps.annotated || input.step_ns <= 0) return {};
  Query rhythm(
      input.db,
      "SELECT max(b.cycle_ns) FROM background_process b JOIN process p ON p.id = b.process WHERE p.world = ? AND b.sampled");
  rhythm.bind(input.world);
  if (!rhythm.next() || rhythm.is_null(0)) return {};
  const double cycle_ns = rhythm.real(0), set_ns = cycle_that_was_set(input),
               step_ns = static_cast<double>(input.step_ns);
  if (cycle_ns < kLongCycle * step_ns || cycle_ns < (set_ns > 0 ? kLeastCycleNs : kUnaskedCycleNs)) return {};
  if (set_ns > 0 && cycle_ns > kAsSet * set_ns) return {};

  // Batches that were agreed on in one cycle wait for it together.
  Query waits(input.db, R"(
    WITH batch AS (
      SELECT n.process, n.step, count(DISTINCT n.agreed_ns) AS cycles
      FROM negotiation n
      JOIN process p ON p.id = n.process
      JOIN steady_step s ON s.world = p.world AND s.step = n.step
      WHERE p.world = ?1
      GROUP BY n.process, n.step),
    blocked AS (
      SELECT w.step, min(w.duration_ns - w.compute_ns - w.exposed_ns) AS ns,
             (SELECT max(b.cycles) FROM batch b WHERE b.step = w.step) AS cycles
      FROM steady_wait w
      JOIN steady_step s ON s.world = w.world AND s.step = w.step
      WHERE w.world = ?1 AND s.wait_ns IS NOT NULL
      GROUP BY w.step)
    SELECT avg(ns), avg(min(ns, cycles * ?2)), avg(cycles) FROM blocked WHERE cycles IS NOT NULL)");
  waits.bind(input.world, cycle_ns);
  if (!waits.next() || waits.is_null(0)) return {};
  const double blocked_ns = waits.real(0), saving_ns = waits.real(1);
  if (saving_ns < kMinCycleShare * step_ns) return {};

  Finding finding;
  finding.saving_ns = static_cast<int64_t>(saving_ns);
  finding.at_most = true;
  finding.mostly = 2 * saving_ns >= blocked_ns;  // what is left is sleep of another cause, which may take its place
  finding.confidence = set_ns > 0 ? "likely" : "maybe";
  finding.sentence =
      fmt::format("training threads wait up to {}/step for the next cycle of the negotiation, one every {}",
                  duration_text(saving_ns), duration_text(cycle_ns));
  finding.evidence = fmt::format(
      "A step takes {}. All training threads are blocked for {}/step at least while nothing is moved and no rank is late; what is ready waits for "
      "the next cycle, {:.1f} of which a step agree on something to move.",
      duration_text(step_ns), duration_text(blocked_ns), waits.real(2));
  if (set_ns > 0) finding.evidence += fmt::format(" HOROVOD_CYCLE_TIME was set to {:g} (ms).", set_ns / 1e6);
  finding.evidence_sql = fmt::format(
      "SELECT p.rank, n.step, n.ready_ns, n.agreed_ns, b.cycle_ns FROM negotiation n JOIN background_process b ON b.process = n.process JOIN process p"
      " ON p.id = n.process WHERE p.world = {} ORDER BY n.agreed_ns LIMIT 200",
      input.world);
  finding.advice = fmt::format(
      "{}HOROVOD_CYCLE_TIME=1 (ms), or what ddl tune --tunable HOROVOD_CYCLE_TIME=1,2.5,5 finds: a longer cycle gathers more tensors for one "
      "reduction, and lets them wait",
      set_ns > 0 ? "unset it, or " : "");
  return {finding};
}

}  // namespace ddl
