// A hang, call by rank: who is in which operation, who never came. First causes are above; further down ranks wait for
// those that wait above.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "analyzer/query.h"
#include "reports/format.h"
#include "reports/html/chart.h"
#include "reports/html/figure.h"
#include "reports/overview.h"

namespace ddl::reports::html {
namespace {

constexpr size_t kMostCalls = 32, kMostCellColumns = 128;
constexpr double kCallsLeft = 232, kCallsRight = kWidth - 12, kCallHeight = 22;

struct PartLook {
  std::string_view part, css, name;
};
// The later one wins where ranks share a cell.
constexpr std::array kLooks = {PartLook{"left", "s2", "completed it"},
                               PartLook{"in", "s0", "is in it"},
                               PartLook{"no dump", "unknown", "left no dump"},
                               PartLook{"behind", "s3", "enqueued it behind another call"},
                               PartLook{"missing", "h1", "never entered it"},
                               PartLook{"other", "h2", "entered another operation"},
                               PartLook{"cause", "h3", "never entered it, and waits for nobody: first cause"}};

struct HangMap {
  std::vector<int64_t> calls, ranks;
  std::vector<std::string> labels;
  std::map<std::pair<size_t, size_t>, size_t> cells;  // row and rank -> look
  std::vector<int64_t> causes;
};

HangMap hang_map_of(const RunView& run) {
  HangMap map;
  Query calls(
      run.db,
      "SELECT h.call, h.op, h.seq, coalesce(a.axis, c.label) FROM hang_call h JOIN communicator c ON c.id = h.comm LEFT JOIN"
      " communicator_axis a ON a.communicator = c.id WHERE h.world = ? AND h.depth IS NOT NULL ORDER BY h.call LIMIT ?");
  calls.bind(run.world, kMostCalls);
  while (calls.next()) {
    map.calls.push_back(calls.integer(0));
    const std::string number = calls.is_null(2) ? "" : fmt::format(" {}", calls.integer(2));
    std::string op = calls.text(1);
    if (op.starts_with('_')) op.erase(0, 1);
    map.labels.push_back(fmt::format("{}{}, {}", op, number, calls.text(3)));
  }
  Query ranks(
      run.db,
      "SELECT rank, fault IS NOT NULL AND call IS NULL, fault IS NOT NULL FROM hang_rank WHERE world = ? ORDER BY rank");
  ranks.bind(run.world);
  std::map<int64_t, size_t> column;
  while (ranks.next()) {
    column[ranks.integer(0)] = map.ranks.size();
    map.ranks.push_back(ranks.integer(0));
    if (ranks.integer(2) != 0) map.causes.push_back(ranks.integer(0));
  }
  Query members(run.db, "SELECT call, rank, part FROM hang_member WHERE world = ? AND call <= ? ORDER BY call");
  members.bind(run.world, map.calls.empty() ? 0 : map.calls.back());
  while (members.next()) {
    const auto row = std::lower_bound(map.calls.begin(), map.calls.end(), members.integer(0)) - map.calls.begin();
    std::string part = members.text(2);
    if (part == "missing" && std::binary_search(map.causes.begin(), map.causes.end(), members.integer(1)))
      part = "cause";
    const auto look = std::find_if(kLooks.begin(), kLooks.end(), [&](const PartLook& l) { return l.part == part; });
    if (look == kLooks.end()) continue;
    map.cells[{static_cast<size_t>(row), column[members.integer(1)]}] = static_cast<size_t>(look - kLooks.begin());
  }
  return map;
}

}  // namespace

std::vector<Figure> hang_calls(const RunView& run) {
  const HangMap map = hang_map_of(run);
  if (map.calls.empty() || map.ranks.empty()) return {};
  Query first(
      run.db,
      "SELECT sentence FROM finding WHERE world = ? AND id IN ('missing_rank', 'mismatched_calls') ORDER BY position LIMIT 1");
  first.bind(run.world);
  std::string caption = first.next() ? first.text(0) + "." : "Operations that had not completed.";
  if (caption[0] >= 'a' && caption[0] <= 'z') caption[0] = static_cast<char>(caption[0] - 'a' + 'A');
  Figure figure{.id = "hang", .title = "Who waits for whom, call by rank", .caption = caption, .data = hang_table(run)};
  figure.data.id.clear();
  figure.data.caption.clear();

  std::vector<LegendItem> legend;
  for (size_t look = kLooks.size(); look-- > 0;) {
    if (std::any_of(map.cells.begin(), map.cells.end(), [&](const auto& cell) { return cell.second == look; }))
      legend.push_back({kLooks[look].css, std::string(kLooks[look].name)});
  }
  const size_t per_column = (map.ranks.size() + kMostCellColumns - 1) / kMostCellColumns;
  const size_t columns = (map.ranks.size() + per_column - 1) / per_column;
  const double top = legend_height(legend) + 26, width = (kCallsRight - kCallsLeft) / static_cast<double>(columns);
  const double bottom = top + kCallHeight * static_cast<double>(map.calls.size());
  Chart chart(
      figure.id, figure.title,
      fmt::format(
          "A map with {} rows of operations and {} columns of ranks: whether the rank is in the operation, or never entered it.",
          map.calls.size(), columns),
      bottom + 40);
  draw_legend(chart, 0, legend);
  chart.rect(kCallsLeft, top, kCallsRight - kCallsLeft, bottom - top, "plot");
  std::map<std::pair<size_t, size_t>, size_t> shown;
  for (const auto& [place, look] : map.cells) {
    size_t& cell = shown.try_emplace({place.first, place.second / per_column}, 0).first->second;
    cell = std::max(cell, look);
  }
  const double gap = width > 6 ? 1 : 0;
  for (const auto& [place, look] : shown) {
    chart.rect(kCallsLeft + static_cast<double>(place.second) * width + gap / 2,
               top + static_cast<double>(place.first) * kCallHeight + 1, width - gap, kCallHeight - 2,
               kLooks[look].css);
  }
  constexpr size_t kLongest = 30;
  for (size_t row = 0; row < map.calls.size(); ++row) {
    std::string label = shown_name(map.labels[row]);
    if (label.size() > kLongest) label = label.substr(0, kLongest - 3) + "...";
    chart.text(kCallsLeft - 8, top + (static_cast<double>(row) + 0.5) * kCallHeight + 4.5, Anchor::kEnd, label);
  }
  std::vector<int64_t> numbers;
  for (size_t c = 0; c < columns; ++c) numbers.push_back(map.ranks[c * per_column]);
  draw_number_axis(chart, numbers, kCallsLeft, kCallsRight, bottom, 16);
  chart.text((kCallsLeft + kCallsRight) / 2, bottom + 34, Anchor::kMiddle, "rank");
  figure.svg = chart.take();
  figure.reading =
      "The first rows are the operations that a first cause keeps waiting. Each further row waits for ranks that are stuck in a row above it. An empty "
      "cell: the rank is not a member of the group.";
  if (per_column > 1)
    figure.reading += fmt::format(" A column stands for {}.", plural(static_cast<int64_t>(per_column), "rank"));
  return {std::move(figure)};
}

}  // namespace ddl::reports::html
