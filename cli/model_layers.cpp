#include "cli/model_layers.h"

#include <fmt/format.h>

#include <charconv>
#include <filesystem>
#include <string>
#include <unordered_map>

#include "analyzer/csv_table.h"
#include "analyzer/models/run_facts.h"
#include "core/error.h"

namespace fs = std::filesystem;

namespace ddl::cli {
namespace {

using reports::Value;

constexpr const char* kProfileHelp =
    "columns op, fwd_ms, bwd_ms, activation_bytes_per_minibatch, param_bytes_fp32, in the order of the forward pass";

/// One size, or those of several outputs: [6291456.0; 131072.0].
double activation_bytes(const CsvTable& table, size_t row) {
  const std::string& text = table.text(row, "activation_bytes_per_minibatch");
  if (!text.starts_with("[") || !text.ends_with("]")) return table.number(row, "activation_bytes_per_minibatch");
  double sum = 0;
  for (size_t at = 1; at < text.size();) {
    while (text[at] == ' ') ++at;
    double value = 0;
    const auto [end, error] = std::from_chars(text.data() + at, text.data() + text.size(), value);
    at = static_cast<size_t>(end - text.data());
    if (error != std::errc() || value < 0 || (text[at] != ';' && text[at] != ']'))
      throw Error(fmt::format("{}: invalid sizes of activations '{}'", table.name(), text),
                  "such as 1024 or [1024; 2048]", ExitCode::kUsage);
    sum += value;
    ++at;
  }
  return sum;
}

// PipeDream's profile as CSV; the input is not a layer.
std::vector<models::LayerCost> profile_of(const std::string& file) {
  const CsvTable table = CsvTable::read(file);
  std::vector<models::LayerCost> layers;
  for (size_t r = 0; r < table.rows(); ++r) {
    if (table.text(r, "op").starts_with("Input")) continue;
    layers.push_back({table.text(r, "op"), table.number(r, "fwd_ms") * 1e-3, table.number(r, "bwd_ms") * 1e-3,
                      activation_bytes(table, r), table.number(r, "param_bytes_fp32")});
  }
  if (layers.empty())
    throw Error(fmt::format("{} has no layers", file),
                "give rows with columns op, fwd_ms, bwd_ms, activation_bytes_per_minibatch, param_bytes_fp32");
  return layers;
}

/// Sizes of the table into layers of the run, by name. Layers without sizes of their own (activation functions that the
/// program names and the table does not) keep 0; a parameter that no layer of the run holds would be missed.
void add_sizes(std::vector<models::LayerCost>& layers, const std::vector<models::LayerCost>& table,
               const std::string& name) {
  std::unordered_map<std::string, const models::LayerCost*> known;
  for (const models::LayerCost& layer : table) known.emplace(layer.name, &layer);
  double found = 0, all = 0;
  for (const models::LayerCost& layer : table) all += layer.parameter_bytes;
  for (models::LayerCost& layer : layers) {
    const auto at = known.find(layer.name);
    if (at == known.end()) continue;
    layer.activation_bytes = at->second->activation_bytes;
    layer.parameter_bytes = at->second->parameter_bytes;
    found += layer.parameter_bytes;
  }
  if (found < all)
    throw Error(fmt::format("layers of the run have {:.0f} of the {:.0f} bytes of parameters of {}", found, all, name),
                "is it the table of this network? names of layers must be those of the run's ranges",
                ExitCode::kDataMissing);
}

}  // namespace

void add_layer_options(VerbOptions& options, bool times) {
  options.add()("profile", takes<std::string>("FILE"), kProfileHelp)(
      "table", takes<std::string>("NAME"), "of a shipped network (network --list), or a FILE.csv like those")(
      "batch", takes<double>("B"), "with --table: samples of a mini-batch; default: RUN's on a rank");
  if (times)
    options.add()("tflops", takes<double>("T"), "with --table, without RUN: 1e12 operations a worker does per second");
}

std::optional<models::NetworkTable> table_option(const VerbOptions& options) {
  const auto name = options.maybe<std::string>("table");
  if (!name) return std::nullopt;
  return models::find_network_table(
      *name, fs::read_symlink("/proc/self/exe").parent_path().parent_path() / "share" / "ddl" / "networks");
}

GivenLayers given_layers(const VerbOptions& options, ModelRun* run, Answer& answer) {
  const auto table = table_option(options);
  const auto profile = options.maybe<std::string>("profile");
  if (profile && (table || run))
    throw Error("--profile excludes RUN and --table", "leave them out: the profile has all that is needed",
                ExitCode::kUsage);
  if (profile) return {profile_of(*profile), true, true};
  if (!table && !run)
    throw Error("no layers given: name a RUN, --table or --profile", fmt::format("--profile FILE: {}", kProfileHelp),
                ExitCode::kUsage);
  GivenLayers given;
  if (run) given.layers = models::layers_of(run->view.db, run->view.world);
  given.sizes = table.has_value();
  if (!table) return given;
  std::optional<double> batch = number_option(options, "batch", 0, true);
  std::string from;
  if (!batch && run) {
    if (const auto samples = models::samples_per_step(run->view.db, run->view.world))
      batch = *samples / static_cast<double>(run->view.ranks), from = "(of the run, on a rank)";
  }
  const double samples = needed(batch, "batch", run ? "the run reports no samples" : "samples of a mini-batch");
  answer.given("network", "network", Value::text(table->name));
  answer.given("batch", "batch", Value::number(samples), from);
  const auto tflops = number_option(options, "tflops", 0, true);
  if (run && tflops) throw Error("--tflops excludes RUN", "leave it out: the run has its own times", ExitCode::kUsage);
  const std::vector<models::LayerCost> costs = layer_costs(*table, samples, tflops.value_or(1) * 1e12);
  if (run) {
    add_sizes(given.layers, costs, table->name);
  } else {
    given.layers = costs;
    given.times = tflops.has_value();
  }
  return given;
}

}  // namespace ddl::cli
