// ddl model pipeline: what micro-batches do to the bubble.
#include <fmt/format.h>

#include <optional>

#include "analyzer/models/pipeline.h"
#include "analyzer/models/run_facts.h"
#include "analyzer/models/run_pipeline.h"
#include "cli/model.h"
#include "core/error.h"

namespace ddl::cli {
namespace {

using reports::Unit;
using reports::Value;

const char* name_of(models::PassOrder order) { return order == models::PassOrder::kGpipe ? "gpipe" : "1f1b"; }

std::optional<models::StatedPipeline> stated_pipeline(const VerbOptions& options) {
  const auto stages = count_option(options, "stages"), now = count_option(options, "now");
  if (!stages && !now) return std::nullopt;
  if (!stages || !now)
    throw Error("--stages and --now describe the pipeline of RUN together",
                "give both, or neither to have it recognised", ExitCode::kUsage);
  return models::StatedPipeline{*stages, *now};
}

void add_recorded_stages(Answer& answer, const models::RunPipeline& pipeline) {
  auto& table = answer.table("stages", "Computing of each stage in a step, mean over its replicas",
                             {{"stage", "stage", Unit::kCount},
                              {"forward_ns", pipeline.phases ? "forward" : "all", Unit::kDuration},
                              {"backward_ns", "backward", Unit::kDuration},
                              {"other_ns", "update, others", Unit::kDuration}});
  const auto told = [&](double seconds) {
    return pipeline.phases ? seconds_value(seconds) : Value::absent(Unit::kDuration, "NO_DATA");
  };
  for (size_t i = 0; i < pipeline.stages.size(); ++i) {
    const models::RecordedStage& stage = pipeline.stages[i];
    table.rows.push_back({Value::count(static_cast<int64_t>(i)), seconds_value(stage.forward_s), told(stage.backward_s),
                          told(stage.other_s)});
  }
  if (!pipeline.phases)
    table.note = "The run names no phases forward and backward: all computing is taken to be that of micro-batches.";
}

int pipeline_of_run(const VerbOptions& options, ModelRun& run, const std::vector<int64_t>& counts, Answer& answer) {
  const models::RunPipeline pipeline = models::run_pipeline(run.view.db, run.view.world, stated_pipeline(options));
  const auto measured_ns = models::metric_of(run.view.db, run.view.world, "step_time");
  if (!measured_ns)
    throw Error("the run has no step time", "ddl analyze --metric step_time says why", ExitCode::kDataMissing);
  const double measured_s = *measured_ns * 1e-9;
  const auto typed = options.maybe<std::string>("schedule");
  const models::PassOrder order = typed ? (*typed == "gpipe" ? models::PassOrder::kGpipe : models::PassOrder::k1F1B)
                                        : pipeline.order.value_or(models::PassOrder::kGpipe);
  const int64_t stages = static_cast<int64_t>(pipeline.stages.size());
  const double now_s = pipeline.schedule_s(order, pipeline.micro_batches), rest_s = measured_s - now_s;
  double busy_s = 0;
  for (const models::RecordedStage& stage : pipeline.stages) busy_s += stage.compute_s() / static_cast<double>(stages);

  answer.given("stages", "stages", Value::count(stages));
  answer.given("replicas", "replicas", Value::count(pipeline.replicas));
  answer.given("micro_batches", "micro-batches", Value::count(pipeline.micro_batches));
  if (pipeline.chunks > 1) answer.given("chunks", "chunks", Value::count(pipeline.chunks));
  answer.given("schedule", "schedule", Value::text(pipeline.chunks > 1 ? "interleaved 1f1b" : name_of(order)),
               typed            ? ""
               : pipeline.order ? "(of the run)"
                                : "(taken for it: the run does not tell)");
  answer.given("step_ns", "step", seconds_value(measured_s), "as recorded");
  answer.given("idle_ratio", "not computing", Value::ratio(1 - busy_s / measured_s));
  answer.given("hop_ns", "message", seconds_value(pipeline.hop_s),
               pipeline.messages > 0 ? fmt::format("(median of {} that were waited for)", pipeline.messages)
                                     : "(none was waited for)");
  answer.given("rest_ns", "beyond the schedule", seconds_value(rest_s));
  auto& table = answer.table("pipeline", "What the step would take",
                             {{"micro_batches", "micro-batches", Unit::kCount},
                              {"bubble_of_total_ratio", "even stages' bubble", Unit::kRatio},
                              {"schedule_ns", "schedule", Unit::kDuration},
                              {"step_ns", "step", Unit::kDuration},
                              {"idle_ratio", "not computing", Unit::kRatio},
                              {"speedup", "speed-up", Unit::kNumber}});
  for (const int64_t m : counts) {
    if (pipeline.chunks > 1 && m % stages != 0)
      throw Error(fmt::format("{} micro-batches are not a multiple of {} stages", m, stages),
                  "interleaving (--chunks) needs one", ExitCode::kUsage);
    const double schedule_s = pipeline.schedule_s(order, m), step_s = schedule_s + rest_s;
    if (step_s < pipeline.slowest_stage_s())
      throw Error(
          fmt::format(
              "with {} micro-batches the step would be {:.4g} ms, but one stage alone computes {:.4g} ms: the recorded step of "
              "{:.4g} ms is not a pipeline of {} stages and {} micro-batches",
              m, 1e3 * step_s, 1e3 * pipeline.slowest_stage_s(), 1e3 * measured_s, stages, pipeline.micro_batches),
          "are --stages, --now and --schedule those of the run? without them they are recognised",
          ExitCode::kDataMissing);
    table.rows.push_back({Value::count(m), Value::ratio(models::pipeline_bubble(stages, m, pipeline.chunks).of_total),
                          seconds_value(schedule_s), seconds_value(step_s), Value::ratio(1 - busy_s / step_s),
                          Value::number(measured_s / step_s)});
  }
  add_recorded_stages(answer, pipeline);
  answer.note(
      "What the step took beyond the schedule (update, sums of gradients, late ranks) stays as it is; a stage's computing divides evenly, though "
      "small micro-batches are less efficient, and a message takes what it does now.");
  return answer.print(options);
}

}  // namespace

int model_pipeline(const std::vector<std::string>& arguments) {
  VerbOptions options = model_options(
      "pipeline", "[RUN] --micro-batches M,... [options]",
      "Idle share of a pipeline by number of micro-batches: GPipe, 1F1B, interleaved with --chunks, zero-bubble schedules if times are given. "
      "With RUN: its stages, replicas, micro-batches and times as recorded; the schedule is played through with other micro-batches.");
  options.add()("micro-batches,m", takes<std::string>("M,..."), "how many")(
      "stages,p", takes<int64_t>("P"),
      "devices in a row; of a run, with --now, where it was not recognised: rank r is stage r modulo P")(
      "chunks", takes<int64_t>("V", 1), "interleaved: chunks of the model on each device; M is then a multiple of P")(
      "now", takes<int64_t>("M"), "with --stages: micro-batches of the run")(
      "schedule", takes<std::string>("NAME"), "of a run that does not tell: gpipe (else taken for it) or 1f1b")(
      "forward-ms", takes<double>("MS"), "of a micro-batch on a stage")("backward-ms", takes<double>("MS"),
                                                                        "likewise, for the gradient of its input")(
      "weight-ms", takes<double>("MS"), "likewise, for the gradient of its weights");
  options.one_of("schedule", {"gpipe", "1f1b"});
  if (!options.parse(arguments)) return 0;
  const auto counts =
      parse_counts(needed(options.maybe<std::string>("micro-batches"), "micro-batches", "e.g. --micro-batches 4,8,16"));
  const int64_t chunks = *count_option(options, "chunks");
  Answer answer("pipeline");
  if (const auto run = maybe_run(options)) {
    if (chunks != 1) throw Error("--chunks excludes RUN", "leave it out: the run has its own", ExitCode::kUsage);
    return pipeline_of_run(options, *run, counts, answer);
  }
  if (options.has("now") || options.has("schedule"))
    throw Error("--now and --schedule describe a recorded run", "name the run, or leave them out", ExitCode::kUsage);
  const int64_t stages = needed(count_option(options, "stages"), "stages", "or a recorded run, which tells them");
  answer.given("stages", "stages", Value::count(stages));
  if (chunks > 1) answer.given("chunks", "chunks", Value::count(chunks));
  const bool timed = options.has("forward-ms") || options.has("backward-ms") || options.has("weight-ms");
  std::vector<reports::Column> columns = {{"micro_batches", "micro-batches", Unit::kCount},
                                          {"bubble_of_total_ratio", "of the total", Unit::kRatio},
                                          {"bubble_of_ideal_ratio", "of the ideal", Unit::kRatio}};
  models::StageTimes times;
  if (timed) {
    const auto ms = [&](const char* name) { return number_option(options, name, 0).value_or(0) * 1e-3; };
    times = {ms("forward-ms"), ms("backward-ms"), ms("weight-ms")};
    columns.push_back({"ideal_ns", "ideal step", Unit::kDuration});
    columns.push_back({"bubble_ns", "bubble", Unit::kDuration});
    columns.push_back({"zb_h1_bubble_ns", "ZB-H1", Unit::kDuration});
    columns.push_back({"zb_h2_bubble_ns", "ZB-H2", Unit::kDuration});
  }
  auto& table = answer.table("pipeline", chunks > 1 ? "Bubble, interleaved 1F1B" : "Bubble, GPipe and 1F1B", columns);
  for (const int64_t m : counts) {
    if (chunks > 1 && m % stages != 0)
      throw Error(fmt::format("{} micro-batches are not a multiple of {} stages", m, stages),
                  "interleaving (--chunks) needs one", ExitCode::kUsage);
    const models::Bubble bubble = models::pipeline_bubble(stages, m, chunks);
    std::vector<Value> row = {Value::count(m), Value::ratio(bubble.of_total), Value::ratio(bubble.of_ideal)};
    if (timed) {
      const double ideal = static_cast<double>(m) * (times.forward_s + times.backward_s + times.weight_s);
      row.push_back(seconds_value(ideal));
      row.push_back(seconds_value(ideal * bubble.of_ideal));
      row.push_back(seconds_value(bubble_seconds(models::Schedule::kZeroBubbleH1, stages, times)));
      row.push_back(seconds_value(bubble_seconds(models::Schedule::kZeroBubbleH2, stages, times)));
    }
    table.rows.push_back(std::move(row));
  }
  answer.note(
      "Share of the total: GPipe's (p-1)/(m+p-1); of the ideal: Megatron's (p-1)/m. Equal stages, free transfers.");
  return answer.print(options);
}

}  // namespace ddl::cli
