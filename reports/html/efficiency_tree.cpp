// The efficiencies that multiply to the whole, after POP: which factor loses the time. For ranks, and of GPUs.
#include <fmt/format.h>

#include <optional>
#include <span>

#include "analyzer/query.h"
#include "reports/format.h"
#include "reports/html/chart.h"
#include "reports/html/figure.h"

namespace ddl::reports::html {
namespace {

constexpr double kTreeLeft = 264, kTreeRight = kWidth - 60, kTreeRow = 30;

struct Node {
  const char* metric;
  const char* name;
  int depth;  ///< a node is the product of those one deeper below it
  const char* lost_to;
};
constexpr Node kOfRanks[] = {
    {"parallel_efficiency", "parallel efficiency", 0, ""},
    {"load_balance", "load balance", 1, "ranks that compute unequally long"},
    {"communication_efficiency", "communication efficiency", 1, "communication"},
    {"serialisation_efficiency", "serialisation", 2, "idling, and communication other than waiting"},
    {"transfer_efficiency", "transfer", 2, "waiting for others"}};
constexpr Node kOfGpus[] = {
    {"gpu_parallel_efficiency", "parallel efficiency", 0, ""},
    {"gpu_load_balance", "load balance", 1, "GPUs that compute unequally long"},
    {"gpu_communication_efficiency", "communication efficiency", 1, "communication that nothing hides"},
    {"gpu_transfer_efficiency", "transfer", 2, "collectives and copies that nothing hides"},
    {"gpu_wait_efficiency", "wait", 2, "waiting for other ranks inside kernels"},
    {"gpu_orchestration_efficiency", "orchestration", 1, "GPUs that idle"}};

struct Efficiency {
  std::optional<double> value;
  std::string why;
};

Efficiency efficiency_of(const RunView& run, const char* metric) {
  Query row(run.db, "SELECT value, why FROM metric WHERE world = ? AND id = ?");
  row.bind(run.world, metric);
  if (!row.next()) return {std::nullopt, "NO_DATA"};
  return {row.maybe_real(0), row.text(1)};
}

void add_tree(const RunView& run, std::span<const Node> nodes, std::string_view of, std::string id,
              std::vector<Figure>& figures) {
  std::vector<Efficiency> values;
  for (const Node& node : nodes) values.push_back(efficiency_of(run, node.metric));
  if (!values.front().value) return;
  Figure figure{.id = std::move(id), .title = fmt::format("Parallel efficiency of {}", of)};
  const double bottom = kTreeRow * static_cast<double>(nodes.size()) + 8;
  Chart chart(figure.id, figure.title,
              "A tree of efficiencies from 0 to 1; each one is the product of those one level below it.", bottom + 22);
  const Scale x{.from = 0, .to = 1, .begin = kTreeLeft, .end = kTreeRight};
  for (const double tick : {0.0, 0.25, 0.5, 0.75, 1.0}) {
    chart.line(x(tick), 4, x(tick), bottom + 4, "grid");
    chart.text(x(tick), bottom + 18, Anchor::kMiddle, fmt::format("{:.0f}%", tick * 100));
  }
  figure.data = {.columns = {{"name", "Efficiency", Unit::kText},
                             {"value", "Value", Unit::kNumber},
                             {"lost_to", "What is missing was lost to", Unit::kText}}};
  size_t weakest = 0;
  for (size_t i = 0; i < nodes.size(); ++i) {
    const double y = static_cast<double>(i) * kTreeRow + 8, indent = nodes[i].depth * 22;
    const std::optional<double>& value = values[i].value;
    if (nodes[i].depth > 0) {
      size_t parent = i;
      while (nodes[parent].depth >= nodes[i].depth) --parent;
      const double parent_y = static_cast<double>(parent) * kTreeRow + 8;
      chart.path(fmt::format("M{} {}V{}h10", coordinate(indent - 12), coordinate(parent_y + 18), coordinate(y + 9)),
                 "axis open");
    }
    chart.text(indent + 2, y + 13, Anchor::kStart, nodes[i].name);
    if (value) {
      chart.rect(kTreeLeft, y, std::max(0.5, x(std::min(1.0, *value)) - kTreeLeft), kTreeRow - 12,
                 nodes[i].depth == 0 ? "c0" : "c1");
      chart.text(x(std::min(1.0, *value)) + 6, y + 13, Anchor::kStart, percent_text(*value));
    } else {
      chart.text(kTreeLeft + 6, y + 13, Anchor::kStart, fmt::format("n/a ({})", values[i].why));
    }
    const bool leaf = i + 1 == nodes.size() || nodes[i + 1].depth <= nodes[i].depth;
    if (leaf && value && (weakest == 0 || *value < *values[weakest].value)) weakest = i;
    figure.data.rows.push_back({Value::text(std::string(static_cast<size_t>(nodes[i].depth) * 2, ' ') + nodes[i].name),
                                value ? Value::number(*value) : Value::absent(Unit::kNumber, values[i].why),
                                Value::text(nodes[i].lost_to)});
  }
  figure.caption = fmt::format("{} of the time of {} is computing.", percent_text(*values.front().value), of);
  if (weakest != 0 && *values[weakest].value < 0.995)
    figure.caption += fmt::format(" The weakest factor is {} ({}): time lost to {}.", nodes[weakest].name,
                                  percent_text(*values[weakest].value), nodes[weakest].lost_to);
  figure.svg = chart.take();
  figure.reading =
      "An efficiency of 100% loses nothing. Those of one level multiply to the one above them: mend the smallest first.";
  figures.push_back(std::move(figure));
}

}  // namespace

std::vector<Figure> efficiency_tree(const RunView& run) {
  std::vector<Figure> figures;
  add_tree(run, kOfGpus, "GPUs", "efficiency-gpu", figures);
  if (run.ranks > 1 && run.facts.threads_tell()) add_tree(run, kOfRanks, "ranks", "efficiency", figures);
  return figures;
}

}  // namespace ddl::reports::html
