// Lateness, rank by step: how much later than the median rank each rank enters the collectives of a step. Since all
// members of a collective stop waiting at the same moment, that is the median rank's waiting less its own (as in the
// table of ranks; of those that may wait for each other).
//
// Ranks and steps beyond kMostRows and kMostColumns share a cell, which shows the latest rank of the cell by its mean
// over the cell's steps: a rank that is late for long is never averaged away by healthy neighbours. Cells of one shade
// are one path of runs.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "analyzer/query.h"
#include "analyzer/statistics.h"
#include "reports/format.h"
#include "reports/html/chart.h"
#include "reports/html/figure.h"

namespace ddl::reports::html {
namespace {

constexpr size_t kMostRows = 128, kMostColumns = 160;
constexpr double kMapLeft = 64, kMapRight = kWidth - 24;
// Shares of the median step from which a cell is so dark; below the first it is empty.
constexpr std::array kShades = {0.01, 0.03, 0.1, 0.3};
constexpr std::array<const char*, 4> kCss = {"h0", "h1", "h2", "h3"};

struct RankLateness {
  std::optional<int64_t> late_ns;  // in the mean step, as all outputs say
  double worst_ns = 0;
  int64_t worst_step = 0, steps = 0, latest = 0;  // latest: steps in which nobody was later
};

struct Lateness {
  std::vector<int64_t> ranks, steps;
  double step_ns = 0;  // median of the slowest rank's
  size_t ranks_per_row = 1, steps_per_column = 1;
  std::vector<RankLateness> by_rank;
  std::vector<int64_t> part_of_rank;  // Facts::part_of()
  std::vector<double> cells;          // row by row; NaN: not known
  size_t rows() const { return (ranks.size() + ranks_per_row - 1) / ranks_per_row; }
  size_t columns() const { return (steps.size() + steps_per_column - 1) / steps_per_column; }
};

std::vector<int64_t> numbers_of(const RunView& run, std::string_view sql) {
  std::vector<int64_t> numbers;
  Query row(run.db, sql);
  row.bind(run.world);
  while (row.next()) numbers.push_back(row.integer(0));
  return numbers;
}

// Sums of lateness of the ranks over the steps of one column, until the column is full.
class LatenessColumn {
 public:
  explicit LatenessColumn(size_t ranks) : sums_(ranks), counts_(ranks) {}
  void add(size_t rank, double late_ns) {
    sums_[rank] += late_ns;
    ++counts_[rank];
  }
  void write(Lateness& result, size_t column) {
    for (size_t rank = 0; rank < sums_.size(); ++rank) {
      if (counts_[rank] == 0) continue;
      double& cell = result.cells[rank / result.ranks_per_row * result.columns() + column];
      const double mean = sums_[rank] / counts_[rank];
      if (std::isnan(cell) || mean > cell) cell = mean;
    }
    std::fill(sums_.begin(), sums_.end(), 0);
    std::fill(counts_.begin(), counts_.end(), 0);
  }

