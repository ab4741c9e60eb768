// What copies of GPUs moved a second, by kind, over the run, and what the link could.
#include <fmt/format.h>

#include <algorithm>

#include "reports/copy_rates.h"
#include "reports/format.h"
#include "reports/html/figure.h"
#include "reports/html/time_panels.h"

namespace ddl::reports::html {
namespace {

std::string copies_name(const CopyRate& rate) { return fmt::format("rank {}, {}", rate.rank, shown_name(rate.kind)); }

double mean_rate(const CopyRate& rate) {
  return rate.busy_ns == 0 ? 0 : static_cast<double>(rate.bytes) * 1e9 / static_cast<double>(rate.busy_ns);
}

std::string caption_of(const std::vector<CopyRate>& rates) {
  const CopyRate& most = *std::max_element(rates.begin(), rates.end(),
                                           [](const CopyRate& a, const CopyRate& b) { return a.bytes < b.bytes; });
  std::string text =
      fmt::format("Most is moved by {}: {} in {}, {} while any copy runs", copies_name(most), size_text(most.bytes),
                  most.copies == 1 ? "1 copy" : count_text(most.copies) + " copies", bandwidth_text(mean_rate(most)));
  if (most.peak)
    text +=
        fmt::format(", {} of the link's {}", percent_text(mean_rate(most) / *most.peak), bandwidth_text(*most.peak));
  return text + ".";
}

Table data_of(const std::vector<CopyRate>& rates) {
  Table table{.columns = {{"rank", "Rank", Unit::kCount},
                          {"kind", "Kind", Unit::kText},
                          {"copies", "Copies", Unit::kCount},
                          {"bytes", "Bytes", Unit::kBytes},
                          {"time_ns", "Any ran for", Unit::kDuration},
                          {"bytes_per_second", "Meanwhile", Unit::kBandwidth},
                          {"most", "Most", Unit::kBandwidth},
                          {"peak", "Peak", Unit::kBandwidth}}};
  int64_t unknown = 0;
  for (const CopyRate& rate : rates) {
    const auto known = [&](double bytes_per_second) {
      return rate.busy_ns == 0 ? Value::absent(Unit::kBandwidth, "ZERO_DENOM") : Value::bandwidth(bytes_per_second);
    };
    table.rows.push_back(
        {Value::count(rate.rank), Value::text(rate.kind), Value::count(rate.copies), Value::bytes(rate.bytes),
         Value::duration_ns(rate.busy_ns), known(mean_rate(rate)), known(rate.most),
         rate.peak ? Value::bandwidth(*rate.peak) : Value::absent(Unit::kBandwidth, "NOT_APPLICABLE")});
    unknown += rate.unknown;
  }
  if (unknown > 0)
    table.note =
        fmt::format("{} copies whose bytes are not known, or that took no time, are left out", count_text(unknown));
  return table;
}

}  // namespace

std::vector<Figure> copies_over_time(const RunView& run) {
  std::vector<CopyRate> rates = read_copy_rates(run, kMostTimePanels);
  std::vector<TimePanel> panels;
  bool has_peak = false;
  for (CopyRate& rate : rates) {
    if (rate.bins.empty()) continue;
    panels.push_back({copies_name(rate), most_and_mean(rate.bins), rate.peak});
    has_peak = has_peak || rate.peak.has_value();
  }
  if (panels.empty()) return {};
  Figure figure{.id = "copies",
                .title = "What copies of GPUs move over time",
                .caption = caption_of(rates),
                .data = data_of(rates)};
  const TimePanelStyle style{legend_of_most_and_mean(), [](double rate) { return bandwidth_text(rate); }};
  TimeDrawing drawing = draw_time_panels(
      figure.id, figure.title,
      "A panel for each kind of copy: the bytes a second that copies of it moved together, over the time of the run.",
      style, panels);
  figure.svg = std::move(drawing.svg);
  figure.reading = fmt::format(
      "Bytes a second of copies that run side by side together; each span of {} shows its mean, pauses included, and its most.",
      short_duration(drawing.span_ns));
  if (has_peak) figure.reading += " Dashed: what the link carries in that direction.";
  if (panels.size() < rates.size())
    figure.reading += fmt::format(" Drawn are the {} that moved most, of {}.", panels.size(), rates.size());
  return {std::move(figure)};
}

}  // namespace ddl::reports::html
