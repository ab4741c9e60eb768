// A bar per rank (or GPU), cut by what its step went for. Beyond kMostBars ranks: the same standing side by side, one column a rank.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "reports/format.h"
#include "reports/html/bars.h"
#include "reports/html/chart.h"
#include "reports/html/figure.h"
#include "reports/html/shares.h"

namespace ddl::reports::html {
namespace {

constexpr size_t kMostBars = 64;
constexpr double kLeft = 72, kRight = kWidth - 24, kHeight = 300;  // of columns

std::string label_of(const Share& share) {
  return share.device ? fmt::format("{}/{}", share.rank, *share.device) : fmt::format("{}", share.rank);
}

std::vector<Category> used_categories(const std::vector<Share>& shares) {
  std::vector<Category> used;
  for (const Category& category : kCategories)
    if (std::any_of(shares.begin(), shares.end(), [&](const Share& share) { return share.*category.part > 0; })) used.push_back(category);
  return used;
}

// Painted from the last category to the first, each from the bottom to the sum of all up to it: one path a category.
std::string draw_columns(const Figure& figure, const std::vector<Share>& shares, const std::vector<Category>& categories) {
  std::vector<LegendItem> legend;
  for (const Category& category : categories) legend.push_back({category.css, category.name});
  const double top = legend_height(legend) + 8, bottom = top + kHeight;
  Chart chart(figure.id, figure.title,
              fmt::format("A column for each of {}, one beside the other, cut into what its time went for.",
                          plural(static_cast<int64_t>(shares.size()), "rank")),
              bottom + 24);
  draw_legend(chart, 0, legend);
  double longest_ns = 1;
  for (const Share& share : shares) longest_ns = std::max(longest_ns, share.total_ns());
  const Scale y{.from = 0, .to = longest_ns, .begin = bottom, .end = top};
  draw_time_axis_left(chart, y, kLeft, kRight);
  const double width = (kRight - kLeft) / static_cast<double>(shares.size());
  for (size_t highest = categories.size(); highest-- > 0;) {
    std::string d = fmt::format("M{} {}", coordinate(kLeft), coordinate(bottom));
    std::string before;
    for (size_t i = 0; i < shares.size(); ++i) {
      double sum_ns = 0;
      for (size_t c = 0; c <= highest; ++c) sum_ns += shares[i].*categories[c].part;
      const std::string height = coordinate(y(sum_ns));
      if (height == before) continue;
      if (i > 0) d.append("H").append(coordinate(kLeft + static_cast<double>(i) * width));
      d.append("V").append(height);
      before = height;
    }
    d += fmt::format("H{}V{}z", coordinate(kRight), coordinate(bottom));
    chart.path(d, categories[highest].css);
  }
  chart.text(kLeft, bottom + 17, Anchor::kStart, fmt::format("rank {}", label_of(shares.front())));
  chart.text(kRight, bottom + 17, Anchor::kEnd, fmt::format("rank {}", label_of(shares.back())));
  return chart.take();
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
  std::vector<std::string> words;  // what rounds to nothing is in the table
  for (size_t c = 0; c < categories.size(); ++c)
    if (parts[c] > 0) words.push_back(fmt::format("{} is {}", percent_text(parts[c]), categories[c].name));
  std::string text = fmt::format("Of {} ", whole);
  for (size_t i = 0; i < words.size(); ++i) text += (i == 0 ? "" : i + 1 == words.size() ? " and " : ", ") + words[i];
  text += ".";
  const auto less_wait = [](const Share& a, const Share& b) { return a.wait_ns < b.wait_ns; };
  const auto [least, most] = std::minmax_element(shares.begin(), shares.end(), less_wait);
  if (shares.size() > 1 && most->wait_ns > 0)
    text += fmt::format(" Rank {} waits longest ({}), rank {} least ({}): who waits least is who the others wait for.", label_of(*most),
                        short_duration(std::llround(most->wait_ns)), label_of(*least), short_duration(std::llround(least->wait_ns)));
  return text;
}

Figure draw(const RunView& run, const std::vector<Share>& shares, bool gpus, std::string_view where) {
  Figure figure;
  figure.id = gpus ? "where-gpus" : "where";
  const char* whole = run.has_steps ? "a step" : "the run";
  figure.title = fmt::format("Where {} goes{}, by {}", whole, where, gpus ? "GPU" : "rank");
  const std::vector<Category> categories = used_categories(shares);
  if (shares.size() <= kMostBars) {
    Bars bars{.id = figure.id,
              .title = figure.title,
              .description = {},
              .heading = gpus ? "rank/GPU" : "rank",
              .parts = {},
              .bars = {},
              .share_rows = true};
    bars.description = fmt::format("A bar for each of {} {}s, cut into what {} went for.", shares.size(), gpus ? "GPU" : "rank", whole);
    for (const Category& category : categories) bars.parts.push_back({category.name, category.css});
    for (const Share& share : shares) {
      Bar& bar = bars.bars.emplace_back(Bar{.name = label_of(share), .parts_ns = {}});
      for (const Category& category : categories) bar.parts_ns.push_back(share.*category.part);
    }
    figure.svg = draw_bars(bars);
  } else {
    figure.svg = draw_columns(figure, shares, categories);
  }
  figure.caption = caption_of(shares, categories, whole);
  figure.reading = fmt::format("Mean over {}.", run.has_steps ? plural(run.steps, "steady step") : "the whole run");
  if (shares.size() > 1)
    figure.reading +=
        " All ranks of a synchronous job take the same time for a step, so the ends of the bars tell nothing; the one that does not wait "
        "does.";
  figure.data = data_of(shares, categories, gpus);
  return figure;
}

}  // namespace

std::vector<Figure> where_a_step_goes(const RunView& run) {
  std::vector<Figure> figures;
  if (const std::vector<Share> gpus = shares_of_gpus(run); !gpus.empty()) figures.push_back(draw(run, gpus, true, ""));
  // A process that only feeds a GPU does nothing but compute, as far as its calls of MPI tell.
  const std::vector<Share> ranks = shares_of_ranks(run);
  const bool communicates = std::any_of(ranks.begin(), ranks.end(), [](const Share& share) { return share.compute_ns < share.total_ns(); });
  if (!ranks.empty() && (figures.empty() || communicates))
    figures.push_back(draw(run, ranks, false, figures.empty() ? "" : " on the host"));
  return figures;
}

}  // namespace ddl::reports::html
