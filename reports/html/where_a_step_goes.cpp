// A bar per rank (or GPU), cut by what its step went for. Beyond kWhereMostBars ranks: the same standing side by side,
// one column a rank.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "reports/format.h"
#include "reports/html/bars.h"
#include "reports/html/chart.h"
#include "reports/html/figure.h"
#include "reports/html/shares.h"
#include "reports/html/step_lanes.h"

namespace ddl::reports::html {
namespace {

constexpr size_t kWhereMostBars = 64;
constexpr double kWhereLeft = 72, kWhereRight = kWidth - 24, kWhereHeight = 300;  // of columns

std::string label_of(const ResourceTime& share) {
  return share.device ? fmt::format("{}/{}", share.rank, *share.device) : fmt::format("{}", share.rank);
}

std::vector<Category> used_categories(const std::vector<ResourceTime>& shares) {
  std::vector<Category> used;
  for (const Category& category : kCategories)
    if (std::any_of(shares.begin(), shares.end(),
                    [&](const ResourceTime& share) { return share.mean.*category.part > 0; }))
      used.push_back(category);
  return used;
}

// Painted from the last category to the first, each from the bottom to the sum of all up to it: one path a category.
std::string draw_columns(const Figure& figure, const std::vector<ResourceTime>& shares,
                         const std::vector<Category>& categories) {
  std::vector<LegendItem> legend;
  for (const Category& category : categories) legend.push_back({category.css, category.name});
  const double top = legend_height(legend) + 8, bottom = top + kWhereHeight;
  Chart chart(figure.id, figure.title,
              fmt::format("A column for each of {}, one beside the other, cut into what its time went for.",
                          plural(static_cast<int64_t>(shares.size()), "rank")),
              bottom + 24);
  draw_legend(chart, 0, legend);
  double longest_ns = 1;
  for (const ResourceTime& share : shares) longest_ns = std::max(longest_ns, share.mean.total_ns());
  const Scale y{.from = 0, .to = longest_ns, .begin = bottom, .end = top};
  draw_time_axis_left(chart, y, kWhereLeft, kWhereRight);
  const double width = (kWhereRight - kWhereLeft) / static_cast<double>(shares.size());
  for (size_t highest = categories.size(); highest-- > 0;) {
    std::string d = fmt::format("M{} {}", coordinate(kWhereLeft), coordinate(bottom));
    std::string before;
    for (size_t i = 0; i < shares.size(); ++i) {
      double sum_ns = 0;
      for (size_t c = 0; c <= highest; ++c) sum_ns += shares[i].mean.*categories[c].part;
      const std::string height = coordinate(y(sum_ns));
      if (height == before) continue;
      if (i > 0) d.append("H").append(coordinate(kWhereLeft + static_cast<double>(i) * width));
      d.append("V").append(height);
      before = height;
    }
    d += fmt::format("H{}V{}z", coordinate(kWhereRight), coordinate(bottom));
    chart.path(d, categories[highest].css);
  }
  chart.text(kWhereLeft, bottom + 17, Anchor::kStart, fmt::format("rank {}", label_of(shares.front())));
  chart.text(kWhereRight, bottom + 17, Anchor::kEnd, fmt::format("rank {}", label_of(shares.back())));
  return chart.take();
}

Table data_of(const std::vector<ResourceTime>& shares, const std::vector<Category>& categories, bool gpus) {
  Table table{.columns = {{"rank", gpus ? "Rank/GPU" : "Rank", Unit::kText}}};
  for (const Category& category : categories) table.columns.push_back({category.key, category.name, Unit::kDuration});
  for (const ResourceTime& share : shares) {
    auto& cells = table.rows.emplace_back();
    cells.push_back(Value::text(label_of(share)));
    for (const Category& category : categories)
      cells.push_back(Value::duration_ns(std::llround(share.mean.*category.part)));
  }
  return table;
}

std::string caption_of(const std::vector<ResourceTime>& shares, const JobTime& time,
                       const std::vector<Category>& categories, std::string_view whole) {
  std::vector<double> parts;
  for (const Category& category : categories) parts.push_back(time.shown_share(category.part));
  std::vector<std::string> words;  // what rounds to nothing is in the table
  for (size_t c = 0; c < categories.size(); ++c)
    if (parts[c] > 0) words.push_back(fmt::format("{} {}", percent_text(parts[c]), categories[c].name));
  std::string text = fmt::format("Parts of {}: ", whole);
  for (size_t i = 0; i < words.size(); ++i) text += (i == 0 ? "" : i + 1 == words.size() ? " and " : ", ") + words[i];
  text += ".";
  const auto less_wait = [](const ResourceTime& a, const ResourceTime& b) { return a.mean.wait_ns < b.mean.wait_ns; };
  const auto [least, most] = std::minmax_element(shares.begin(), shares.end(), less_wait);
  if (shares.size() > 1 && most->mean.wait_ns > 0)
    text += fmt::format(" Rank {} waits longest ({}), rank {} least ({}): who waits least is who the others wait for.",
                        label_of(*most), short_duration(std::llround(most->mean.wait_ns)), label_of(*least),
                        short_duration(std::llround(least->mean.wait_ns)));
  return text;
}

Figure draw(const RunView& run, const std::vector<ResourceTime>& shares, bool gpus, std::string_view where) {
  Figure figure;
  figure.id = gpus ? "where-gpus" : "where";
  const char* whole = run.has_steps ? "a step" : "the run";
  figure.title = fmt::format("Where {} goes{}, by {}", whole, where, gpus ? "GPU" : "rank");
  const std::vector<Category> categories = used_categories(shares);
  if (shares.size() <= kWhereMostBars) {
    Bars bars{.id = figure.id,
              .title = figure.title,
              .description = {},
              .heading = gpus ? "rank/GPU" : "rank",
              .share_rows = true};
    bars.description = fmt::format("A bar for each of {} {}s, cut into what {} went for.", shares.size(),
                                   gpus ? "GPU" : "rank", whole);
    for (const Category& category : categories) bars.parts.push_back({category.name, category.css});
    for (const ResourceTime& share : shares) {
      Bar& bar = bars.bars.emplace_back(Bar{.name = label_of(share)});
      for (const Category& category : categories) bar.parts_ns.push_back(share.mean.*category.part);
    }
    figure.svg = draw_bars(bars);
  } else {
    figure.svg = draw_columns(figure, shares, categories);
  }
  figure.caption = caption_of(shares, gpus ? run.facts.devices : run.facts.threads, categories, whole);
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
  if (!run.facts.by_device.empty()) figures.push_back(draw(run, run.facts.by_device, true, ""));
  const std::vector<ResourceTime>& ranks = run.facts.by_thread;
  if (!ranks.empty() && run.facts.threads_tell()) {
    figures.push_back(draw(run, ranks, false, figures.empty() ? "" : " on the host"));
    if (run.has_steps && !calls_show_computing(run))
      figures.back().reading +=
          " No step is drawn in time, with its critical path: samples of the training threads tell how long they computed and waited, not when.";
  }
  return figures;
}

}  // namespace ddl::reports::html
