// ddl model fusion, ddl model microbatch.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "analyzer/csv_table.h"
#include "analyzer/models/microbatch.h"
#include "analyzer/models/run_facts.h"
#include "cli/model.h"
#include "core/error.h"

namespace ddl::cli {
namespace {

using reports::Unit;
using reports::Value;

constexpr const char* kTensorsHelp = "columns bytes_fp32 (or bytes) in the order of the forward pass; ready_ms if known";

models::StepGradients gradients_of(const std::string& file, double forward_s, double backward_s) {
  const CsvTable table = CsvTable::read(file);
  const std::string column = table.has("bytes") ? "bytes" : "bytes_fp32";
  models::StepGradients step;
  step.compute_s = forward_s + backward_s;
  const double n = static_cast<double>(table.rows());
  for (size_t r = table.rows(); r-- > 0;) {
    const double done = static_cast<double>(step.gradients.size() + 1) / n;
    const double ready = table.has("ready_ms") ? table.number(r, "ready_ms") * 1e-3 : forward_s + backward_s * done;
    step.gradients.push_back({std::llround(table.number(r, column)), ready});
  }
  return step;
}

}  // namespace

int model_fusion(const std::vector<std::string>& arguments) {
  VerbOptions options =
      model_options("fusion", "[RUN] [options]",
                    "Gradients collected into buckets up to a threshold, allreduced one after the other: behind the computing, or blocking "
                    "it. With RUN: the\n"
                    "allreduces of a step in their order, when its computing had come to them, and its fitted latency and bandwidth.");
  options.add()("thresholds", takes<std::string>("N,...", "0,1MiB,4MiB,16MiB,25MiB,64MiB,128MiB"), "sizes of buckets")(
      "tensors", takes<std::string>("FILE"), kTensorsHelp)("forward-ms", takes<double>("MS"), "without RUN: of the step")(
      "backward-ms", takes<double>("MS"), "likewise")("ranks", takes<int64_t>("P"), "how many");
  add_link_options(options);
  if (!options.parse(arguments)) return 0;
  const auto run = maybe_run(options);
  if (run && options.has("tensors")) throw Error("either a run or --tensors", "", ExitCode::kUsage);
  models::StepGradients step;
  if (run) {
    step = models::step_gradients(run->view.db, run->view.world);
  } else {
    step = gradients_of(needed(options.maybe<std::string>("tensors"), "tensors", kTensorsHelp),
                        number_option(options, "forward-ms", 0).value_or(0) * 1e-3,
                        needed(number_option(options, "backward-ms", 0), "backward-ms", "how long the gradients take") * 1e-3);
  }
  const auto typed_ranks = count_option(options, "ranks");
  const int64_t ranks = needed(typed_ranks || !run ? typed_ranks : std::optional(step.ranks), "ranks", "e.g. --ranks 16");
  Answer answer("fusion");
  int64_t bytes = 0;
  for (const models::Gradient& gradient : step.gradients) bytes += gradient.bytes;
  answer.given("tensors", run ? "allreduces" : "tensors", Value::count(static_cast<int64_t>(step.gradients.size())));
  answer.given("bytes", "in all", Value::bytes(bytes));
  answer.given("compute_ns", "computing", seconds_value(step.compute_s),
               run ? fmt::format("(rank {}, step {})", step.rank, step.step) : "");
  if (run) answer.given("measured_ns", "step", seconds_value(step.measured_s), "as recorded");
  answer.given("ranks", "ranks", Value::count(ranks));
  const models::Link link = link_of(options, run.get(), answer);
  const models::Algorithm algorithm = algorithm_option(options);
  const auto seconds = [&](int64_t size) { return allreduce_seconds(algorithm, ranks, static_cast<double>(size), link); };
  auto& table = answer.table("fusion", fmt::format("Buckets, {} allreduce", name_of(algorithm)),
                             {{"threshold_bytes", "threshold", Unit::kBytes},
                              {"buckets", "buckets", Unit::kCount},
                              {"comm_ns", "communication", Unit::kDuration},
                              {"exposed_ns", "exposed", Unit::kDuration},
                              {"overlapped_step_ns", "step, overlapped", Unit::kDuration},
                              {"blocking_step_ns", "step, blocking", Unit::kDuration}});
  for (const int64_t threshold : parse_bytes_list(options.get<std::string>("thresholds"))) {
    const auto buckets = models::fuse(step.gradients, threshold);
    const models::FusedStep hidden = models::schedule(buckets, step.compute_s, seconds, true);
    const models::FusedStep blocking = models::schedule(buckets, step.compute_s, seconds, false);
    table.rows.push_back({Value::bytes(threshold), Value::count(static_cast<int64_t>(buckets.size())), seconds_value(hidden.comm_s),
                          seconds_value(hidden.exposed_s), seconds_value(hidden.step_s), seconds_value(blocking.step_s)});
  }
  answer.note("Copying into buckets, and computing that slows down while data move, are not in it; waiting for late ranks neither.");
  return answer.print(options);
}

int model_microbatch(const std::vector<std::string>& arguments) {
  VerbOptions options = model_options("microbatch", "--csv FILE --batch B [options]",
                                      "Cuts a batch into micro-batches whose kernels fit a workspace (mu-cuDNN): the fastest way for each "
                                      "workspace, by dynamic programming. Of\n"
                                      "several layers with --workspace in all, one choice each, by knapsack.");
  options.add()("csv", takes<std::string>("FILE"), "columns micro_batch, time_ms, workspace_bytes, and if wanted kernel, layer")(
      "batch", takes<int64_t>("B"), "samples in all")("workspace", takes<std::string>("N"), "limit, of all layers together");
  options.allow_words(0);
  if (!options.parse(arguments)) return 0;
  const CsvTable csv = CsvTable::read(needed(options.maybe<std::string>("csv"), "csv", "columns micro_batch, time_ms, workspace_bytes"));
  const int64_t batch = needed(count_option(options, "batch"), "batch", "e.g. --batch 256");
  std::vector<std::string> names;
  std::vector<std::vector<models::Kernel>> kernels;
  for (size_t r = 0; r < csv.rows(); ++r) {
    const std::string layer = csv.has("layer") ? csv.text(r, "layer") : "";
    const size_t l = static_cast<size_t>(std::find(names.begin(), names.end(), layer) - names.begin());
    if (l == names.size()) names.push_back(layer), kernels.emplace_back();
    const double micro = csv.number(r, "micro_batch"), time = csv.number(r, "time_ms"), workspace = csv.number(r, "workspace_bytes");
    if (micro < 1 || micro > 1e9 || micro != std::floor(micro) || time < 0 || workspace < 0 || workspace > 1e18)
      throw Error(fmt::format("row {}: micro_batch is a count, time_ms and workspace_bytes are not negative", r + 1), "", ExitCode::kUsage);
    kernels[l].push_back({static_cast<int64_t>(micro), time, std::llround(workspace), csv.has("kernel") ? csv.text(r, "kernel") : ""});
  }
  Answer answer("microbatch");
  answer.given("batch", "batch", Value::count(batch));
  const auto limit = options.has("workspace") ? std::optional(parse_bytes(options.get<std::string>("workspace"))) : std::nullopt;
  if (limit) answer.given("workspace_bytes", "workspace", Value::bytes(*limit));
  std::vector<std::vector<models::MicroBatching>> fronts;
  for (const auto& layer : kernels) fronts.push_back(models::micro_batching_front(layer, batch));
  for (size_t l = 0; l < fronts.size(); ++l)
    if (fronts[l].empty())
      throw Error(fmt::format("no micro-batches of {} add up to {}", names[l].empty() ? "these" : names[l], batch), "",
                  ExitCode::kDataMissing);
  std::optional<std::vector<size_t>> choice;
  if (limit) {
    choice = models::choose_fronts(fronts, *limit);
    if (!choice) throw Error("nothing fits this workspace", "see what it takes without --workspace", ExitCode::kDataMissing);
  }
  auto& table = answer.table("microbatch", choice ? "The fastest that fits" : "Nothing is faster with as little workspace",
                             {{"layer", "layer", Unit::kText, names.size() > 1 ? 9 : 0},
                              {"time_ns", "time", Unit::kDuration},
                              {"workspace_bytes", "workspace", Unit::kBytes},
                              {"micro_batches", "micro-batches", Unit::kText}});
  for (size_t l = 0; l < fronts.size(); ++l)
    for (size_t i = 0; i < fronts[l].size(); ++i) {
      if (choice && (*choice)[l] != i) continue;
      const models::MicroBatching& one = fronts[l][i];
      std::string parts;
      for (const auto& [kernel, times] : one.kernels) {
        const models::Kernel& k = kernels[l][kernel];
        parts += fmt::format("{}{} x {}{}{}", parts.empty() ? "" : " + ", times, k.micro_batch, k.name.empty() ? "" : " ", k.name);
      }
      table.rows.push_back({Value::text(names[l]), seconds_value(one.time * 1e-3), Value::bytes(one.workspace_bytes), Value::text(parts)});
    }
  return answer.print(options);
}

}  // namespace ddl::cli
