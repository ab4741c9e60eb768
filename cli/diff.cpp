// ddl diff: two runs compared, and a gate for scripts.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string_view>
#include <utility>

#include "analyzer/name_diff.h"
#include "analyzer/run_diff.h"
#include "cli/open_run.h"
#include "cli/options.h"
#include "cli/terminal.h"
#include "cli/verbs.h"
#include "core/error.h"
#include "reports/diff.h"
#include "reports/format.h"
#include "reports/json.h"
#include "reports/text.h"

namespace ddl::cli {
namespace {

constexpr std::pair<std::string_view, NamesOf> kDiffNames[] = {
    {"kernel", NamesOf::kKernels}, {"operator", NamesOf::kOperators}, {"layer", NamesOf::kLayers}};

reports::Table names_table(const NameDiff& diff, const std::string& by) {
  using reports::Unit;
  using reports::Value;
  reports::Table table{
      .id = "name_changes",
      .caption = diff.per_step
                     ? fmt::format("Each {} in a mean step, all ranks together ({} and {} steps)", by,
                                   diff.steps_before, diff.steps_after)
                     : fmt::format("Each {} in the whole run, all ranks together: one of the runs marks no steps", by),
      .columns = {{"state", "", Unit::kText},
                  {"calls_before", "calls before", Unit::kNumber, 4},
                  {"calls_after", "after", Unit::kNumber, 4},
                  {"time_before_ns", "time before", Unit::kDuration, 5},
                  {"time_after_ns", "after", Unit::kDuration, 5},
                  {"change_ns", "change", Unit::kDuration},
                  {"name", by, Unit::kText}},
      .when_empty = fmt::format("No {} in either run.", by)};
  const auto calls = [](const std::optional<NameChange::Side>& side) {
    return side ? Value::number(side->calls) : Value::absent(Unit::kNumber, "NOT_APPLICABLE");
  };
  const auto time = [](const std::optional<NameChange::Side>& side) {
    return side ? Value::duration_ns(std::llround(side->time_ns)) : Value::absent(Unit::kDuration, "NOT_APPLICABLE");
  };
  for (const NameChange& change : diff.names) {
    table.rows.push_back({Value::text(!change.before  ? "new"
                                      : !change.after ? "gone"
                                                      : ""),
                          calls(change.before), calls(change.after), time(change.before), time(change.after),
                          Value::duration_ns(std::llround(change.change_ns())), Value::text(change.name)});
  }
  return table;
}

/// Each name of both runs, instead of the metrics.
void print_names(const std::string& by, const reports::RunView& before, const reports::RunView& after, bool json) {
  const auto known =
      std::find_if(std::begin(kDiffNames), std::end(kDiffNames), [&](const auto& name) { return name.first == by; });
  if (known == std::end(kDiffNames))
    throw Error(fmt::format("--by: invalid value '{}'", by), "kernel, operator or layer", ExitCode::kUsage);
  const reports::Table table =
      names_table(compare_names(known->second, before.db, before.world, after.db, after.world), by);
  print_out(json ? reports::render_json(table) : reports::render_table(table, output_options()));
}

}  // namespace

int run_diff(const Arguments& arguments) {
  VerbOptions options(
      {.verb = "diff",
       .usage = "BEFORE AFTER [options]",
       .text =
           "Shows what changed from one run to another: new and gone findings, then every metric with its change and 95% interval; an interval\n"
           "that includes no change means that none was seen. --fail-over S: exit code 4 if AFTER is slower by more than S and the interval\n"
           "excludes no change, by throughput where both runs report their samples, else by the step time: of the mean over the steps where that\n"
           "changed visibly, else of the median step; 3 if the steps are too few.",
       .example = "  ddl diff before.ddl after.ddl\n"
                  "  ddl diff before.ddl after.ddl --by kernel\n"
                  "  ddl diff base.ddl new.ddl --fail-over 5%                # in CI\n"
                  "  ddl diff base.ddl new.ddl --json | jq .metric_changes[0]"});
  options.add()("fail-over", takes<std::string>("SHARE"), "exit code 4 if AFTER is slower by more: 5%, 0.05")(
      "by", takes<std::string>("WHAT"),
      "compare kernels, operators or layers instead: calls and time per step, new and gone ones")("json",
                                                                                                  "for programs");
  options.allow_words(2);
  if (!options.parse(arguments)) return 0;
  if (options.words().size() != 2)
    throw Error("two runs are needed", "e.g. ddl diff before.ddl after.ddl", ExitCode::kUsage);
  const auto limit_text = options.maybe<std::string>("fail-over");
  const double limit = limit_text ? parse_share("fail-over", *limit_text) : 0;

  Run before = open_run(options.words()[0]), after = open_run(options.words()[1]);
  const reports::RunView before_view(before.db, std::nullopt), after_view(after.db, std::nullopt);
  if (const auto by = options.maybe<std::string>("by")) {
    if (limit_text) throw Error("--by and --fail-over exclude each other", "choose one", ExitCode::kUsage);
    print_names(*by, before_view, after_view, options.has("json"));
    return 0;
  }
  const std::vector<MetricChange> metrics = compare_metrics(before.db, before_view.world, after.db, after_view.world);
  const reports::Document document =
      reports::build_diff({before_view, before.shown}, {after_view, after.shown}, metrics);
  print_out(options.has("json") ? reports::render_json(document) : reports::render_text(document, output_options()));
  if (!limit_text) return 0;
  const SlowdownGate gate = slowdown_gate(metrics, before.db, before_view.world, after.db, after_view.world);
  if (!gate.known)
    throw Error("--fail-over cannot decide: the step time has no interval",
                "record at least five steady steps in each run", ExitCode::kDataMissing);
  if (!gate.seen || *gate.slower <= limit) return 0;
  print_note(fmt::format("slower by {} (by the {} of the steps), more than --fail-over {}",
                         reports::percent_text(*gate.slower), gate.mean ? "mean" : "median", *limit_text));
  return static_cast<int>(ExitCode::kGate);
}

}  // namespace ddl::cli
