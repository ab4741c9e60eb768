// ddl analyze: the metrics of a run, one of them, or what there is.
#include <fmt/format.h>

#include "analyzer/metrics/metrics.h"
#include "cli/open_run.h"
#include "cli/options.h"
#include "cli/terminal.h"
#include "cli/verbs.h"
#include "core/error.h"
#include "reports/overview.h"
#include "reports/text.h"

namespace po = boost::program_options;

namespace ddl::cli {
namespace {

std::string describe(const Metric& metric) {
  std::string text = fmt::format("{}  ({}; {}; {}; of a {}; {})\n", metric.id, metric.name, metric.unit,
                                 metric.better == "none" ? "neither is better" : metric.better + " is better", metric.scope, metric.source);
  for (const std::string& line : reports::wrap(metric.sentence, 96)) text += "    " + line + "\n";
  return text;
}

std::vector<std::string> metric_names() {
  std::vector<std::string> names;
  for (const Metric& metric : all_metrics()) names.push_back(metric.id);
  return names;
}

}  // namespace

int run_analyze(const Arguments& arguments) {
  VerbOptions options({.verb = "analyze",
                       .usage = "[RUN] [options]",
                       .text = "Computes waiting, metrics and findings of a run again, and prints the metrics.",
                       .example = "  ddl analyze slow.ddl\n"
                                  "  ddl analyze slow.ddl --metric ccr_xfer\n"
                                  "  ddl analyze --list"});
  options.add()("metric", po::value<std::string>()->value_name("NAME"), "print the value of one metric only, without a unit")(
      "list", "what metrics there are and what they say; with --metric also how it is computed")(
      "world", po::value<int64_t>()->value_name("N"), "which MPI_COMM_WORLD, if there are several");
  options.one_of("metric", metric_names());
  options.allow_words(1);
  if (!options.parse(arguments)) return 0;
  const auto wanted = options.maybe<std::string>("metric");
  if (options.has("list")) {
    std::string text;
    for (const Metric& metric : all_metrics())
      if (!wanted || metric.id == *wanted) text += describe(metric) + (wanted ? "\n" + metric.sql : "");
    print_out(text);
    return 0;
  }
  Run run = open_run_and_analyze(options.words().empty() ? "" : options.words()[0]);
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
  throw Error(fmt::format("the run has no metric '{}'", *wanted), "", ExitCode::kDataMissing);
}

}  // namespace ddl::cli
