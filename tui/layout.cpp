#include "tui/draw.h"

#include <algorithm>

namespace ddl::tui {
namespace {

constexpr int kWideWidth = 120, kWideHeight = 30;
constexpr int kFewCollectives = 3;
constexpr int kLeastHistory = 5;

std::vector<Placed> stacked(Size size, const Contents& c) {
  const int width = size.width, height = size.height;
  // What a taller screen adds, in this order.
  const int headline = c.headline > width && c.headline <= 2 * width - 8 && height >= 16 ? 2 : 1;
  const bool numbers = height >= 6, bar = height >= 7, status = height >= 13 && width >= 60, legend = height >= 12;
  const bool trend = height >= 11 && width >= 60;
  int left = height - 2 - headline - numbers - bar - status - legend - trend;
  const int wanted_ranks = c.panels[0] ? 1 + std::max(1, c.ranks) : 0;
  int collectives = c.panels[1 + 1] && height >= 18 ? 1 + std::clamp(c.collectives, 1, kFewCollectives) : 0;
  const int ranks = std::min(wanted_ranks, left - collectives);
  left -= ranks + collectives;
  if (collectives > 0) {
    const int more = std::clamp(c.collectives - kFewCollectives, 0, left);
    collectives += more;
    left -= more;
  }
  int layers = c.panels[1] && c.layers > 0 && left >= 4 ? std::min(1 + c.layers, left) : 0;
  left -= layers;
  const int history = c.panels[3] && c.history > 1 && left >= kLeastHistory ? std::min(left, 12) : 0;

  std::vector<Placed> placed;
  int y = 0;
  const auto add = [&](Area area, int rows) {
    if (rows > 0) placed.push_back({area, {0, y, width, rows}});
    y += rows;
  };
  add(Area::kTitle, 1);
  add(Area::kNumbers, numbers);
  add(Area::kTrend, trend);
  add(Area::kBar, bar);
  add(Area::kHeadline, headline);
  add(Area::kRanks, ranks);
  add(Area::kStatus, status);
  add(Area::kCollectives, collectives);
  add(Area::kLayers, layers);
  add(Area::kHistory, history);
  y = height - 1 - legend;
  add(Area::kLegend, legend);
  add(Area::kKeys, 1);
  return placed;
}

std::vector<Placed> side_by_side(Size size, const Contents& c) {
  const auto [width, height] = size;
  const int right = std::clamp(width * 38 / 100, 46, 70);
  const int left = width - right - 1;
  const bool legend_below = width >= 150;  // beside the keys
  const int headline = c.headline > width ? 2 : 1;
  const int top = 3 + headline;
  const int body = height - top - (legend_below ? 1 : 2);
  // Each part what it needs, the history what is left.
  const bool ranks = c.panels[0], layers = c.panels[1] && c.layers > 0;
  const int least_history = c.panels[3] ? std::clamp(body / 4, 6, 18) : 0;
  const int needed = c.panels[2] ? std::clamp(2 + c.collectives, 7, std::max(7, body / 4)) : 0;
  const int rows = ranks || layers ? 2 + std::max({ranks ? c.ranks : 0, layers ? c.layers : 0, 4}) : 0;
  const bool spread = !c.panels[3] && rows > 0;  // no history to take the rest
  const int upper = spread ? body - needed : std::min(rows, body - least_history - needed);
  const int history = c.panels[3] ? body - upper - needed : 0;
  const int lower = c.panels[2] ? body - upper - history : 0;
  std::vector<Placed> placed = {{Area::kTitle, {0, 0, width, 1}},
                                {Area::kNumbers, {0, 1, width, 1}},
                                {Area::kBar, {0, 2, width, 1}},
                                {Area::kHeadline, {0, 3, width, headline}}};
  if (ranks) placed.push_back({Area::kRanks, {0, top, layers ? left : width, upper}});
  if (layers) placed.push_back({Area::kLayers, {ranks ? left + 1 : 0, top, ranks ? right : width, upper}});
  if (lower > 0) {
    placed.push_back({Area::kCollectives, {0, top + upper, left, lower}});
    placed.push_back({Area::kAdvice, {left + 1, top + upper, right, lower}});
  }
  if (history > 0) placed.push_back({Area::kHistory, {0, top + upper + lower, width, history}});
  if (legend_below) {
    placed.push_back({Area::kKeys, {0, height - 1, width - 74, 1}});
    placed.push_back({Area::kLegend, {width - 74, height - 1, 74, 1}});
  } else {
    placed.push_back({Area::kLegend, {0, height - 2, width, 1}});
    placed.push_back({Area::kKeys, {0, height - 1, width, 1}});
  }
  return placed;
}

}  // namespace

bool is_wide(Size size) { return size.width >= kWideWidth && size.height >= kWideHeight; }

std::vector<Placed> layout(Size size, const Contents& contents) {
  return is_wide(size) ? side_by_side(size, contents) : stacked(size, contents);
}

}  // namespace ddl::tui
