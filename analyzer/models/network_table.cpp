#include "analyzer/models/network_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <system_error>

#include "analyzer/csv_table.h"
#include "core/error.h"

namespace fs = std::filesystem;

namespace ddl::models {
namespace {

constexpr double kMostValues = 1e15;  // of a layer: their bytes, of all layers, are an int64_t
constexpr double kBytesPerValue = 4;
constexpr double kFlopsPerMac = 2, kBackwardPerForward = 2;

std::vector<std::string> table_names(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    const std::string stem = entry.path().stem().string();
    if (entry.path().extension() == ".csv" && stem.starts_with("layers_")) names.push_back(stem.substr(7));
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

NetworkTable read_network_table(const fs::path& file) {
  const CsvTable csv = CsvTable::read(file);
  NetworkTable table{file.stem().string(), {}};
  for (size_t r = 0; r < csv.rows(); ++r) {
    table.layers.push_back({csv.text(r, "layer"), csv.number(r, "params"), csv.number(r, "fwd_macs_per_sample"),
                            csv.number(r, "act_out_elems_per_sample")});
    NetworkLayer& layer = table.layers.back();
    if (csv.has("type")) layer.type = csv.text(r, "type");
    if (csv.has("shape")) layer.shape = csv.text(r, "shape");
    if (std::max({layer.parameters, layer.activations}) > kMostValues)
      throw Error(fmt::format("{}: layer {} has more than {:g} values", file.string(), layer.name, kMostValues),
                  "correct its params or act_out_elems_per_sample", ExitCode::kUsage);
    if (layer.parameters < 0 || layer.macs < 0 || layer.activations < 0)
      throw Error(fmt::format("{}: layer {} has a negative number", file.string(), layer.name), "numbers are 0 or more",
                  ExitCode::kUsage);
  }
  if (table.layers.empty())
    throw Error(fmt::format("{} has no layers", file.string()), "add a row for each layer", ExitCode::kUsage);
  return table;
}

NetworkTable find_network_table(const std::string& name, const fs::path& folder) {
  if (name.ends_with(".csv")) return read_network_table(name);
  const fs::path file = folder / fmt::format("layers_{}.csv", name);
  if (name.find('/') != std::string::npos || !fs::exists(file))
    throw Error(
        fmt::format("unknown network '{}'", name),
        fmt::format(
            "there are {}; or a FILE.csv with columns layer, params, fwd_macs_per_sample, act_out_elems_per_sample",
            fmt::join(table_names(folder), ", ")),
        ExitCode::kUsage);
  NetworkTable table = read_network_table(file);
  table.name = name;
  return table;
}

std::vector<LayerCost> layer_costs(const NetworkTable& table, double batch, double flops_per_second) {
  std::vector<LayerCost> costs;
  for (const NetworkLayer& layer : table.layers) {
    const double forward_s = kFlopsPerMac * layer.macs * batch / flops_per_second;
    costs.push_back({layer.name, forward_s, kBackwardPerForward * forward_s, kBytesPerValue * layer.activations * batch,
                     kBytesPerValue * layer.parameters});
  }
  return costs;
}

}  // namespace ddl::models
