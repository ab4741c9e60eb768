// Layers: where each one's time went, on the host and on GPUs.
#include <fmt/format.h>

#include <algorithm>

#include "analyzer/query.h"
#include "reports/format.h"
#include "reports/html/bars.h"
#include "reports/html/columns_of.h"
#include "reports/html/figure.h"
#include "reports/html/markup.h"
#include "reports/overview.h"

namespace ddl::reports::html {
namespace {

constexpr size_t kLayerTimesMostBars = 24;

std::string name_of(const std::vector<Value>& cells, size_t layer, size_t phase) {
  const std::string name = cells[layer].is_absent() ? "outside of layers" : cells[layer].as_text();
  return cells[phase].is_absent() ? name : fmt::format("{} {}", name, cells[phase].as_text());
}

Figure draw(Bars bars, const Table& table, Table data) {
  const size_t time = column_of(table, "time_ns"), layer = column_of(table, "layer"), phase = column_of(table, "phase");
  double all_ns = 0;
  for (const auto& cells : table.rows) all_ns += cells[time].as_double();
  const auto& first = table.rows.front();
  Figure figure{.id = bars.id, .title = bars.title, .reading = table.caption + ".", .data = std::move(data)};
  figure.caption = fmt::format("{} takes {} of the time of all layers", shown_name(name_of(first, layer, phase)),
                               percent_text(first[time].as_double() / std::max(1.0, all_ns)));
  double top_ns = 0;
  size_t needed = 0;
  while (needed < table.rows.size() && top_ns < 0.8 * all_ns) top_ns += table.rows[needed++][time].as_double();
  figure.caption +=
      needed > 1 ? fmt::format(", {} of {} take 80%.", needed, plural(static_cast<int64_t>(table.rows.size()), "layer"))
                 : ".";
  if (table.rows.size() > kLayerTimesMostBars) {
    bars.bars.resize(kLayerTimesMostBars);
    figure.reading += fmt::format(" The longest {}; the table has all {}.", kLayerTimesMostBars, table.rows.size());
  }
  figure.svg = draw_bars(bars);
  return figure;
}

void add_host(const RunView& run, std::vector<Figure>& figures) {
  const Table table = layers_table(run);
  if (table.rows.empty() || table.rows.front()[column_of(table, "time_ns")].as_integer() <= 0) return;
  const size_t compute = column_of(table, "compute_ns"), exposed = column_of(table, "exposed_ns"),
               wait = column_of(table, "wait_ns");
  Bars bars{.id = "layers",
            .title = "Layers",
            .description = "A bar for each layer, the longest first: computing, then time in calls.",
            .parts = {{"compute", "c0"},
                      {"in calls: transfer", "c2"},
                      {"in calls: waiting", "c3"},
                      {"in calls, waiting not known", "c4"}}};
  // For non-blocking collectives the waiting counts where they were posted, and is not inside the time in MPI there.
  Query nonblocking(run.db, "SELECT 1 FROM collective_group WHERE world = ? AND upper_bound = 1 LIMIT 1");
  nonblocking.bind(run.world);
  const bool inside = !nonblocking.next();
  for (const auto& cells : table.rows) {
    const double exposed_ns = cells[exposed].as_double();
    const auto wait_ns = maybe_integer(cells[wait]);
    const bool split = inside && wait_ns && static_cast<double>(*wait_ns) <= exposed_ns;
    const double waiting_ns = split ? static_cast<double>(*wait_ns) : 0;
    bars.bars.push_back(
        {name_of(cells, column_of(table, "layer"), column_of(table, "phase")),
         {cells[compute].as_double(), split ? exposed_ns - waiting_ns : 0, waiting_ns, split ? 0 : exposed_ns}});
  }
  figures.push_back(
      draw(std::move(bars), table,
           columns_of(table, {"layer", "phase", "time_ns", "compute_ns", "exposed_ns", "wait_ns", "calls"})));
}

void add_gpus(const RunView& run, std::vector<Figure>& figures) {
  const Table table = gpu_layers_table(run);
  const size_t layer = column_of(table, "layer");
  const bool named = std::any_of(table.rows.begin(), table.rows.end(),
                                 [&](const std::vector<Value>& cells) { return !cells[layer].is_absent(); });
  if (!named || table.rows.front()[column_of(table, "time_ns")].as_integer() <= 0) return;
  const size_t compute = column_of(table, "compute_ns"), comm = column_of(table, "comm_ns"),
               copy = column_of(table, "copy_ns");
  Bars bars{.id = "layers-gpu",
            .title = "Layers on GPUs",
            .description = "A bar for each layer, the longest first: kernels that compute, collectives, copies.",
            .parts = {{"compute", "c0"}, {"collectives", "c2"}, {"copies", "c5"}}};
  for (const auto& cells : table.rows)
    bars.bars.push_back({name_of(cells, column_of(table, "layer"), column_of(table, "phase")),
                         {cells[compute].as_double(), cells[comm].as_double(), cells[copy].as_double()}});
  figures.push_back(
      draw(std::move(bars), table,
           columns_of(table, {"layer", "phase", "time_ns", "compute_ns", "comm_ns", "copy_ns", "kernels"})));
}

}  // namespace

std::vector<Figure> layer_times(const RunView& run) {
  std::vector<Figure> figures;
  add_gpus(run, figures);
  add_host(run, figures);
  return figures;
}

}  // namespace ddl::reports::html
