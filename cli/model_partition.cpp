// ddl model partition, ddl model memory: layers onto pipeline stages, layers into memory.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "analyzer/models/partition.h"
#include "cli/model.h"
#include "cli/model_layers.h"
#include "core/error.h"

namespace ddl::cli {
namespace {

using reports::Unit;
using reports::Value;

void add_stages(const models::Partition& partition, const std::vector<models::LayerCost>& layers, Answer& answer,
                const std::string& caption) {
  auto& table = answer.table(fmt::format("stages_{}", partition.stages.size()), caption,
                             {{"stage", "stage", Unit::kCount},
                              {"replicas", "workers", Unit::kCount},
                              {"layers", "layers", Unit::kCount},
                              {"first", "first", Unit::kText},
                              {"last", "last", Unit::kText},
                              {"compute_ns", "computing", Unit::kDuration},
                              {"paced_ns", "per mini-batch", Unit::kDuration}});
  int64_t number = 0;
  for (const models::Stage& stage : partition.stages) {
    table.rows.push_back({Value::count(number++), Value::count(stage.replicas),
                          Value::count(static_cast<int64_t>(stage.last - stage.first + 1)),
                          Value::text(layers[stage.first].name), Value::text(layers[stage.last].name),
                          seconds_value(stage.compute_s), seconds_value(stage.paced_s)});
  }
}

}  // namespace

int model_partition(const std::vector<std::string>& arguments) {
  VerbOptions options = model_options(
      "partition", "[RUN] --stages K,... [options]",
      "Cuts consecutive layers into stages whose slowest is as fast as can be (dynamic programming, as in PipeDream); with --workers stages may "
      "be replicated, and their weights cost an allreduce. Layers are those of a profile, of a table (times by multiply-adds) or of RUN.");
  add_layer_options(options, true);
  options.add()("stages,k", takes<std::string>("K,..."), "one worker each")(
      "workers", takes<int64_t>("W"), "instead: any stages and replicas on so many")("bandwidth", takes<double>("GB/S"),
                                                                                     "of a worker's link");
  if (!options.parse(arguments)) return 0;
  const auto run = maybe_run(options);
  const bool replicas = options.has("workers");
  if (replicas == options.has("stages"))
    throw Error("give either --stages or --workers", "e.g. --stages 2,4,8", ExitCode::kUsage);
  Answer answer("partition");
  const GivenLayers given = given_layers(options, run.get(), answer);
  if (replicas && !given.sizes)
    throw Error("a run has no sizes of activations and weights",
                "--workers needs --table, or --profile in place of RUN", ExitCode::kUsage);
  if (!given.times)
    needed(std::optional<double>(), "tflops", "a table tells multiply-adds; how fast are they done? or name a run");
  const std::vector<models::LayerCost>& layers = given.layers;
  double total = 0, parameters = 0;
  for (const models::LayerCost& layer : layers)
    total += layer.forward_s + layer.backward_s, parameters += layer.parameter_bytes;
  answer.given("layers", "layers", Value::count(static_cast<int64_t>(layers.size())));
  answer.given("total_ns", "computing", seconds_value(total), "per mini-batch");
  auto& table = answer.table("partition", "The slowest stage or transfer sets the pace",
                             {{"workers", "workers", Unit::kCount},
                              {"stages", "stages", Unit::kCount},
                              {"config", "workers of each", Unit::kText},
                              {"bottleneck_ns", "per mini-batch", Unit::kDuration},
                              {"speedup", "speed-up", Unit::kNumber},
                              {"efficiency_ratio", "of the ideal", Unit::kRatio}});
  std::vector<models::Partition> found;
  std::vector<std::vector<Value>> rows;
  if (replicas) {
    const double bandwidth =
        needed(number_option(options, "bandwidth", 0, true), "bandwidth", "e.g. --bandwidth 1.25") * 1e9;
    found.push_back(models::partition_with_replicas(layers, *count_option(options, "workers"), bandwidth));
    answer.given("bandwidth_bytes_per_second", "bandwidth", Value::bandwidth(bandwidth));
    const double w = static_cast<double>(*count_option(options, "workers"));
    answer.given("data_parallel_ns", "data parallel",
                 seconds_value(std::max(total, 2 * (w - 1) * parameters / bandwidth) / w), "per mini-batch");
  } else {
    for (const int64_t k : parse_counts(options.get<std::string>("stages"))) {
      if (k > static_cast<int64_t>(layers.size()))
        throw Error(fmt::format("too many stages: {} for {} layers", k, layers.size()), "at most one per layer",
                    ExitCode::kUsage);
      found.push_back(models::partition_layers(layers, k));
    }
  }
  for (const models::Partition& partition : found) {
    std::string config;
    int64_t workers = 0;
    for (const models::Stage& stage : partition.stages)
      config += fmt::format("{}{}", config.empty() ? "" : "-", stage.replicas), workers += stage.replicas;
    const double speedup = total / partition.bottleneck_s;
    table.rows.push_back({Value::count(workers), Value::count(static_cast<int64_t>(partition.stages.size())),
                          Value::text(config), seconds_value(partition.bottleneck_s), Value::number(speedup),
                          Value::ratio(speedup / static_cast<double>(workers))});
  }
  for (const models::Partition& partition : found)
    add_stages(partition, layers, answer, fmt::format("{} stages", partition.stages.size()));
  answer.note(
      replicas
          ? "Steady state, one level of links; weights and activations move behind the computing. Layers in the order of the "
            "file: branches are not modelled."
          : "Steady state, transfers are free. Layers in order: branches are not modelled.");
  return answer.print(options);
}

int model_memory(const std::vector<std::string>& arguments) {
  VerbOptions options = model_options(
      "memory", "[RUN] --table NAME [options]",
      "Memory of training by layer: weights and gradients, the optimiser's state, outputs kept for "
      "backward and their gradients. An upper bound:\n"
      "frameworks free and share. Sizes are those of a profile or of a network's table; RUN tells the batch, and "
      "which layers there are.");
  add_layer_options(options, false);
  options.add()("optimizer", takes<std::string>("NAME", "sgd"), "sgd, momentum, adam: 0, 1, 2 more values per weight")(
      "batch-factor", takes<double>("X", 1), "wanted batch over the profile's, or --batch");
  const std::vector<std::string> names = {"sgd", "momentum", "adam"};
  options.one_of("optimizer", names);
  if (!options.parse(arguments)) return 0;
  const std::string name = options.get<std::string>("optimizer");
  const auto known = std::find(names.begin(), names.end(), name);
  const double factor = *number_option(options, "batch-factor", 0, true);
  const auto run = maybe_run(options);
  Answer answer("memory");
  const GivenLayers given = given_layers(options, run.get(), answer);
  if (!given.sizes)
    throw Error("a run has no sizes of activations and weights", "give --table NAME of its network",
                ExitCode::kDataMissing);
  answer.given("optimizer", "optimizer", Value::text(name));
  answer.given("batch_factor", "batch x", Value::number(factor));
  auto& table = answer.table("memory", "Memory by layer",
                             {{"layer", "layer", Unit::kText},
                              {"parameter_bytes", "weights + gradients", Unit::kBytes},
                              {"optimizer_bytes", "optimizer", Unit::kBytes},
                              {"activation_bytes", "activations + gradients", Unit::kBytes},
                              {"total_bytes", "total", Unit::kBytes}});
  models::Memory sum;
  const auto add = [&](const std::string& layer, const models::Memory& m) {
    const auto bytes = [](double b) { return Value::bytes(std::llround(b)); };
    table.rows.push_back({Value::text(layer), bytes(m.parameter_bytes), bytes(m.optimizer_bytes),
                          bytes(m.activation_bytes), bytes(m.total())});
  };
  for (const models::LayerCost& layer : given.layers) {
    const models::Memory m = layer_memory(layer, static_cast<double>(known - names.begin()), factor);
    add(layer.name, m);
    sum.parameter_bytes += m.parameter_bytes;
    sum.optimizer_bytes += m.optimizer_bytes;
    sum.activation_bytes += m.activation_bytes;
  }
  add("all", sum);
  return answer.print(options);
}

}  // namespace ddl::cli
