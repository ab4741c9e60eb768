#include "analyzer/analyze.h"

#include <SQLiteCpp/Transaction.h>
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "analyzer/findings/finding.h"
#include "analyzer/metrics/metrics.h"
#include "analyzer/passes/axes.h"
#include "analyzer/passes/background.h"
#include "analyzer/passes/catalog.h"
#include "analyzer/passes/gradient_noise.h"
#include "analyzer/passes/input_ranges.h"
#include "analyzer/passes/late_completion.h"
#include "analyzer/passes/layer_totals.h"
#include "analyzer/passes/passes.h"
#include "analyzer/passes/steady_steps.h"
#include "analyzer/passes/straggler_scores.h"
#include "analyzer/passes/waited_for.h"
#include "analyzer/query.h"
#include "analyzer/tables.h"
#include "analyzer/verdict.h"

namespace ddl {
namespace {

struct AnalysisLoss {
  const char* kind;
  const char* note;
};
constexpr AnalysisLoss kPartial{
    "partial_collectives",
    "collectives of which not all members were recorded: their waiting is not known, or only what it is at least"};
constexpr AnalysisLoss kMismatched{"mismatched_collectives", "collectives whose members called different operations"};
constexpr AnalysisLoss kViolations{
    "clock_violations", "calls that ended before the last member entered: the clocks disagree, waits were clipped"};
constexpr AnalysisLoss kUnmatched{
    "unmatched_messages", "sends and receives whose other end cannot be told for sure: their waiting is not known"};
constexpr AnalysisLoss kBadIntervals{"bad_intervals", "events that end before they begin: counted as taking no time"};
constexpr AnalysisLoss kLongSteps{"long_steps",
                                  "steps with more than a million activities of GPUs: they have no critical path"};
constexpr AnalysisLoss kRepeated{
    "repeated_steps",
    "steps whose number the same process had used before: left out of the statistics, as what lies in them"};

void clear(SQLite::Database& db) {
  for (const char* table : {"communicator_axis", "collective", "blame", "message", "message_blame", "message_part",
                            "step_part", "rank_part", "gpu_part", "gpu_layer_part", "hta_part", "pipeline",
                            "collective_group", "metric", "rank_metric", "finding"}) {
    db.exec(fmt::format("DELETE FROM {}", table));
  }
  for (const AnalysisLoss& loss :
       {kPartial, kMismatched, kUnmatched, kViolations, kBadIntervals, kLongSteps, kRepeated}) {
    Query(db, "DELETE FROM loss WHERE kind = ?").run(loss.kind);
  }
  make_tables(db);
  db.exec(
      "DELETE FROM meta WHERE key = 'verdict' OR key LIKE 'verdict.%' OR (key LIKE 'analysis.%' AND key <> 'analysis.tables')");
}

void book(SQLite::Database& db, const AnalysisLoss& loss, int64_t count, std::optional<int64_t> world = {}) {
  if (count > 0)
    Query(db, "INSERT INTO loss (world, kind, count, note) VALUES (?, ?, ?, ?)")
        .run(world, loss.kind, count, loss.note);
}

void store_steady_steps(SQLite::Database& db, const std::map<int64_t, SteadySteps>& steady) {
  Query insert(db, "INSERT INTO meta (key, value) VALUES (?, ?)");
  for (const auto& [world, steps] : steady) {
    const std::string suffix = world == 0 ? "" : fmt::format(".{}", world);
    insert.run("analysis.basis" + suffix, steps.inferred ? "inferred steps" : steps.annotated ? "steps" : "run");
    insert.run("analysis.steps_used" + suffix, fmt::format("{}", steps.used));
    insert.run("analysis.steps_warmup" + suffix, fmt::format("{}", steps.warmup));
    insert.run("analysis.steps_incomplete" + suffix, fmt::format("{}", steps.incomplete));
  }
  insert.run("analysis.version", analysis_version());
}

}  // namespace

bool is_analyzed(SQLite::Database& db) {
  Query version(db, "SELECT value FROM meta WHERE key = 'analysis.version'");
  return version.next() && version.text(0) == analysis_version();
}

void analyze(SQLite::Database& db, const AnalyzeProgress& progress, unsigned threads) {
  const auto tell = [&](std::string_view what, double done) {
    if (progress) progress(what, done);
  };
  auto transaction = std::make_unique<SQLite::Transaction>(db);
  // Other connections see what is committed.
  const auto let_others_read = [&] {
    if (threads > 1) std::exchange(transaction, nullptr)->commit();
  };
  const auto write_on = [&] {
    if (!transaction) transaction = std::make_unique<SQLite::Transaction>(db);
  };
  clear(db);
  const Catalog catalog(db);
  tell("looking for steps", 0.0);
  forget_inferred_steps(db);
  const std::map<int64_t, BackgroundProcess> background = find_background(db, catalog);
  infer_steps(db, catalog, background);

  name_axes(db, catalog);
  find_hangs(db, catalog);

  // Shares of the whole as measured on a run of two million events, half of them of messages.
  tell("splitting collectives", 0.0);
  let_others_read();
  InstanceEvents events(db, InstanceEvents::kHeld, threads);
  const CollectiveLosses collectives = analyze_collectives(
      db, catalog, events, [&](double done) { tell("splitting collectives", 0.35 * done); }, threads);
  write_on();
  book(db, kPartial, collectives.partial);
  book(db, kMismatched, collectives.mismatched);
  tell("matching messages", 0.35);
  const MessageLosses messages =
      analyze_messages(db, catalog, [&](double done) { tell("matching messages", 0.35 + 0.35 * done); });
  book(db, kUnmatched, messages.unmatched);
  std::map<int64_t, int64_t> violations = collectives.clock_violations;
  for (const auto& [world, count] : messages.clock_violations) violations[world] += count;
  for (const auto& [world, count] : violations) book(db, kViolations, count, world);
  book(db, kBadIntervals, collectives.bad_intervals);

  find_late_completions(db, catalog);
  analyze_negotiations(db, catalog, background);
  find_late_roots(db);

  tell("cutting steps", 0.7);
  let_others_read();
  InputRanges inputs(db);
  StepResults steps = analyze_steps(
      db, catalog, background, events, inputs, [&](double done) { tell("cutting steps", 0.7 + 0.15 * done); }, threads);
  events.forget();
  write_on();
  book(db, kRepeated, steps.repeated_steps);
  tell("cutting steps of GPUs", 0.85);
  book(db, kLongSteps,
       analyze_devices(db, catalog, [&](double done) { tell("cutting steps of GPUs", 0.85 + 0.05 * done); }));
  analyze_hta(db);
  const std::map<int64_t, SteadySteps> steady = select_steady_steps(db, catalog);
  store_steady_steps(db, steady);
  sum_job_windows(db, catalog);
  select_steady_devices(db);
  select_resources(db);
  sum_host_calls(db);
  const auto on_device = [](const auto& operation) { return operation.second.on_device; };
  if (std::any_of(catalog.operations.begin(), catalog.operations.end(), on_device))
    steps.waits.add(read_region_waits(db, true));
  sum_layers(db, std::move(steps.waits));
  sum_kernel_classes(db);
  select_steady_waits(db);
  find_waited_for(db);
  analyze_gradient_noise(db);
  std::map<int64_t, LayerSpreads> layers = score_sections(db);
  find_step_changes(db);
  gather_metric_inputs(db);

  tell("computing metrics", 0.9);
  let_others_read();
  for (const auto& [world, used] : steady) compute_metrics(db, world, threads);
  tell("looking for findings", 0.95);
  const std::map<int64_t, std::string> doubts = store_findings(db, catalog, steady, inputs, std::move(layers), threads);
  write_on();
  for (const auto& [world, used] : steady) store_verdict(db, world, doubts.contains(world) ? doubts.at(world) : "");
  transaction->commit();
  tell("done", 1.0);
}

}  // namespace ddl
