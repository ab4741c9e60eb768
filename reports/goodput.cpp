#include "reports/goodput.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <array>
#include <cmath>
#include <ctime>
#include <map>

#include "reports/format.h"

namespace ddl::reports {
namespace {

using namespace models;

constexpr double kHourNs = 3.6e12;

Value price_value(const std::optional<double>& price, double worker_ns) {
  return price ? Value::number(*price * worker_ns / kHourNs) : Value::null(Unit::kNumber);
}

std::vector<Column> without_price(std::vector<Column> columns, const std::optional<double>& price) {
  if (!price) columns.back().keep = 0;
  return columns;
}

/// What of a recording with several worlds was taken for a restart, and what for one run.
std::string taken_for(const Goodput& goodput) {
  std::string text;
  std::map<std::string, size_t> starts;
  for (const RunGoodput& run : goodput.runs) {
    ++starts[run.recording];
    if (run.worlds > 1)
      text += fmt::format("{}{}: {} worlds that overlap in time count as one run", text.empty() ? "" : "; ", run.name,
                          run.worlds);
    if (run.unranked > 1)
      text += fmt::format("{}{}: {} processes without a rank that overlap in time count as ranks of one run",
                          text.empty() ? "" : "; ", run.name, run.unranked);
  }
  for (const auto& [recording, count] : starts)
    if (count > 1)
      text += fmt::format("{}{}: #1 to #{} follow one another in time and count as restarts of one job",
                          text.empty() ? "" : "; ", recording, count);
  return text;
}

}  // namespace

Document build_goodput(const Goodput& goodput, const std::vector<FindingCost>& costs,
                       const std::optional<double>& price, const std::optional<double>& joules_per_step,
                       bool waiting_known) {
  Document document;
  const double productive = goodput.wall_ns > 0 ? goodput.parts[kProductive] / goodput.wall_ns : 0;
  const auto wall_ns = static_cast<int64_t>(goodput.wall_ns);
  document.headline = {plural(static_cast<int64_t>(goodput.runs.size()), "run"), short_duration(wall_ns),
                       fmt::format("goodput {}", percent_text(productive)),
                       fmt::format("{} lost of {}", plural(goodput.lost_steps, "step"), goodput.steps)};
  document.facts = {
      {"runs", Value::count(static_cast<int64_t>(goodput.runs.size()))},
      {"wall_ns", Value::duration_ns(wall_ns)},
      {"goodput_ratio", Value::ratio(productive)},
      {"rank_hours", Value::number(goodput.worker_ns / kHourNs)},
      {"price", price_value(price, goodput.worker_ns)},
      {"steps", Value::count(goodput.steps)},
      {"lost_steps", Value::count(goodput.lost_steps)},
      {"joules_per_step", joules_per_step ? Value::number(*joules_per_step) : Value::absent(Unit::kNumber)}};
  document.verdict = joules_per_step ? fmt::format("a step takes {:.4g} J on the GPUs (NVML)", *joules_per_step) : "";

  Table parts{"goodput",
              "WHERE THE WALL TIME WENT, mean over ranks",
              without_price({{"id", "", Unit::kText, 0},
                             {"part", "part", Unit::kText},
                             {"time_ns", "time", Unit::kDuration},
                             {"ratio", "share", Unit::kShare},
                             {"rank_hours", "rank-hours", Unit::kNumber, 5},
                             {"price", "price", Unit::kNumber}},
                            price),
              {},
              "",
              ""};
  std::array<double, kWallParts> worker_ns{};
  for (size_t i = 0; i < goodput.runs.size(); ++i) {
    const RunGoodput& run = goodput.runs[i];
    for (size_t p = 0; p < kWallParts; ++p) worker_ns[p] += run.parts[p] * static_cast<double>(run.workers);
  }
  double told_ns = 0;
  for (size_t p = 0; p < kWallParts; ++p) told_ns += worker_ns[p];
  worker_ns[kDown] += std::round(goodput.worker_ns - told_ns);  // less than a nanosecond is an error of rounding
  for (size_t p = 0; p < kWallParts; ++p)
    parts.rows.push_back({Value::text(kWallPartNames[p].id), Value::text(kWallPartNames[p].name),
                          Value::duration_ns(std::llround(goodput.parts[p])),
                          goodput.wall_ns > 0 ? Value::share(goodput.parts[p] / goodput.wall_ns)
                                              : Value::absent(Unit::kShare, "ZERO_DENOM"),
                          Value::number(worker_ns[p] / kHourNs), price_value(price, worker_ns[p])});
  parts.note = waiting_known ? "the shares add up to the wall time"
                             : "the shares add up to the wall time; where waiting is not known it counts as productive";
  document.tables.push_back(std::move(parts));

  Table runs{"runs",
             "RUNS",
             {{"run", "run", Unit::kText},
              {"started", "started", Unit::kText, 5},
              {"wall_ns", "wall time", Unit::kDuration},
              {"ranks", "ranks", Unit::kCount},
              {"worlds", "worlds", Unit::kCount, 0},
              {"steps", "steps", Unit::kCount},
              {"lost_steps", "lost", Unit::kCount},
              {"lost_by", "known by", Unit::kText, 3},
              {"productive_ratio", "goodput", Unit::kShare},
              {"ended_by", "ended by", Unit::kText}},
             {},
             "",
             ""};
  for (const RunGoodput& run : goodput.runs) {
    const auto started_s = static_cast<std::time_t>(run.start_realtime_ns / 1'000'000'000);
    runs.rows.push_back({Value::text(run.name), Value::text(fmt::format("{:%F %T}", fmt::localtime(started_s))),
                         Value::duration_ns(run.wall_ns), Value::count(static_cast<int64_t>(run.workers)),
                         Value::count(static_cast<int64_t>(run.worlds)), Value::count(run.steps),
                         Value::count(run.lost_steps),
                         run.lost_by.empty() ? Value::absent(Unit::kText, "NOT_APPLICABLE") : Value::text(run.lost_by),
                         run.wall_ns > 0 ? Value::share(run.parts[kProductive] / static_cast<double>(run.wall_ns))
                                         : Value::absent(Unit::kShare, "ZERO_DENOM"),
                         Value::text(run.ended_by)});
  }
  runs.note = taken_for(goodput);
  document.tables.push_back(std::move(runs));

  Table findings{
      "costs",
      "WHAT FINDINGS COST: their saving per step, times the steps, on all ranks; they overlap, so they do not add up",
      without_price({{"run", "run", Unit::kText},
                     {"id", "finding", Unit::kText},
                     {"rank_hours", "rank-hours", Unit::kNumber},
                     {"sentence", "", Unit::kText, 4},
                     {"price", "price", Unit::kNumber}},
                    price),
      {},
      "",
      ""};
  for (const FindingCost& cost : costs)
    findings.rows.push_back({Value::text(cost.run), Value::text(cost.id),
                             Value::number(cost.worker_ns / kHourNs).bounded(cost.bound), Value::text(cost.sentence),
                             price_value(price, cost.worker_ns).bounded(cost.bound)});
  document.tables.push_back(std::move(findings));
  return document;
}

}  // namespace ddl::reports