 private:
  std::vector<double> sums_;
  std::vector<int> counts_;
};

using Waits = std::vector<std::pair<size_t, int64_t>>;  // rank's index, wait_ns

void add_step(Lateness& result, LatenessColumn& column, int64_t step, const Waits& waits) {
  if (waits.size() < 2) return;
  std::map<int64_t, std::vector<int64_t>> waits_of_part;
  for (const auto& [rank, wait_ns] : waits) waits_of_part[result.part_of_rank[rank]].push_back(wait_ns);
  std::map<int64_t, int64_t> middle_ns;
  for (auto& [part, all] : waits_of_part) middle_ns[part] = upper_median_of(std::move(all));
  size_t latest = waits.front().first;
  double latest_ns = -INFINITY;
  for (const auto& [rank, wait_ns] : waits) {
    const auto late_ns = static_cast<double>(middle_ns.at(result.part_of_rank[rank]) - wait_ns);
    column.add(rank, late_ns);
    RankLateness& total = result.by_rank[rank];
    if (total.steps++ == 0 || late_ns > total.worst_ns) total.worst_ns = late_ns, total.worst_step = step;
    if (late_ns > latest_ns) latest = rank, latest_ns = late_ns;
  }
  ++result.by_rank[latest].latest;
}

Lateness lateness_of(const RunView& run) {
  Lateness result;
  result.ranks = numbers_of(run, "SELECT DISTINCT rank FROM steady_part WHERE world = ? ORDER BY rank");
  result.steps = numbers_of(run, "SELECT step FROM steady_step WHERE world = ? ORDER BY step");
  std::vector<int64_t> durations = numbers_of(run, "SELECT longest_ns FROM steady_step WHERE world = ? ORDER BY 1");
  if (result.ranks.size() < 2 || result.steps.empty()) return result;
  result.step_ns = static_cast<double>(durations[durations.size() / 2]);
  result.ranks_per_row = (result.ranks.size() + kMostRows - 1) / kMostRows;
  result.steps_per_column = (result.steps.size() + kMostColumns - 1) / kMostColumns;
  result.by_rank.resize(result.ranks.size());
  for (const int64_t rank : result.ranks) result.part_of_rank.push_back(run.facts.part_of(rank));
  for (const RankFacts& facts : run.facts.ranks) {
    const auto at = std::lower_bound(result.ranks.begin(), result.ranks.end(), facts.rank);
    if (at != result.ranks.end() && *at == facts.rank)
      result.by_rank[static_cast<size_t>(at - result.ranks.begin())].late_ns = facts.late_ns;
  }
  result.cells.assign(result.rows() * result.columns(), NAN);

  // As RankFacts::late_ns: of GPUs all waiting inside their collectives, of several the mean.
  Query row(run.db, R"(
    WITH device AS (
      SELECT p.rank, g.step, iif(count(g.wait_ns) = count(*), CAST(avg(g.wait_ns) AS INTEGER), NULL) AS wait_ns
      FROM gpu_part g
      JOIN process p ON p.id = g.process
      JOIN rank_resource r ON r.world = p.world AND r.rank = p.rank AND r.resource = 'device'
      JOIN steady_number n ON n.world = p.world AND n.step = g.step
      WHERE p.world = ?1 AND ?2
      GROUP BY p.rank, g.step
    )
    SELECT s.step, s.rank, iif(d.rank IS NULL, s.wait_ns, d.wait_ns)
    FROM steady_part s
    LEFT JOIN device d ON d.rank = s.rank AND d.step = s.step
    WHERE s.world = ?1
    ORDER BY s.step, s.rank)");
  row.bind(run.world, run.facts.waits_by == Resource::kDevice);
  LatenessColumn column(result.ranks.size());
  Waits waits;
  size_t at = 0;  // index of the step
  const auto finish_step = [&] {
    add_step(result, column, result.steps[at], waits);
    waits.clear();
    if ((at + 1) % result.steps_per_column == 0 || at + 1 == result.steps.size())
      column.write(result, at / result.steps_per_column);
  };
  while (row.next()) {
    while (result.steps[at] < row.integer(0)) finish_step(), ++at;
    const auto rank = std::lower_bound(result.ranks.begin(), result.ranks.end(), row.integer(1)) - result.ranks.begin();
    if (!row.is_null(2)) waits.emplace_back(static_cast<size_t>(rank), row.integer(2));
  }
  finish_step();
  return result;
}

// -1: empty; kShades.size(): not known.
int shade_of(double late_ns, double step_ns) {
  if (std::isnan(late_ns)) return static_cast<int>(kShades.size());
  return static_cast<int>(std::upper_bound(kShades.begin(), kShades.end(), late_ns / step_ns) - kShades.begin()) - 1;
}

void draw_cells(Chart& chart, const Lateness& map, double top, double height) {
  std::array<std::string, kShades.size() + 1> paths;
  const size_t columns = map.columns();
  for (size_t r = 0; r < map.rows(); ++r) {
    for (size_t c = 0; c < columns;) {
      const int shade = shade_of(map.cells[r * columns + c], map.step_ns);
      size_t end = c + 1;
      while (end < columns && shade_of(map.cells[r * columns + end], map.step_ns) == shade) ++end;
      if (shade >= 0) paths[static_cast<size_t>(shade)] += fmt::format("M{} {}h{}v1h-{}z", c, r, end - c, end - c);
      c = end;
    }
  }
  chart.rect(kMapLeft, top, kMapRight - kMapLeft, height, "plot");
  chart.begin_scaled(kMapLeft, top, (kMapRight - kMapLeft) / static_cast<double>(columns),
                     height / static_cast<double>(map.rows()));
  for (size_t shade = 0; shade < paths.size(); ++shade)
    if (!paths[shade].empty()) chart.path(paths[shade], shade < kCss.size() ? kCss[shade] : "unknown");
  chart.end_group();
}

std::vector<LegendItem> legend_of(const Lateness& map) {
  std::vector<LegendItem> legend;
  for (size_t i = 0; i < kShades.size(); ++i)
    legend.push_back({kCss[i], fmt::format("late by {:.0f}% of a step ({})", kShades[i] * 100,
                                           short_duration(std::llround(kShades[i] * map.step_ns)))});
  if (std::any_of(map.cells.begin(), map.cells.end(), [](double cell) { return std::isnan(cell); }))
    legend.push_back({"unknown", "not known"});
  return legend;
}

std::string caption_of(const Lateness& map) {
  const auto mean = [](const RankLateness& rank) {
    return rank.late_ns ? static_cast<double>(*rank.late_ns) : -INFINITY;
  };
  size_t most = 0, worst = 0;
  for (size_t i = 0; i < map.ranks.size(); ++i) {
    if (mean(map.by_rank[i]) > mean(map.by_rank[most])) most = i;
    if (map.by_rank[i].worst_ns > map.by_rank[worst].worst_ns) worst = i;
  }
  const RankLateness& late = map.by_rank[most];
  if (late.steps == 0) return "Nobody knows who was late: waiting could not be told from transferring.";
  const std::string moment =
      fmt::format("The worst moment is rank {} in step {}: {} late.", map.ranks[worst], map.by_rank[worst].worst_step,
                  short_duration(std::llround(map.by_rank[worst].worst_ns)));
  if (mean(late) < kShades[0] * map.step_ns)
    return fmt::format("No rank is late by more than {:.0f}% of a step in the mean. {}", kShades[0] * 100, moment);
  return fmt::format("Rank {} is late by {} in the mean step, and the latest of all in {} of them. {}", map.ranks[most],
                     short_duration(std::llround(mean(late))),
                     percent_text(static_cast<double>(late.latest) / static_cast<double>(late.steps)), moment);
}

Table data_of(const Lateness& map) {
  Table table{.columns = {{"rank", "Rank", Unit::kCount},
                          {"late_ns", "Late in the mean", Unit::kDuration},
                          {"worst_ns", "Worst", Unit::kDuration},
                          {"worst_step", "In step", Unit::kCount},
                          {"latest_ratio", "Latest of all in", Unit::kRatio}}};
  for (size_t i = 0; i < map.ranks.size(); ++i) {
    const RankLateness& rank = map.by_rank[i];
    const auto known = [&](Unit unit, Value value) { return rank.steps == 0 ? Value::absent(unit) : value; };
    const double steps = std::max(1.0, static_cast<double>(rank.steps));
    table.rows.push_back({Value::count(map.ranks[i]),
                          rank.late_ns ? Value::duration_ns(*rank.late_ns) : Value::absent(Unit::kDuration),
                          known(Unit::kDuration, Value::duration_ns(std::llround(rank.worst_ns))),
                          known(Unit::kCount, Value::count(rank.worst_step)),
                          known(Unit::kRatio, Value::ratio(static_cast<double>(rank.latest) / steps))});
  }
  return table;
}

}  // namespace

std::vector<Figure> lateness_map(const RunView& run) {
  if (!run.has_steps) return {};
  const Lateness map = lateness_of(run);
  if (map.cells.empty() || !(map.step_ns > 0)) return {};
  Figure figure{.id = "late", .title = "Lateness, rank by step", .caption = caption_of(map), .data = data_of(map)};
  const std::vector<LegendItem> legend = legend_of(map);
  const double row_height = std::clamp(320.0 / static_cast<double>(map.rows()), 3.0, 24.0);
  const double top = legend_height(legend) + 22, height = row_height * static_cast<double>(map.rows()),
               bottom = top + height;
  Chart chart(
      figure.id, figure.title,
      fmt::format(
          "A map with {} rows of ranks and {} columns of steps. The stronger the shade of a cell, the later the rank "
          "enters the collectives of the step.",
          map.rows(), map.columns()),
      bottom + 38);
  draw_legend(chart, 0, legend);
  chart.text(kMapLeft - 8, top - 6, Anchor::kEnd, "rank");
  draw_cells(chart, map, top, height);
  const auto every = static_cast<size_t>(std::ceil(13 / row_height));
  for (size_t r = 0; r < map.rows(); r += every)
    chart.text(kMapLeft - 8, top + (static_cast<double>(r) + 0.5) * row_height + 4.5, Anchor::kEnd,
               std::to_string(map.ranks[r * map.ranks_per_row]));
  std::vector<int64_t> first_steps;
  for (size_t c = 0; c < map.columns(); ++c) first_steps.push_back(map.steps[c * map.steps_per_column]);
  draw_number_axis(chart, first_steps, kMapLeft, kMapRight, bottom, 10);
  chart.text((kMapLeft + kMapRight) / 2, bottom + 34, Anchor::kMiddle, "step");
  figure.svg = chart.take();
  figure.reading = "A row that stands out is a slow rank, a column a step in which ranks differ.";
  if (map.ranks_per_row > 1 || map.steps_per_column > 1)
    figure.reading +=
        fmt::format(" A cell stands for {} and {}: the latest of these ranks, in the mean of these steps.",
                    plural(static_cast<int64_t>(map.ranks_per_row), "rank"),
                    plural(static_cast<int64_t>(map.steps_per_column), "step"));
  return {std::move(figure)};
}

}  // namespace ddl::reports::html
