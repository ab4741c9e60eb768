// ddl model fusion, ddl model microbatch.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>

#include "analyzer/csv_table.h"
#include "analyzer/models/microbatch.h"
#include "analyzer/models/run_facts.h"
#include "analyzer/models/step_gradients.h"
#include "autotuner/predict.h"
#include "autotuner/sweep.h"
#include "cli/model.h"
#include "cli/model_layers.h"
#include "core/error.h"
#include "core/regular_file.h"

namespace ddl::cli {
namespace {

using reports::Unit;
using reports::Value;

constexpr const char* kTensorsHelp = "columns bytes_fp32 (or bytes) and, if known, ready_ms; forward order";
constexpr const char* kCostHint =
    "--sweep FILE has what `mpirun ... allreduce` or a CSV with columns bytes, time_us says; or record with buckets of four sizes or more; or give "
    "--alpha-us and --bandwidth";

/// A fitted line that is further off at one size is not used where the times themselves are there.
constexpr double kFitHolds = 0.1;
constexpr size_t kCurveMinSizes = 3;
/// A library that moves data beside computing posts in microseconds, however many bytes: this share of all time in
/// calls shows one that does not.
constexpr double kPostingMoves = 0.2;

models::StepGradients gradients_of(const std::string& file, double forward_s, double backward_s) {
  const CsvTable table = CsvTable::read(file);
  const std::string column = table.has("bytes") ? "bytes" : "bytes_fp32";
  models::StepGradients step;
  step.compute_s = forward_s + backward_s;
  const double n = static_cast<double>(table.rows());
  constexpr double kMostBytes = 1e15;  // of a tensor
  for (size_t r = table.rows(); r-- > 0;) {
    const double bytes = table.number(r, column);
    if (!(bytes >= 0 && bytes <= kMostBytes))
      throw Error(fmt::format("{}: {} of row {} is out of range", file, column, r + 1),
                  fmt::format("give 0 to {:g} bytes", kMostBytes), ExitCode::kDataMissing);
    const double done = static_cast<double>(step.gradients.size() + 1) / n;
    const double ready = table.has("ready_ms") ? table.number(r, "ready_ms") * 1e-3 : forward_s + backward_s * done;
    step.gradients.push_back({std::llround(bytes), ready});
  }
  return step;
}

/// A layer's gradients are ready when the multiply-adds behind it are done.
models::StepGradients gradients_of(const models::NetworkTable& table, double forward_s, double backward_s) {
  models::StepGradients step;
  step.compute_s = forward_s + backward_s;
  double all = 0, done = 0;
  for (const models::NetworkLayer& layer : table.layers) all += layer.macs;
  if (!(all > 0))
    throw Error(fmt::format("the layers of {} compute nothing", table.name),
                "give fwd_macs_per_sample above 0 for at least one layer", ExitCode::kUsage);
  for (auto layer = table.layers.rbegin(); layer != table.layers.rend(); ++layer) {
    done += layer->macs;
    if (layer->parameters > 0)
      step.gradients.push_back({std::llround(4 * layer->parameters), forward_s + backward_s * done / all});
  }
  return step;
}

/// What an allreduce of so many bytes takes.
struct AllreduceCost {
  std::function<double(int64_t bytes)> seconds;
  std::string name;
};

tune::Curve curve_of_file(const std::string& file, int64_t ranks) {
  std::string text;
  try {
    text = read_regular_file(file, NamedBy::kUser);
  } catch (const Error& error) {
    throw Error(error.what(), kCostHint, ExitCode::kUsage);
  }
  if (text.starts_with("# allreduce")) {
    const tune::Sweep sweep = tune::read_sweep(text);
    if (sweep.ranks != ranks)
      throw Error(fmt::format("{} holds a sweep of {} ranks, not {}", file, sweep.ranks, ranks),
                  "sweep with as many ranks, or leave --ranks out", ExitCode::kDataMissing);
    return tune::curve_of(sweep, {"default", 0});
  }
  const CsvTable table = CsvTable::parse(text, file);
  tune::Curve curve;
  for (size_t r = 0; r < table.rows(); ++r) {
    const double bytes = table.number(r, "bytes"), time_us = table.number(r, "time_us");
    if (!(bytes > 0) || !(time_us > 0))
      throw Error(fmt::format("{}: row {} has no time or no size", file, r + 1), "bytes and time_us are above 0",
                  ExitCode::kUsage);
    curve.add(bytes, time_us * 1e-6);
  }
  if (curve.empty())
    throw Error(fmt::format("{} has no rows", file), "give rows with columns bytes, time_us", ExitCode::kUsage);
  return curve;
}

/// Of MPI that moves data inside calls only: all its time there, in proportion to the bytes beyond what short ones
/// take.
AllreduceCost inside_calls(const models::StepGradients& step) {
  double bytes = 0;
  for (const models::Gradient& post : step.posted) bytes += static_cast<double>(post.bytes);
  const double per_byte_s = step.exposed_s / bytes;
  return {[per_byte_s](int64_t size) { return per_byte_s * static_cast<double>(size); }, "time inside calls"};
}

/// The line through the run's transfer times, where it holds at every size; else these times themselves.
AllreduceCost blocking_cost(const VerbOptions& options, ModelRun& run, int64_t ranks, Answer& answer,
                            const std::function<AllreduceCost(const models::Link&)>& of_link) {
  tune::Curve curve;
  for (const models::MeasuredCollective& one : models::measured_collectives(run.view.db, run.view.world))
    if (models::collective_of(one.op) == models::Collective::kAllreduce && one.sample.ranks == ranks)
      curve.add(one.sample.bytes, one.sample.transfer_s);
  try {
    const auto reduce = number_option(options, "reduce", 0, true);
    const auto samples = models::samples_of(models::measured_collectives(run.view.db, run.view.world));
    const models::LinkFit fit =
        models::fit_link(samples, algorithm_option(options), reduce ? std::optional(1e-9 / *reduce) : std::nullopt);
    if (fit.worst_residual <= kFitHolds || curve.points().size() < kCurveMinSizes)
      return of_link(link_of(options, &run, answer));
  } catch (const Error& error) {
    if (error.code() != ExitCode::kDataMissing) throw;
    if (curve.points().size() < kCurveMinSizes) throw Error(error.what(), kCostHint, error.code());
  }
  answer.given("cost", "allreduces", Value::text(fmt::format("as measured, {} sizes", curve.points().size())));
  return {[curve](int64_t bytes) { return curve.seconds(static_cast<double>(bytes)); }, "measured allreduce"};
}

/// Typed, from a sweep, or from the run: its blocking allreduces, else its non-blocking ones. Says in `answer` which.
AllreduceCost allreduce_cost(const VerbOptions& options, ModelRun* run, const models::StepGradients& step,
                             int64_t ranks, Answer& answer) {
  const models::Algorithm algorithm = algorithm_option(options);
  const auto of_link = [&](const models::Link& link) -> AllreduceCost {
    return {[=](int64_t bytes) { return allreduce_seconds(algorithm, ranks, static_cast<double>(bytes), link); },
            fmt::format("{} allreduce", name_of(algorithm))};
  };
  if (const auto file = options.maybe<std::string>("sweep")) {
    const tune::Curve curve = curve_of_file(*file, ranks);
    answer.given("cost", "allreduces", Value::text(fmt::format("as swept, {} sizes", curve.points().size())));
    return {[curve](int64_t bytes) { return curve.seconds(static_cast<double>(bytes)); }, "swept allreduce"};
  }
  if (run == nullptr || options.has("alpha-us") || options.has("bandwidth"))
    return of_link(link_of(options, run, answer));
  if (!step.nonblocking) return blocking_cost(options, *run, ranks, answer, of_link);
  const auto moved_inside = [&](const char* why) {
    answer.given("cost", "allreduces", Value::text("by bytes, inside calls"));
    answer.note(fmt::format(
        "{}: MPI moves data inside calls only, and nothing hides behind computing. Allreduces take what their calls took, in "
        "proportion to bytes.",
        why));
    return inside_calls(step);
  };
  if (step.posting_s > kPostingMoves * step.exposed_s)
    return moved_inside("Posting an allreduce takes as long as moving data does");
  const std::vector<models::Sample> samples = models::nonblocking_samples(run->view.db, run->view.world);
  std::set<double> sizes;
  for (const models::Sample& sample : samples) sizes.insert(sample.bytes);
  if (sizes.size() < models::kFitMinSizes)
    throw Error(
        fmt::format(
            "the time of the run's non-blocking allreduces is not known: ranks waited for their end at {} sizes, {} are needed",
            sizes.size(), models::kFitMinSizes),
        kCostHint, ExitCode::kDataMissing);
  try {
    const models::LinkFit fit = models::fit_link(samples, algorithm);
    const std::string from = fmt::format("(last post to end, R2 {:.3f})", fit.r2);
    answer.given("alpha_ns", "latency", seconds_value(fit.link.alpha_s), from);
    answer.given("bandwidth_bytes_per_second", "bandwidth", Value::bandwidth(1 / fit.link.beta_s_per_byte), from);
    return of_link(fit.link);
  } catch (const Error& error) {
    if (error.code() != ExitCode::kDataMissing) throw;
    return moved_inside("From the last post to the end allreduces took times that do not follow their sizes");
  }
}

std::vector<models::Bucket> buckets_of(const std::string& rule, const std::vector<models::Gradient>& gradients,
                                       int64_t threshold) {
  if (rule == "fuse") return models::fuse(gradients, threshold);
  return models::fill(gradients, threshold,
                      rule == "ddp" ? std::min(threshold, models::kDdpFirstBucketBytes) : threshold);
}

}  // namespace

int model_fusion(const std::vector<std::string>& arguments) {
  VerbOptions options = model_options(
      "fusion", "[RUN] [options]",
      "Gradients in buckets, allreduced one after the other: behind backward, or blocking. Nothing hides behind what needs the sums. With RUN: "
      "its allreduces as they were posted, or its layers in backward with the bytes of --table; what allreduces take is fitted or of --sweep.");
  options.add()("thresholds", takes<std::string>("N,...", "0,1MiB,4MiB,16MiB,25MiB,64MiB,128MiB"), "sizes of buckets")(
      "rule", takes<std::string>("NAME", "fuse"),
      "buckets close before they exceed it (fuse: Horovod) or when they hold it (fill; ddp: the first at 1 MiB)")(
      "tensors", takes<std::string>("FILE"), kTensorsHelp)(
      "table", takes<std::string>("NAME"), "of a shipped network (network --list), or a FILE.csv like those")(
      "sweep", takes<std::string>("FILE"), "what allreduces take: output of `allreduce`, or bytes, time_us")(
      "forward-ms", takes<double>("MS"), "without RUN: of the step")("backward-ms", takes<double>("MS"), "likewise")(
      "update-ms", takes<double>("MS"), "likewise: computing that needs the sums")("ranks", takes<int64_t>("P"),
                                                                                   "how many");
  options.one_of("rule", {"fuse", "fill", "ddp"});
  options.one_row({"forward-ms", "backward-ms", "update-ms"}, "of the step, without RUN");
  add_link_options(options);
  if (!options.parse(arguments)) return 0;
  const auto run = maybe_run(options);
  const auto table = table_option(options);
  if (options.has("tensors") && (run || table))
    throw Error("--tensors excludes --table and RUN", "give one of them; only --table and RUN go together",
                ExitCode::kUsage);
  if (run && (options.has("forward-ms") || options.has("backward-ms") || options.has("update-ms")))
    throw Error("--forward-ms, --backward-ms and --update-ms exclude RUN", "leave them out: the run has its own times",
                ExitCode::kUsage);
  models::StepGradients step;
  if (run) {
    std::vector<models::LayerGradient> layers;
    if (table)
      for (const models::NetworkLayer& layer : table->layers)
        layers.push_back({layer.name, std::llround(4 * layer.parameters)});
    step = models::step_gradients(run->view.db, run->view.world, layers);
  } else {
    const double forward_s = number_option(options, "forward-ms", 0).value_or(0) * 1e-3;
    const double backward_s =
        needed(number_option(options, "backward-ms", 0), "backward-ms", "how long the gradients take") * 1e-3;
    step = table ? gradients_of(*table, forward_s, backward_s)
                 : gradients_of(needed(options.maybe<std::string>("tensors"), "tensors", kTensorsHelp), forward_s,
                                backward_s);
    step.update_s = number_option(options, "update-ms", 0).value_or(0) * 1e-3;
    step.compute_s += step.update_s;
  }
  const auto typed_ranks = count_option(options, "ranks");
  const int64_t ranks =
      needed(typed_ranks || !run ? typed_ranks : std::optional(step.ranks), "ranks", "e.g. --ranks 16");
  Answer answer("fusion");
  int64_t bytes = 0;
  for (const models::Gradient& gradient : step.gradients) bytes += gradient.bytes;
  answer.given("tensors",
               run && !table ? "allreduces"
               : table       ? "layers"
                             : "tensors",
               Value::count(static_cast<int64_t>(step.gradients.size())));
  answer.given("bytes", "in all", Value::bytes(bytes));
  answer.given("compute_ns", "computing", seconds_value(step.compute_s),
               run ? fmt::format("(rank {}, step {})", step.rank, step.step) : "");
  answer.given("update_ns", "of it behind the last gradient", seconds_value(step.update_s));
  if (run) {
    answer.given("measured_ns", "step", seconds_value(step.measured_s), "as recorded");
    answer.given("recorded_exposed_ns", step.nonblocking ? "in non-blocking allreduces" : "in blocking allreduces",
                 seconds_value(step.exposed_s));
    answer.given("rest_ns", "other calls, waiting", seconds_value(step.rest_s()));
    answer.given("readiness", "gradients ready",
                 step.readiness.empty() ? Value::absent(Unit::kText, "NO_DATA") : Value::text(step.readiness));
  }
  answer.given("ranks", "ranks", Value::count(ranks));
  const AllreduceCost cost = allreduce_cost(options, run.get(), step, ranks, answer);
  // For a run each kind of calls is held to what it was recorded with; of the other kind only the model is known.
  const models::Progress full, recorded = run ? progress_of(models::fuse(step.posted, 0), step.compute_s, cost.seconds,
                                                            step.update_s, step.exposed_s)
                                              : full;
  models::Progress beside = full;
  double blocking_factor = 1;
  if (run && step.nonblocking) {
    beside = recorded;
    answer.note(
        "The blocking step takes the same times for allreduces: a run that blocks, or --sweep, shows what blocking ones take.");
    answer.given("beside_ratio", "hid behind computing", Value::ratio(beside.beside_share), "of what could");
  } else if (run) {
    const models::FusedStep as_is = models::schedule(models::fuse(step.posted, 0), step.compute_s, cost.seconds, false);
    if (as_is.comm_s > 0 && step.exposed_s > 0) blocking_factor = step.exposed_s / as_is.comm_s;
  }
  const double rest_s = run ? std::max(0.0, step.rest_s()) : 0;
  auto& rows = answer.table("fusion", fmt::format("Buckets, {}", cost.name),
                            {{"threshold_bytes", "threshold", Unit::kBytes},
                             {"buckets", "buckets", Unit::kCount},
                             {"comm_ns", "communication", Unit::kDuration},
                             {"exposed_ns", "exposed", Unit::kDuration},
                             {"overlapped_step_ns", "step, overlapped", Unit::kDuration},
                             {"blocking_step_ns", "step, blocking", Unit::kDuration}});
  const bool ready = !run || !step.readiness.empty();
  for (const int64_t threshold : parse_bytes_list(options.get<std::string>("thresholds"))) {
    const auto buckets = buckets_of(options.get<std::string>("rule"), step.gradients, threshold);
    const models::FusedStep hidden = models::schedule(buckets, step.compute_s, cost.seconds, beside, step.update_s);
    const models::FusedStep blocking = models::schedule(buckets, step.compute_s, cost.seconds, false);
    const auto told = [&](double seconds) {
      return ready ? seconds_value(seconds) : Value::absent(Unit::kDuration, "NO_DATA");
    };
    rows.rows.push_back({Value::bytes(threshold), Value::count(static_cast<int64_t>(buckets.size())),
                         seconds_value(hidden.comm_s), told(hidden.exposed_s), told(hidden.step_s + rest_s),
                         seconds_value(step.compute_s + blocking_factor * blocking.comm_s + rest_s)});
  }
  if (!ready)
    answer.note(fmt::format(
        "How early gradients are ready is not known: {}. --table NAME tells the bytes of layers; a run that posts during "
        "backward shows it by itself.",
        step.why));
  if (run && !step.nonblocking && ready)
    answer.note(
        "Overlapped at best: the run does not show whether MPI moves data beside computing. A run with non-blocking allreduces does.");
  answer.note("Copying into buckets, and computing that slows down while data move, are not in it; " +
              std::string(run ? "waiting for late ranks stays as it is." : "waiting for late ranks neither."));
  return answer.print(options);
}

int model_microbatch(const std::vector<std::string>& arguments) {
  VerbOptions options = model_options(
      "microbatch", "--csv FILE --batch B [options]",
      "Cuts a batch into micro-batches whose kernels fit a workspace (mu-cuDNN): the fastest way for each workspace, by dynamic programming. Of "
      "several layers with --workspace in all, one choice each, by knapsack.");
  options.add()("csv", takes<std::string>("FILE"),
                "columns micro_batch, time_ms, workspace_bytes, and if wanted kernel, layer")(
      "batch", takes<int64_t>("B"), "samples in all")("workspace", takes<std::string>("N"),
                                                      "limit, of all layers together");
  if (!options.parse(arguments)) return 0;
  const CsvTable csv =
      CsvTable::read(needed(options.maybe<std::string>("csv"), "csv", "columns micro_batch, time_ms, workspace_bytes"));
  const int64_t batch = needed(count_option(options, "batch"), "batch", "e.g. --batch 256");
  std::vector<std::string> names;
  std::vector<std::vector<models::Kernel>> kernels;
  for (size_t r = 0; r < csv.rows(); ++r) {
    const std::string layer = csv.has("layer") ? csv.text(r, "layer") : "";
    const size_t l = static_cast<size_t>(std::find(names.begin(), names.end(), layer) - names.begin());
    if (l == names.size()) names.push_back(layer), kernels.emplace_back();
    const double micro = csv.number(r, "micro_batch"), time = csv.number(r, "time_ms"),
                 workspace = csv.number(r, "workspace_bytes");
    if (micro < 1 || micro > 1e9 || micro != std::floor(micro) || time < 0 || workspace < 0 || workspace > 1e18)
      throw Error(fmt::format("row {} of the kernels is out of range", r + 1),
                  "micro_batch is a count from 1, time_ms and workspace_bytes are 0 or more", ExitCode::kUsage);
    kernels[l].push_back(
        {static_cast<int64_t>(micro), time, std::llround(workspace), csv.has("kernel") ? csv.text(r, "kernel") : ""});
  }
  Answer answer("microbatch");
  answer.given("batch", "batch", Value::count(batch));
  const auto limit =
      options.has("workspace") ? std::optional(parse_bytes(options.get<std::string>("workspace"))) : std::nullopt;
  if (limit) answer.given("workspace_bytes", "workspace", Value::bytes(*limit));
  std::vector<std::vector<models::MicroBatching>> fronts;
  for (const auto& layer : kernels) fronts.push_back(models::micro_batching_front(layer, batch));
  for (size_t l = 0; l < fronts.size(); ++l)
    if (fronts[l].empty())
      throw Error(fmt::format("no micro-batches of {} add up to {}", names[l].empty() ? "these" : names[l], batch),
                  "measure more of them, or give another --batch", ExitCode::kDataMissing);
  std::optional<std::vector<size_t>> choice;
  if (limit) {
    choice = models::choose_fronts(fronts, *limit);
    if (!choice)
      throw Error("no choice of kernels fits this workspace", "without --workspace all are listed with what they need",
                  ExitCode::kDataMissing);
  }
  auto& table =
      answer.table("microbatch", choice ? "The fastest that fits" : "Nothing is faster with as little workspace",
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
        parts += fmt::format("{}{} x {}{}{}", parts.empty() ? "" : " + ", times, k.micro_batch,
                             k.name.empty() ? "" : " ", k.name);
      }
      table.rows.push_back({Value::text(names[l]), seconds_value(one.time * 1e-3), Value::bytes(one.workspace_bytes),
                            Value::text(parts)});
    }
  return answer.print(options);
}

}  // namespace ddl::cli
