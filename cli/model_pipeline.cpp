// ddl model pipeline: what micro-batches do to the bubble.
#include <fmt/format.h>

#include "analyzer/models/pipeline.h"
#include "analyzer/models/run_facts.h"
#include "cli/model.h"
#include "core/error.h"

namespace ddl::cli {
namespace {

using reports::Unit;
using reports::Value;

double mean_of(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

// Every rank is a stage; its computing per step is cut into micro-batches.
double step_of(std::vector<double> stage_s, int64_t micro_batches) {
  for (double& s : stage_s) s /= static_cast<double>(micro_batches);
  return models::gpipe_seconds(stage_s, std::vector<double>(stage_s.size(), 0), micro_batches);
}

}  // namespace

int model_pipeline(const std::vector<std::string>& arguments) {
  VerbOptions options = model_options("pipeline", "[RUN] --micro-batches M,... [options]",
                                      "Idle share of a pipeline by number of micro-batches: GPipe and 1F1B, interleaved with --chunks, and "
                                      "the zero-bubble schedules if the\n"
                                      "times of a micro-batch are given. With RUN every rank is a stage: its computing per step, cut into "
                                      "micro-batches, and what the step took\n"
                                      "with the --now micro-batches it had.");
  options.add()("micro-batches,m", takes<std::string>("M,..."), "how many")("stages,p", takes<int64_t>("P"), "devices in a row")(
      "chunks", takes<int64_t>("V", 1), "interleaved: chunks of the model on each device; M is then a multiple of P")(
      "now", takes<int64_t>("M"), "micro-batches of the run")("forward-ms", takes<double>("MS"), "of a micro-batch on a stage")(
      "backward-ms", takes<double>("MS"), "likewise, for the gradient of its input")("weight-ms", takes<double>("MS"),
                                                                                     "likewise, for the gradient of its weights");
  if (!options.parse(arguments)) return 0;
  const auto counts = parse_counts(needed(options.maybe<std::string>("micro-batches"), "micro-batches", "e.g. --micro-batches 4,8,16"));
  const int64_t chunks = *count_option(options, "chunks");
  Answer answer("pipeline");
  const auto run = maybe_run(options);
  if (run) {
    const int64_t now = needed(count_option(options, "now"), "now", "how many micro-batches the run had");
    std::vector<double> stages;
    for (const models::RankStep& rank : models::rank_steps(run->view.db, run->view.world)) stages.push_back(rank.compute_s);
    const double busy = mean_of(stages);
    const double measured = models::metric_of(run->view.db, run->view.world, "step_time").value_or(0) * 1e-9;
    if (busy <= 0 || measured <= 0) throw Error("the ranks of this run do not compute", "", ExitCode::kDataMissing);
    const double rest = measured - step_of(stages, now);
    answer.given("stages", "stages", Value::count(static_cast<int64_t>(stages.size())), "(ranks)");
    answer.given("step_ns", "step", seconds_value(measured), fmt::format("with {} micro-batches", now));
    answer.given("idle_ratio", "not computing", Value::ratio(1 - busy / measured));
    answer.given("rest_ns", "beyond the schedule", seconds_value(rest));
    auto& table = answer.table("pipeline", "What the step would take",
                               {{"micro_batches", "micro-batches", Unit::kCount},
                                {"bubble_of_total_ratio", "even stages' bubble", Unit::kRatio},
                                {"schedule_ns", "schedule", Unit::kDuration},
                                {"step_ns", "step", Unit::kDuration},
                                {"idle_ratio", "not computing", Unit::kRatio},
                                {"speedup", "speed-up", Unit::kNumber}});
    for (const int64_t m : counts) {
      const double schedule = step_of(stages, m), step = schedule + rest;
      table.rows.push_back({Value::count(m), Value::ratio(models::pipeline_bubble(static_cast<int64_t>(stages.size()), m).of_total),
                            seconds_value(schedule), seconds_value(step), Value::ratio(1 - busy / step), Value::number(measured / step)});
    }
    answer.note(
        "What the step took beyond the schedule (transfers, waiting, negative if it overlapped more) stays as it is; a stage's computing "
        "divides evenly, though small micro-batches are less efficient.");
    if (chunks != 1) throw Error("--chunks is for numbers, not for a run", "leave RUN or --chunks out", ExitCode::kUsage);
    return answer.print(options);
  }
  const int64_t stages = needed(count_option(options, "stages"), "stages", "or a recorded run, whose ranks are the stages");
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
      throw Error(fmt::format("{} micro-batches on {} stages", m, stages), "interleaving needs a multiple of the stages", ExitCode::kUsage);
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
  answer.note("Of the total: GPipe's (p-1)/(m+p-1). Of the ideal: Megatron's (p-1)/m. Equal stages, free transfers.");
  return answer.print(options);
}

}  // namespace ddl::cli
