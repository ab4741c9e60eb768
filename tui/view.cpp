#include "tui/view.h"

#include <algorithm>
#include <map>

namespace ddl::tui {
namespace {

/// What a row is sorted by, the largest first; rows without come last.
std::optional<double> sort_value(const RankRow& row, Column column) {
  switch (column) {
    case Column::kRank:
      return -static_cast<double>(row.rank);
    case Column::kNode:
      return std::nullopt;
    case Column::kLate:
      return row.late_ns;
    case Column::kWait:
      return row.wait_ns;
    case Column::kStep:
      return row.step_ns;
    case Column::kGpu:
      return row.gpu_ratio;
  }
  return std::nullopt;
}

bool before(const RankRow& a, const RankRow& b, const View& view) {
  if (view.sort == Column::kNode && a.node != b.node) return view.inverted ? a.node > b.node : a.node < b.node;
  if (view.sort == Column::kLate && a.alarm != b.alarm) return a.alarm != view.inverted;
  const auto va = sort_value(a, view.sort), vb = sort_value(b, view.sort);
  if (va.has_value() != vb.has_value()) return va.has_value();
  if (va && *va != *vb) return view.inverted ? *va < *vb : *va > *vb;
  return a.rank < b.rank;
}

}  // namespace

const char* name_of(Column column) {
  constexpr const char* kNames[kColumns] = {"RANK", "NODE", "LATE", "WAIT", "STEP", "GPU"};
  return kNames[static_cast<size_t>(column)];
}

std::vector<Line> visible_lines(const Snapshot& s, const View& view) {
  std::vector<Line> lines;
  for (const RankRow& row : s.ranks) {
    if (view.filter.matches(row)) lines.push_back({&row, false, 1, false});
  }
  std::stable_sort(lines.begin(), lines.end(),
                   [&](const Line& a, const Line& b) { return before(*a.row, *b.row, view); });
  if (!view.by_node) return lines;
  std::vector<Line> grouped;
  std::map<std::string, std::vector<Line>> nodes;
  std::vector<std::string> order;  // of the worst rank
  for (const Line& line : lines) {
    auto& of_node = nodes[line.row->node];
    if (of_node.empty()) order.push_back(line.row->node);
    of_node.push_back(line);
  }
  for (const std::string& node : order) {
    auto& of_node = nodes[node];
    grouped.push_back({of_node.front().row, true, static_cast<int>(of_node.size()), false});
    if (std::find(view.open_nodes.begin(), view.open_nodes.end(), node) == view.open_nodes.end()) continue;
    for (Line line : of_node) {
      line.inside = true;
      grouped.push_back(line);
    }
  }
  return grouped;
}

}  // namespace ddl::tui
