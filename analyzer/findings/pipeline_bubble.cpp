// Pipelines that stand still for longer than they must: for longer than their schedule asks (specification.md B5 - B1:
// uneven stages, transfers that nothing hides, a pipeline that runs empty in mid-step), or because the schedule has too
// few micro-batches to fill its stages (B1).
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "analyzer/facts.h"
#include "analyzer/findings/findings.h"
#include "analyzer/findings/missing_member.h"
#include "analyzer/models/run_facts.h"
#include "analyzer/models/run_pipeline.h"
#include "analyzer/query.h"
#include "core/error.h"

namespace ddl {
namespace {

constexpr double kBubbleMinSavingShare = 0.03;  // of the step

struct Shape {
  int64_t stages = 0, micro_batches = 0, chunks = 1, pipelines = 0;

  /// B1, B3: of the total time.
  double bubble(int64_t times_micro_batches) const {
    const auto ahead = static_cast<double>(stages - 1);
    return ahead / (static_cast<double>(chunks * micro_batches * times_micro_batches) + ahead);
  }
};

/// Where it is not known who waited for which message: the stages' time inside calls that receive, and their waiting in
/// collectives, in the steady steps whose events were kept. A receive that takes longer than the message does began
/// before it: what the shortest send of as many bytes took is not waiting. Of other messages their time under way
/// counts too, so that it is an upper bound.
double receiving_share(const FindingInput& input) {
  Query row(
      input.db,
      "WITH staged AS MATERIALIZED (SELECT l.process, t.duration_ns FROM pipeline l JOIN process p ON p.id = l.process JOIN steady_part"
      " t ON t.world = p.world AND t.rank = p.rank WHERE p.world = ?1 AND t.comm_ns IS NOT NULL),"
      " calls AS MATERIALIZED (SELECT e.id, e.bytes, e.duration_ns, o.class FROM (SELECT DISTINCT process FROM staged) s CROSS JOIN event e ON"
      " e.process = s.process AND e.kind = 1 JOIN op o ON o.id = e.op"
      " WHERE EXISTS (SELECT 1 FROM steady_number n WHERE n.world = ?1 AND n.step = e.step)),"
      " shortest AS MATERIALIZED (SELECT bytes, min(duration_ns) AS ns FROM calls WHERE class = 'send' AND bytes > 0 GROUP BY bytes)"
      " SELECT (SELECT total(CASE WHEN c.class = 'receive' THEN coalesce(w.wait_ns, max(0, c.duration_ns - coalesce(s.ns, 0)))"
      " WHEN c.class IN ('send_receive', 'completion', 'probe') THEN coalesce(w.wait_ns, c.duration_ns) ELSE k.wait_ns END)"
      " FROM calls c LEFT JOIN call_wait w ON w.event = c.id LEFT JOIN shortest s ON s.bytes = c.bytes LEFT JOIN collective k ON k.event = c.id)"
      " / nullif((SELECT total(duration_ns) FROM staged), 0)");
  row.bind(input.world);
  return row.next() ? std::min(1.0, row.real(0)) : 0;
}

/// What twice as many micro-batches of half the size save by the schedule: half of what it takes to fill and drain the
/// pipeline, given what the stages compute for one. The rest of the step (the optimizer, input, sends) stays. Nothing:
/// that is not known, or is that of GPUs.
std::optional<double> saving_of_more_ns(const FindingInput& input) {
  if (read_facts(input.db, input.world).resource != Resource::kThread) return std::nullopt;
  try {
    const models::RunPipeline now = models::run_pipeline(input.db, input.world);
    models::RunPipeline finer = now;
    finer.hop_s /= 2;  // messages carry half
    const models::PassOrder order = now.order.value_or(models::PassOrder::k1F1B);
    return 1e9 * (now.schedule_s(order, now.micro_batches) - finer.schedule_s(order, 2 * now.micro_batches));
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace

DDL_FINDING(pipeline_bubble, kSpeed, "pipeline",
            "a pipeline stands still for longer than its schedule asks, or has too few micro-batches",
            "bubble measured and of the schedule (metrics B5, B1)") {
  Query row(
      input.db,
      "SELECT max(l.stages), min(l.micro_batches), max(l.chunks), count(DISTINCT l.first) FROM pipeline l JOIN process p"
      " ON p.id = l.process WHERE p.world = ?");
  row.bind(input.world);
  if (!row.next() || row.is_null(0)) return {};
  const Shape shape{row.integer(0), row.integer(1), row.integer(2), row.integer(3)};
  const std::optional<double> known = models::metric_of(input.db, input.world, "bubble");
  const double model = models::metric_of(input.db, input.world, "bubble_model").value_or(0);
  // What computes stays: with twice the micro-batches the schedule asks for half of the waiting that it asks for now,
  // and what is beyond the schedule makes 1 - bubble of the step 1 - B1 of a shorter one.
  const auto step_ns = static_cast<double>(input.step_ns);
  const std::optional<double> more_ns = saving_of_more_ns(input);
  const double by_schedule = more_ns && step_ns > 0 ? *more_ns / step_ns : shape.bubble(1) / 2;
  const auto by_more = [&](double bubble) { return std::min(bubble / 2, by_schedule); };
  const auto beyond_model = [&](double bubble) { return 1 - (1 - bubble) / (1 - model); };
  const auto saving_of = [&](double bubble) { return std::max({0.0, beyond_model(bubble), by_more(bubble)}); };
  // Where a stage left no record, a part of its neighbours' waiting is not known.
  const bool at_most = !known || (input.bounded && saving_of(*known) < kBubbleMinSavingShare);
  const double measured = at_most ? receiving_share(input) : *known;
  const double saving = saving_of(measured);
  if (saving < kBubbleMinSavingShare * (at_most ? kClearBound : 1)) return {};

  const bool beyond = beyond_model(measured) >= by_more(measured);
  Finding finding;
  finding.saving_ns = static_cast<int64_t>(saving * step_ns);
  finding.confidence = beyond && !at_most ? "likely" : "maybe";
  finding.at_most = at_most && (beyond || !more_ns);  // what the schedule asks for is known without who waited
  const std::string stands_still = fmt::format("the pipeline stands still for {}{} of the step",
                                               at_most         ? "at most "
                                               : input.bounded ? "at least "
                                                               : "",
                                               percent_text(measured));
  finding.sentence = beyond ? fmt::format("{}, its schedule asks for {}", stands_still, percent_text(model))
                            : fmt::format("{} micro-batches are too few for {} stages: {}", shape.micro_batches,
                                          shape.stages, stands_still);
  finding.evidence = fmt::format(
      "{} stages, {} micro-batches{}{}: (p - 1) / (v m + p - 1) is {} of the total time; with {} micro-batches it would be {}.",
      shape.stages, shape.micro_batches,
      shape.chunks > 1 ? fmt::format(", {} chunks on each device", shape.chunks) : "",
      shape.pipelines > 1 ? fmt::format(", {} pipelines", shape.pipelines) : "", percent_text(model),
      2 * shape.micro_batches, percent_text(shape.bubble(2)));
  if (!known)
    finding.evidence +=
        " The clocks of its hosts are not close enough to tell who waited: this is the time inside calls that receive.";
  else if (at_most)
    finding.evidence += fmt::format(" Who waited for {}, is not known: this is the time inside calls that receive.",
                                    missing_text(input));
  finding.evidence_sql = fmt::format(
      "SELECT l.pipeline, l.stage, s.rank, avg(s.compute_ns) AS compute_ns, avg(s.bubble_ns) AS bubble_ns, avg(s.duration_ns) AS "
      "duration_ns"
      " FROM v_step s JOIN v_pipeline l ON l.world = s.world AND l.rank = s.rank WHERE s.world = {} AND s.measured GROUP BY l.pipeline, l.stage ORDER BY "
      "1, 2",
      input.world);
  finding.advice =
      beyond
          ? "even the stages out (ddl model partition), post receives early so that transfers overlap computing, and keep the "
            "pipeline full from the first micro-batch to the last of a step"
          : "split the batch into more micro-batches (ddl model pipeline says what that does), or put several chunks of the "
            "model on each device (interleaved 1F1B)";
  return {finding};
}

}  // namespace ddl
