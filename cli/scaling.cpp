// ddl scaling: throughput, speed-up and efficiency of several runs, or of a table of results; what the loss consists
// of; a projection.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <map>

#include "analyzer/models/pop_scaling.h"
#include "analyzer/models/scaling.h"
#include "cli/lint_table.h"
#include "cli/model.h"
#include "cli/output_file.h"
#include "cli/scaling_input.h"
#include "cli/terminal.h"
#include "cli/verbs.h"
#include "core/error.h"
#include "reports/format.h"
#include "reports/html/figure.h"
#include "reports/html/page.h"

namespace ddl::cli {
namespace {

using models::ScalingKind;
using models::ScalingRow;
using reports::Unit;
using reports::Value;

constexpr size_t kMostRuns = 1000;
/// Beyond this many times the largest measured size a trend is a guess.
constexpr double kFarAway = 4;

using Kinds = std::map<std::string, ScalingKind>;  ///< by series

/// As the batches tell.
Kinds told_kinds(const ScalingInput& input) {
  std::map<std::string, std::vector<models::ScalingPoint>> series;
  for (const models::ScalingPoint& point : input.points) series[point.series].push_back(point);
  Kinds kinds;
  for (const auto& [name, points] : series) kinds[name] = models::scaling_kind(points);
  return kinds;
}

Kinds kinds_of(const ScalingInput& input, const VerbOptions& options) {
  Kinds kinds = told_kinds(input);
  for (auto& [name, kind] : kinds) {
    if (kind != ScalingKind::kUnknown) continue;
    if (options.has("weak")) kind = ScalingKind::kWeak;
    if (options.has("strong")) kind = ScalingKind::kStrong;
  }
  return kinds;
}

template <class Has>
bool any(const std::vector<ScalingRow>& rows, Has has) {
  return std::any_of(rows.begin(), rows.end(), has);
}

void add_rows(Answer& answer, const std::vector<ScalingRow>& rows, const ScalingInput& input) {
  std::vector<reports::Column> columns;
  std::vector<std::function<Value(const ScalingRow&)>> cells;
  const auto column = [&](reports::Column head, std::function<Value(const ScalingRow&)> cell) {
    columns.push_back(std::move(head));
    cells.push_back(std::move(cell));
  };
  const auto maybe = [](const std::optional<double>& value, Value (*make)(double), Unit unit) {
    return value ? make(*value) : Value::absent(unit, "NOT_APPLICABLE");
  };
  if (any(rows, [](const auto& row) { return !row.point.series.empty(); }))
    column({"series", "series", Unit::kText, 5}, [](const auto& row) { return Value::text(row.point.series); });
  if (any(rows, [](const auto& row) { return !row.point.label.empty(); }))
    column({"run", "run", Unit::kText}, [](const auto& row) { return Value::text(row.point.label); });
  column({"workers", input.worker + "s", Unit::kReal}, [](const auto& row) { return Value::real(row.point.workers); });
  if (any(rows, [](const auto& row) { return row.point.nodes.has_value(); }))
    column({"nodes", "nodes", Unit::kReal, 4},
           [&](const auto& row) { return maybe(row.point.nodes, Value::real, Unit::kReal); });
  if (any(rows, [](const auto& row) { return row.point.global_batch.has_value(); }))
    column({"global_batch", "batch", Unit::kReal, 3},
           [&](const auto& row) { return maybe(row.point.global_batch, Value::real, Unit::kReal); });
  const bool samples =
      input.result == "throughput" && any(rows, [](const auto& row) { return row.point.parts.has_value(); });
  if (samples)
    column({"throughput", "samples/s", Unit::kNumber, 3},
           [](const auto& row) { return Value::number(row.point.throughput.value); });
  column({"speedup", "speed-up", Unit::kNumber}, [](const auto& row) { return Value::number(row.speedup.value); });
  column({"efficiency", "efficiency", Unit::kEfficiency},
         [](const auto& row) { return Value::efficiency(row.efficiency.value); });
  column({"efficiency_lo", "from", Unit::kEfficiency, 1},
         [](const auto& row) { return Value::efficiency(row.efficiency.lo); });
  column({"efficiency_hi", "to", Unit::kEfficiency, 1},
         [](const auto& row) { return Value::efficiency(row.efficiency.hi); });
  column({"incremental_ratio", "incremental", Unit::kRatio, 6},
         [&](const auto& row) { return maybe(row.incremental, Value::ratio, Unit::kRatio); });
  if (any(rows, [](const auto& row) { return row.hardware.has_value(); })) {
    column({"hardware_efficiency", "hardware", Unit::kEfficiency, 6},
           [&](const auto& row) { return maybe(row.hardware, Value::efficiency, Unit::kEfficiency); });
    column({"statistical_efficiency", "statistical", Unit::kEfficiency, 6},
           [&](const auto& row) { return maybe(row.statistical, Value::efficiency, Unit::kEfficiency); });
  }
  if (any(rows, [&](const auto& row) { return row.base != rows[0].base; }))
    column({"base", "base", Unit::kText, 7}, [](const auto& row) { return Value::text(row.base); });
  column({"flags", "flags", Unit::kText},
         [](const auto& row) { return Value::text(fmt::format("{}", fmt::join(row.flags, "; "))); });
  auto& table = answer.table("scaling", "Efficiency against the base", columns);
  for (const ScalingRow& row : rows) {
    auto& line = table.rows.emplace_back();
    for (const auto& cell : cells) line.push_back(cell(row));
  }
}

void add_losses(Answer& answer, const std::vector<ScalingRow>& rows, const ScalingInput& input) {
  if (!any(rows, [](const auto& row) { return row.loss.has_value(); })) return;
  auto& table = answer.table("loss", "What is lost against the base, in shares of the step",
                             {{"workers", input.worker + "s", Unit::kReal},
                              {"loss_ratio", "1 - efficiency", Unit::kRatio},
                              {"transfer_ratio", "transfer", Unit::kRatio},
                              {"wait_ratio", "waiting", Unit::kRatio},
                              {"copy_ratio", "copies", Unit::kRatio},
                              {"idle_ratio", "idle", Unit::kRatio},
                              {"compute_ratio", "compute", Unit::kRatio}});
  for (const ScalingRow& row : rows) {
    if (!row.loss) continue;
    const models::LossSplit& loss = *row.loss;
    table.rows.push_back({Value::real(row.point.workers), Value::ratio(1 - row.efficiency.value),
                          Value::ratio(loss.transfer), Value::ratio(loss.wait), Value::ratio(loss.copy),
                          Value::ratio(loss.idle), Value::ratio(loss.compute)});
  }
}

void add_pop(Answer& answer, const std::vector<ScalingRow>& rows, const ScalingInput& input, const Kinds& kinds) {
  if (input.pop.size() < 2) return;
  // For runs, which are one series; of several as large as the base the first is the base.
  const auto base = std::find_if(rows.begin(), rows.end(),
                                 [](const ScalingRow& row) { return row.point.workers == row.base_workers; });
  const models::PopFacts& base_facts = input.pop.at(base->point.label);
  const ScalingKind kind = kinds.begin()->second;
  const auto maybe = [](const std::optional<double>& value, const char* why) {
    return value ? Value::efficiency(*value) : Value::absent(Unit::kEfficiency, why);
  };
  auto& table = answer.table("pop", "Computing against the base, after POP: global = parallel x computation scaling",
                             {{"run", "run", Unit::kText},
                              {"workers", input.worker + "s", Unit::kReal},
                              {"global_efficiency", "global", Unit::kEfficiency},
                              {"parallel_efficiency", "parallel", Unit::kEfficiency},
                              {"computation_scaling", "computation", Unit::kEfficiency}});
  for (const ScalingRow& row : rows) {
    const models::PopRow pop = models::pop_row(base_facts, input.pop.at(row.point.label), kind);
    table.rows.push_back({Value::text(row.point.label), Value::real(row.point.workers),
                          maybe(pop.global, "NOT_APPLICABLE"), maybe(pop.parallel, "NO_DATA"),
                          maybe(pop.computation, "NOT_APPLICABLE")});
  }
}

void add_projection(Answer& answer, const std::vector<ScalingRow>& rows, ScalingInput& input, const Kinds& kinds,
                    const VerbOptions& options) {
  if (!options.has("project")) return;
  auto& table = answer.table("projection", "Projection, with its 95% interval",
                             {{"series", "series", Unit::kText, rows[0].point.series.empty() ? 0 : 5},
                              {"workers", input.worker + "s", Unit::kCount},
                              {"efficiency", "efficiency", Unit::kEfficiency},
                              {"efficiency_lo", "from", Unit::kEfficiency},
                              {"efficiency_hi", "to", Unit::kEfficiency},
                              {"from", "by", Unit::kText}});
  const auto add = [&](const std::string& series, const models::Projection& projection, std::string by) {
    table.rows.push_back({Value::text(series), Value::count(std::llround(projection.workers)),
                          Value::efficiency(projection.efficiency.value), Value::efficiency(projection.efficiency.lo),
                          Value::efficiency(projection.efficiency.hi), Value::text(std::move(by))});
  };
  const std::vector<int64_t> sizes = parse_counts(options.get<std::string>("project"));
  const ScalingKind kind = kinds.begin()->second;  // of runs, which are one series
  if (input.largest && input.no_fit.empty() && kind != ScalingKind::kMixed) {
    for (const ScalingRow& row : rows)
      if (row.point.workers == static_cast<double>(input.largest->ranks)) input.largest->efficiency = row.efficiency;
    for (const int64_t size : sizes)
      add("", project_run(*input.largest, size, kind == ScalingKind::kStrong), "latency and bandwidth");
    answer.note(fmt::format(
        "Projected from the latency and bandwidth that the transfers of the run on {} ranks show (R2 {:.3f}), rings, {} "
        "scaling; waiting stays as it was. Not included: congestion beyond that size, slower links between more nodes.",
        input.largest->ranks, input.largest->fit.r2, kind == ScalingKind::kStrong ? "strong" : "weak"));
    return;
  }
  for (const auto& series : models::by_series(rows)) {
    std::optional<models::ScalingTrend> trend;
    try {
      trend = fit_trend(series);
    } catch (const Error& error) {
      const std::string what = series[0].point.series.empty() ? "" : series[0].point.series + ": ";
      throw Error(what + error.what() + (input.no_fit.empty() ? "" : "; " + input.no_fit), error.hint(), error.code());
    }
    for (const int64_t size : sizes)
      add(series[0].point.series, trend->project(static_cast<double>(size)),
          trend->linear ? "1/E = a + b N" : "1/E = a + b lg N");
    if (static_cast<double>(*std::max_element(sizes.begin(), sizes.end())) > kFarAway * trend->largest)
      answer.note(fmt::format(
          "More than {:g} times the largest size that was measured ({:g}): the interval ignores bottlenecks that appear in between.",
          kFarAway, trend->largest));
  }
}

void add_lint(Answer& answer, const std::vector<ScalingRow>& rows, const ScalingInput& input, const Kinds& kinds,
              const VerbOptions& options) {
  std::vector<Stated> stated = input.stated;
  std::map<std::string, std::string> by_batches;  // of series whose batches tell: whatever else is said
  for (const auto& [series, kind] : told_kinds(input))
    if (kind != ScalingKind::kUnknown) by_batches[series] = name_of(kind);
  const bool superlinear = any(rows, [](const ScalingRow& row) {
    return std::any_of(row.flags.begin(), row.flags.end(),
                       [](const std::string& flag) { return flag.starts_with("superlinear"); });
  });
  for (size_t i = 0; i < stated.size(); ++i) {
    Stated& said = stated[i];
    if (said["scaling"].empty()) said["scaling"] = name_of(kinds.at(input.points[i].series));
    if (said["base"].empty())
      said["base"] =
          options.has("base") ? fmt::format("{} {}s", options.get<double>("base"), input.worker) : "smallest";
    if (superlinear) said["superlinear"] = "yes";
    const std::string& series = input.points[i].series;
    if (const auto told = by_batches.find(series); told != by_batches.end()) said["scaling_of_batches"] = told->second;
    const auto row =
        std::find_if(rows.begin(), rows.end(), [&](const ScalingRow& one) { return one.point.series == series; });
    if (row != rows.end()) said["base_size"] = row->base;
  }
  answer.table({}, {}, {}) = lint_table(std::move(stated), stated_by_user(options));
}

std::string page_of(const Answer& answer, const std::vector<ScalingRow>& rows, const ScalingInput& input) {
  reports::Document document = answer.document();
  document.headline = {"Scaling", reports::plural(static_cast<int64_t>(rows.size()), "result")};
  document.alerts = answer.notes();
  return reports::html::render_page(document, reports::html::scaling_figures(rows, input.worker));
}

std::string help_text() {
  std::string text =
      "Shows throughput, speed-up and efficiency of runs of one program on different numbers of ranks, or of a CSV table, against the\n"
      "smallest size (or --base). Weak or strong follows from the samples per step that the runs report. The loss of each run is\n"
      "split into transfer, waiting, idle and compute. --project: efficiency at other sizes, with its interval, from the latency\n"
      "and bandwidth of the largest run, or else from the trend over at least four sizes.\n\n"
      "A CSV has gpus (accelerators, ranks, workers), nodes if known, and one of speedup, throughput, images_per_s, samples_per_s,\n"
      "tokens_per_s, time_s, time_min (the same work in less time), step_s, step_ms (with global_batch or local_batch). epoch_s\n"
      "splits times into hardware and statistics; series, platform and model tell series apart.\n\n"
      "Each table comes with what it does not say (LINT-01 to LINT-12, after Hoefler's twelve ways to fool the masses); --state\n"
      "says it, or a column of the CSV:\n" +
      lint_help();
  return text;
}

/// A text file whatever its name, as opposed to a run: a directory, or a file of SQLite.
bool is_table(const std::string& word) {
  std::error_code error;
  if (word.ends_with(".csv")) return true;
  return !word.ends_with(".ddl") && !word.ends_with(".sqlite") && std::filesystem::is_regular_file(word, error);
}

}  // namespace

int run_scaling(const Arguments& arguments) {
  const std::string text = help_text();
  VerbOptions options({.verb = "scaling",
                       .usage = "RUN1 RUN2 ... | TABLE.csv [options]",
                       .text = text,
                       .example = "  ddl scaling n1.ddl n2.ddl n4.ddl n8.ddl --project 16,32 --html scaling.html\n"
                                  "  ddl scaling table.csv --base 8 --state precision=fp16,data=synthetic\n"
                                  "  ddl scaling mlperf.csv --map time_min=time_to_train,epoch_s=median_epoch"});
  options.add()("base", takes<double>("N"), "size to compare with (default: the smallest)")(
      "project", takes<std::string>("N,..."), "sizes to project to")("state", takes<std::string>("KEY=VALUE,..."),
                                                                     "what is known about how the numbers were got")(
      "map", takes<std::string>("NAME=COLUMN,..."), "other names of columns in the CSV")(
      "weak", "for runs that report no samples: the same work per rank")("strong", "the same work per step")(
      "json", "for programs")("html", takes<std::string>("FILE"),
                              "a page with figures, in one file; - is standard output");
  options.allow_words(kMostRuns, WordKind::kRunOrTable);
  if (!options.parse(arguments)) return 0;
  const std::vector<std::string>& words = options.words();
  if (words.empty())
    throw Error("no runs given", "e.g. ddl scaling n1.ddl n2.ddl n4.ddl, or a CSV file", ExitCode::kUsage);
  if (options.has("json") && options.has("html"))
    throw Error("--json and --html exclude each other", "choose one", ExitCode::kUsage);
  const bool csv = words.size() == 1 && is_table(words[0]);
  if (!csv && options.has("map"))
    throw Error("--map needs a CSV file", "leave it out: runs have no columns", ExitCode::kUsage);
  ScalingInput input = csv ? scaling_from_csv(words[0], options) : scaling_from_runs(options);
  const std::vector<ScalingRow> rows =
      scaling_rows(input.points, number_option(options, "base", 0, true), input.worker);
  const Kinds kinds = kinds_of(input, options);

  Answer answer("scaling");
  const bool one_base =
      std::all_of(rows.begin(), rows.end(), [&](const ScalingRow& row) { return row.base == rows[0].base; });
  const bool one_kind =
      std::all_of(kinds.begin(), kinds.end(), [&](const auto& kind) { return kind.second == kinds.begin()->second; });
  answer.given("base", "base", Value::text(one_base ? rows[0].base : "by series, in the table"));
  answer.given("scaling", "scaling", Value::text(one_kind ? name_of(kinds.begin()->second) : "by series"));
  answer.given("result", "from", Value::text(input.result));
  add_rows(answer, rows, input);
  add_losses(answer, rows, input);
  add_pop(answer, rows, input, kinds);
  add_projection(answer, rows, input, kinds, options);
  add_lint(answer, rows, input, kinds, options);
  if (!options.has("html")) return answer.print(options);
  write_output(options.get<std::string>("html"), page_of(answer, rows, input));
  return 0;
}

}  // namespace ddl::cli
