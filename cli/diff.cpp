// ddl diff: two runs compared, and a gate for scripts.
#include <fmt/format.h>

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
int run_diff(const Arguments& arguments) {
  VerbOptions options(
      {.verb = "diff",
       .usage = "BEFORE AFTER [options]",
       .text =
           "What changed from one run to another: findings that are new or gone, then every metric with its change and the 95% interval of\n"
           "that. Where the interval holds no change, none was seen, whatever the medians say. --fail-over S: exit code 4 if the run is\n"
           "slower by more than S and the interval says that it is slower; by throughput where both runs report their samples, else by the\n"
           "median step. 3 if too few steps tell.",
       .example = "  ddl diff before.ddl after.ddl\n"
                  "  ddl diff base.ddl new.ddl --fail-over 5%                # in CI\n"
                  "  ddl diff base.ddl new.ddl --json | jq .metric_changes[0]"});
  options.add()("fail-over", takes<std::string>("SHARE"), "exit code 4 if slower by more: 5%, 0.05")("json", "for programs");
  options.allow_words(2);
  if (!options.parse(arguments)) return 0;
  if (options.words().size() != 2) throw Error("which two runs?", "e.g. ddl diff before.ddl after.ddl", ExitCode::kUsage);
  const auto limit_text = options.maybe<std::string>("fail-over");
  const double limit = limit_text ? parse_share("fail-over", *limit_text) : 0;

  Run before = open_run(options.words()[0]), after = open_run(options.words()[1]);
  const reports::RunView before_view(before.db, std::nullopt), after_view(after.db, std::nullopt);
  const std::vector<MetricChange> metrics = compare_metrics(before.db, before_view.world, after.db, after_view.world);
  const reports::Document document = reports::build_diff({before_view, before.shown}, {after_view, after.shown}, metrics);
  print_out(options.has("json") ? reports::render_json(document) : reports::render_text(document, output_options()));
  if (!limit_text) return 0;
  const SlowdownGate gate = slowdown_gate(metrics);
  if (!gate.known)
    throw Error("--fail-over cannot decide: the step time has no interval", "record at least five steady steps in each run",
                ExitCode::kDataMissing);
  if (!gate.seen || *gate.slower <= limit) return 0;
  print_note(fmt::format("slower by {}, more than --fail-over {}", reports::percent_text(*gate.slower), *limit_text));
  return static_cast<int>(ExitCode::kGate);
}

}  // namespace ddl::cli
