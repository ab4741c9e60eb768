// ddl analyze: the metrics of a run, one of them, or what there is.
#include <fmt/format.h>

#include <filesystem>

#include "analyzer/metrics/metrics.h"
#include "cli/open_run.h"
#include "cli/options.h"
#include "cli/parts.h"
#include "cli/terminal.h"
#include "cli/verbs.h"
#include "core/error.h"
#include "core/regular_file.h"
#include "reports/overview.h"
#include "reports/rows.h"
#include "reports/text.h"

namespace ddl::cli {
namespace {

std::vector<std::string> metric_names() {
  std::vector<std::string> names;
  for (const Metric& metric : all_metrics()) names.push_back(metric.id);
  return names;
}

Metric read_metric(const std::string& path) {
  const std::string name = std::filesystem::path(path).filename().string();
  std::string text;
  try {
    text = read_regular_file(path, NamedBy::kUser);
  } catch (const Error& error) {
    throw Error(error.what(), "give a metric file, such as analyzer/metrics/step_time.sql", ExitCode::kUsage);
  }
  return parse_metric(name, text);
}

void try_metric(const std::string& path, const std::string& run_name, std::optional<int64_t> world, unsigned threads) {
  const Metric metric = read_metric(path);
  Run run = open_run(run_name, threads);
  const reports::RunView view(run.db, world);
  const reports::Rows checked(run.db, metric.sql);  // one SELECT, that only reads; says what is wrong with it
  reports::Document document;
  document.tables = reports::tried_metric(metric, evaluate(run.db, metric, view.world));
  print_out(reports::render_text(document, output_options()));
}

}  // namespace

int run_analyze(const Arguments& arguments) {
  VerbOptions options(
      {.verb = "analyze",
       .usage = "[RUN] [options]",
       .text =
           "Computes waiting, metrics and findings of a run again, and prints the metrics. A run of many ranks can be read\n"
           "in parts, by several processes or nodes; the store is the same.",
       .example = "  ddl analyze slow.ddl\n"
                  "  ddl analyze slow.ddl --metric ccr_xfer\n"
                  "  ddl analyze slow.ddl --try my_metric.sql\n"
                  "  ddl analyze --list\n"
                  "  ddl analyze big.ddl --on slurm:16"});
  options.add()("try", takes<std::string>("FILE"),
                "compute the metric in FILE, written like those in analyzer/metrics, without analyzing again")(
      "metric", takes<std::string>("NAME"), "print one metric's value only, without a unit")(
      "list", "list the metrics and their meaning; with --metric also its SQL")(
      "world", takes<int64_t>("N"), "which MPI_COMM_WORLD, if there are several");
  add_parts_options(options);
  add_threads_option(options);
  options.one_of("metric", metric_names());
  options.allow_words(1);
  if (!options.parse(arguments)) return 0;
  if (prepared_or_part_made(options)) return 0;
  const auto wanted = options.maybe<std::string>("metric");
  if (options.has("list")) {
    std::string text;
    for (const Metric& metric : all_metrics())
      if (!wanted || metric.id == *wanted) text += reports::describe_metric(metric) + (wanted ? "\n" + metric.sql : "");
    print_out(text);
    return 0;
  }
  const std::string run_name = options.words().empty() ? "" : options.words()[0];
  if (const auto tried = options.maybe<std::string>("try")) {
    if (wanted) throw Error("--try and --metric exclude each other", "choose one", ExitCode::kUsage);
    try_metric(*tried, run_name, options.maybe<int64_t>("world"), threads_of(options));
    return 0;
  }
  analyze_on_place(options);
  Run run =
      options.has("on") ? open_run(run_name, threads_of(options)) : open_run_and_analyze(run_name, threads_of(options));
  const reports::RunView view(run.db, options.maybe<int64_t>("world"));
  if (!wanted) {
    print_out(reports::render_text(reports::build_section(view, "metrics"), output_options()));
    return 0;
  }
  reports::Document document;
  reports::add_metrics(view, document);
  for (const reports::Metric& metric : document.metrics) {
    if (metric.id != *wanted) continue;
    print_out(metric.value ? fmt::format("{}\n", *metric.value) : fmt::format("n/a({})\n", metric.why));
    return metric.value ? 0 : static_cast<int>(ExitCode::kDataMissing);
  }
  throw Error(fmt::format("the run has no metric '{}'", *wanted), "list them: ddl analyze, without --metric",
              ExitCode::kDataMissing);
}

}  // namespace ddl::cli
