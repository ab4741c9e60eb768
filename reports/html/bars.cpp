#include "reports/html/bars.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "reports/format.h"
#include "reports/html/chart.h"
#include "reports/safe_text.h"

namespace ddl::reports::html {
namespace {

constexpr double kBarsRight = kWidth - 28;
constexpr double kLetter = 7.2;  // width of one in a label
constexpr size_t kNameColumns = 32;
constexpr double kHighestRow = 26, kThinnestRow = 9, kReadableRow = 13;

double used_width(const std::vector<Bar>& bars, const std::string& heading) {
  size_t columns = display_width(heading);
  for (const Bar& bar : bars) columns = std::max(columns, std::min(display_width(printable(bar.name)), kNameColumns));
  return 16 + kLetter * static_cast<double>(columns);
}

/// A name fitted to its column: of one that ends in a place in a library ("MPI_Alltoall #12
/// libgromacs_mpi.so.7+0xc39d8b") the library is shortened, as all else tells bars apart.
std::string label_of(const Bar& bar) {
  constexpr size_t kLeastOfLibrary = 5;
  const std::string name = printable(bar.name);
  const size_t library = name.rfind(' ') + 1, place = name.rfind("+0x");
  if (display_width(name) > kNameColumns && library > 0 && place != std::string::npos && library < place) {
    const std::string before = name.substr(0, library), after = name.substr(place);
    const size_t others = display_width(before) + display_width(after);
    if (others + kLeastOfLibrary <= kNameColumns)
      return before + shorten_middle(std::string_view(name).substr(library, place - library), kNameColumns - others) +
             after;
  }
  return shorten_middle(name, kNameColumns);
}

std::string tip_of(const Bar& bar, const std::vector<BarPart>& parts) {
  std::string tip = shown_name(bar.name) + ":";
  bool first = true;
  for (size_t p = 0; p < parts.size(); ++p) {
    if (bar.parts_ns[p] <= 0) continue;
    tip += fmt::format("{} {} {}", first ? "" : ",", parts[p].name, short_duration(std::llround(bar.parts_ns[p])));
    first = false;
  }
  return tip;
}

}  // namespace

std::string draw_bars(const Bars& bars) {
  std::vector<LegendItem> legend;
  for (size_t p = 0; p < bars.parts.size(); ++p)
    if (std::any_of(bars.bars.begin(), bars.bars.end(), [&](const Bar& bar) { return bar.parts_ns[p] > 0; }))
      legend.push_back({bars.parts[p].css, bars.parts[p].name});
  double longest_ns = 1;
  for (const Bar& bar : bars.bars) {
    double total_ns = 0;
    for (const double part_ns : bar.parts_ns) total_ns += part_ns;
    longest_ns = std::max(longest_ns, total_ns);
  }

  const auto count = static_cast<double>(bars.bars.size());
  const double row = bars.share_rows ? std::clamp(480.0 / count, kThinnestRow, kHighestRow) : kHighestRow - 2;
  const double left = used_width(bars.bars, bars.heading);
  const double top = legend_height(legend) + (bars.heading.empty() ? 4 : 20), bottom = top + row * count;
  Chart chart(bars.id, bars.title, bars.description, bottom + 24);
  draw_legend(chart, 0, legend);
  if (!bars.heading.empty()) chart.text(left - 8, top - 6, Anchor::kEnd, bars.heading);
  const Scale x{.from = 0, .to = longest_ns, .begin = left, .end = kBarsRight};
  draw_time_axis(chart, x, top, bottom);
  const size_t name_every = row >= kReadableRow ? 1 : 8;
  for (size_t i = 0; i < bars.bars.size(); ++i) {
    const Bar& bar = bars.bars[i];
    const double y = top + static_cast<double>(i) * row;
    if (i % name_every == 0) chart.text(left - 8, y + row / 2 + 4.5, Anchor::kEnd, label_of(bar));
    chart.begin_group(tip_of(bar, bars.parts));
    double from_ns = 0;
    for (size_t p = 0; p < bars.parts.size(); ++p) {
      const double part_ns = std::max(0.0, bar.parts_ns[p]);
      if (x(part_ns) - x(0) >= 0.1)
        chart.rect(x(from_ns), y + 1, x(from_ns + part_ns) - x(from_ns), row - 2, bars.parts[p].css);
      from_ns += part_ns;
    }
    chart.end_group();
  }
  return chart.take();
}

}  // namespace ddl::reports::html
