// A bar per rank (or GPU), cut by what its step went for. Beyond kMostBars ranks: the same standing side by side, one column a rank.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "reports/format.h"
#include "reports/html/chart.h"
#include "reports/html/figure.h"
#include "reports/html/shares.h"

namespace ddl::reports::html {
namespace {

constexpr size_t kMostBars = 64;
constexpr double kLeft = 64, kRight = kWidth - 24;

std::string label_of(const Share& share) {
  return share.device ? fmt::format("{}/{}", share.rank, *share.device) : fmt::format("{}", share.rank);
}

std::vector<Category> used_categories(const std::vector<Share>& shares) {
  std::vector<Category> used;
  for (const Category& category : kCategories)
    if (std::any_of(shares.begin(), shares.end(), [&](const Share& share) { return share.*category.part > 0; })) used.push_back(category);
  return used;
}

std::string tip_of(const Share& share, const std::vector<Category>& categories) {
  std::string tip = fmt::format("rank {}:", label_of(share));
  for (const Category& category : categories)
    tip += fmt::format("{} {} {}", &category == &categories.front() ? "" : ",", category.name,
                       short_duration(std::llround(share.*category.part)));
  return tip;
}

void draw_bars(Chart& chart, const std::vector<Share>& shares, const std::vector<Category>& categories, double top, double row_height,
               const Scale& x) {
  const size_t label_every = row_height >= 12 ? 1 : 8;
  for (size_t i = 0; i < shares.size(); ++i) {
    const double y = top + static_cast<double>(i) * row_height;
    if (i % label_every == 0) chart.text(kLeft - 8, y + row_height / 2 + 4.5, Anchor::kEnd, label_of(shares[i]));
    chart.begin_group(tip_of(shares[i], categories));
    double from_ns = 0;
    for (const Category& category : categories) {
      const double part_ns = shares[i].*category.part;
      if (x(part_ns) - x(0) >= 0.1) chart.rect(x(from_ns), y + 1, x(from_ns + part_ns) - x(from_ns), row_height - 2, category.css);
      from_ns += part_ns;
    }
    chart.end_group();
  }
}

// Painted from the last category to the first, each from the bottom to the sum of all up to it: one path a category.
void draw_columns(Chart& chart, const std::vector<Share>& shares, const std::vector<Category>& categories, double bottom, const Scale& y) {
  const double width = (kRight - kLeft) / static_cast<double>(shares.size());
  for (size_t top = categories.size(); top-- > 0;) {
    std::string d = fmt::format("M{} {}", coordinate(kLeft), coordinate(bottom));
    std::string before;
    for (size_t i = 0; i < shares.size(); ++i) {
      double sum_ns = 0;
      for (size_t c = 0; c <= top; ++c) sum_ns += shares[i].*categories[c].part;
      const std::string height = coordinate(y(sum_ns));
      if (height != before) {
        if (i > 0) d.append("H").append(coordinate(kLeft + static_cast<double>(i) * width));
        d.append("V").append(height);
      }
      before = height;
    }
    d += fmt::format("H{}V{}z", coordinate(kRight), coordinate(bottom));
    chart.path(d, categories[top].css);
  }
}

Table data_of(const std::vector<Share>& shares, const std::vector<Category>& categories, bool gpus) {
  Table table{
      .id = {}, .caption = {}, .columns = {{"rank", gpus ? "Rank/GPU" : "Rank", Unit::kText}}, .rows = {}, .note = {}, .when_empty = {}};
  for (const Category& category : categories) table.columns.push_back({category.key, category.name, Unit::kDuration});
  for (const Share& share : shares) {
    auto& cells = table.rows.emplace_back();
    cells.push_back(Value::text(label_of(share)));
    for (const Category& category : categories) cells.push_back(Value::duration_ns(std::llround(share.*category.part)));
  }
  return table;
}

std::string caption_of(const std::vector<Share>& shares, const std::vector<Category>& categories, std::string_view whole) {
  double all_ns = 0;
  for (const Share& share : shares) all_ns += share.total_ns();
  std::vector<double> parts;
  for (const Category& category : categories) {
    double sum_ns = 0;
    for (const Share& share : shares) sum_ns += share.*category.part;
    parts.push_back(all_ns > 0 ? sum_ns / all_ns : 0);
  }
  parts = round_shares(parts);
  std::string text = fmt::format("Of {}", whole);
  for (size_t c = 0; c < categories.size(); ++c)
    text += fmt::format("{} {} is {}", c == 0 ? "" : c + 1 == categories.size() ? " and" : ",", percent_text(parts[c]), categories[c].name);
  text += ".";
  const auto less_wait = [](const Share& a, const Share& b) { return a.wait_ns < b.wait_ns; };
  const auto [least, most] = std::minmax_element(shares.begin(), shares.end(), less_wait);
  if (shares.size() > 1 && most->wait_ns > 0)
    text += fmt::format(" Rank {} waits longest ({}), rank {} least ({}): who waits least is who the others wait for.", label_of(*most),
                        short_duration(std::llround(most->wait_ns)), label_of(*least), short_duration(std::llround(least->wait_ns)));
  return text;
}

Figure draw(const RunView& run, const std::vector<Share>& shares, bool gpus) {
  Figure figure;
  figure.id = gpus ? "where-gpus" : "where";
  const char* whole = run.has_steps ? "a step" : "the run";
  figure.title = fmt::format("Where {} goes, by {}", whole, gpus ? "GPU" : "rank");
  const std::vector<Category> categories = used_categories(shares);
  double longest_ns = 1;
  for (const Share& share : shares) longest_ns = std::max(longest_ns, share.total_ns());
  std::vector<LegendItem> legend;
  for (const Category& category : categories) legend.push_back({category.css, category.name});

  const bool bars = shares.size() <= kMostBars;
  const double row_height = std::clamp(480.0 / static_cast<double>(shares.size()), 9.0, 26.0);
  const double plot_height = bars ? row_height * static_cast<double>(shares.size()) : 300;
  const double top = legend_height(legend) + 22, bottom = top + plot_height;
  const std::string description =
      fmt::format("{} for each of {} {}s: how much of {} went for {}.", bars ? "A bar" : "A column", shares.size(), gpus ? "GPU" : "rank",
                  whole, "each category; the numbers are in the table below");
  Chart chart(figure.id, figure.title, description, bottom + 24);
  draw_legend(chart, 0, legend);
  if (bars) {
    const Scale x{.from = 0, .to = longest_ns, .begin = kLeft, .end = kRight};
    chart.text(kLeft - 8, top - 6, Anchor::kEnd, gpus ? "rank/GPU" : "rank");
    draw_time_axis(chart, x, top, bottom);
    draw_bars(chart, shares, categories, top, row_height, x);
  } else {
    const Scale y{.from = 0, .to = longest_ns, .begin = bottom, .end = top};
    for (const double tick : round_ticks(0, longest_ns, 4)) {
      chart.line(kLeft - 4, y(tick), kRight, y(tick), "grid");
      chart.text(kLeft - 8, y(tick) + 4, Anchor::kEnd, tick == 0 ? "0" : short_duration(std::llround(tick)));
    }
    draw_columns(chart, shares, categories, bottom, y);
    chart.text(kLeft, bottom + 17, Anchor::kStart, fmt::format("rank {}", label_of(shares.front())));
    chart.text(kRight, bottom + 17, Anchor::kEnd, fmt::format("rank {}", label_of(shares.back())));
  }
  figure.svg = chart.take();
  figure.caption = caption_of(shares, categories, whole);
  figure.reading = fmt::format(
      "Mean over {}. All ranks of a synchronous job take the same time for a step, so the ends of the bars tell nothing; the one that "
      "does not wait does.",
      run.has_steps ? plural(run.steps, "steady step") : "the whole run");
  figure.data = data_of(shares, categories, gpus);
  return figure;
}

}  // namespace

std::vector<Figure> where_a_step_goes(const RunView& run) {
  std::vector<Figure> figures;
  if (const std::vector<Share> gpus = shares_of_gpus(run); !gpus.empty()) figures.push_back(draw(run, gpus, true));
  if (const std::vector<Share> ranks = shares_of_ranks(run); !ranks.empty()) figures.push_back(draw(run, ranks, false));
  return figures;
}

}  // namespace ddl::reports::html
