// Why GPUs idle: each one's idle time by its cause (specification.md "Idling of GPUs").
#include <fmt/format.h>

#include <algorithm>

#include "reports/format.h"
#include "reports/html/bars.h"
#include "reports/html/columns_of.h"
#include "reports/html/figure.h"
#include "reports/overview.h"

namespace ddl::reports::html {
namespace {

constexpr size_t kIdleClassesMostBars = 64;

struct IdleClass {
  const char* key;
  const char* name;
  const char* css;
  const char* remedy;
};
constexpr IdleClass kClasses[] = {
    {"idle_host_ns", "the host launched too late", "c3", "launch less often: larger kernels, CUDA graphs"},
    {"idle_input_ns", "the host loaded data", "c2", "more loaders, prefetching"},
    {"idle_launch_ns", "launching", "c0", "fewer, larger kernels"},
    {"idle_kernel_ns", "between two kernels", "c1", "fewer, larger kernels"},
    {"idle_dep_comm_ns", "waiting for a collective elsewhere", "c4", "see what that collective waits for"},
    {"idle_dep_copy_ns", "waiting for a copy elsewhere", "c5", "copy earlier, or less"},
    {"idle_other_ns", "other", "c6", "not known"}};

}  // namespace

std::vector<Figure> idle_classes(const RunView& run) {
  const Table table = gpus_table(run);
  double all_ns = 0, idle_ns = 0;
  std::vector<double> sums(std::size(kClasses), 0);
  Bars bars{.id = "idle",
            .title = "Why GPUs idle",
            .description = "A bar for each GPU: its idle time by cause.",
            .heading = "rank/GPU",
            .share_rows = true};
  for (const IdleClass& c : kClasses) bars.parts.push_back({c.name, c.css});
  for (const auto& cells : table.rows) {
    Bar bar{.name = fmt::format("{}/{}", table_text(cells[column_of(table, "rank")]),
                                table_text(cells[column_of(table, "device")]))};
    for (size_t i = 0; i < std::size(kClasses); ++i) {
      bar.parts_ns.push_back(cells[column_of(table, kClasses[i].key)].as_double());
      sums[i] += bar.parts_ns.back();
    }
    all_ns += cells[column_of(table, "duration_ns")].as_double();
    idle_ns += cells[column_of(table, "idle_ns")].as_double();
    bars.bars.push_back(std::move(bar));
  }
  if (!(idle_ns > 0)) return {};
  const auto most = static_cast<size_t>(std::max_element(sums.begin(), sums.end()) - sums.begin());
  Figure figure{
      .id = bars.id,
      .title = bars.title,
      .data = columns_of(table, {"rank", "device", "idle_ns", "idle_host_ns", "idle_input_ns", "idle_launch_ns",
                                 "idle_kernel_ns", "idle_dep_comm_ns", "idle_dep_copy_ns", "idle_other_ns"})};
  figure.caption = fmt::format("GPUs idle {} of {}. Most of that ({}): {}. What helps: {}.",
                               percent_text(idle_ns / all_ns), run.has_steps ? "a step" : "the run",
                               percent_text(sums[most] / idle_ns), kClasses[most].name, kClasses[most].remedy);
  figure.reading = run.has_steps ? "Mean over steady steps." : "Whole run.";
  if (bars.bars.size() > kIdleClassesMostBars) {
    const auto idle_of = [](const Bar& bar) {
      double sum_ns = 0;
      for (const double part_ns : bar.parts_ns) sum_ns += part_ns;
      return sum_ns;
    };
    std::stable_sort(bars.bars.begin(), bars.bars.end(),
                     [&](const Bar& a, const Bar& b) { return idle_of(a) > idle_of(b); });
    bars.bars.resize(kIdleClassesMostBars);
    figure.reading +=
        fmt::format(" The {} that idle longest; the table has all {}.", kIdleClassesMostBars, table.rows.size());
  }
  figure.svg = draw_bars(bars);
  return {std::move(figure)};
}

}  // namespace ddl::reports::html
