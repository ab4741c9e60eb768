// ddl report: the run on one screen, one section of it, or all of it as JSON, CSV or an HTML page.
#include <fmt/format.h>

#include "cli/open_run.h"
#include "cli/options.h"
#include "cli/output_file.h"
#include "cli/share.h"
#include "cli/terminal.h"
#include "cli/verbs.h"
#include "core/error.h"
#include "reports/csv.h"
#include "reports/html/page.h"
#include "reports/json.h"
#include "reports/overview.h"
#include "reports/text.h"

namespace ddl::cli {
namespace {

constexpr std::string_view kOverview = "overview";
// With more ranks the JSON has so many rows of each table that has one for each rank, or pair of ranks:
// else it is a gigabyte.
constexpr size_t kMostRanksInJson = 1024;

std::string section_list() {
  std::string text = fmt::format("  {:<12} {}\n", kOverview, "all of it on one screen (default)");
  for (const reports::Section& section : reports::sections())
    text += fmt::format("  {:<12} {}\n", section.name, section.summary);
  return text;
}

std::vector<std::string> section_names() {
  std::vector<std::string> names = {std::string(kOverview)};
  for (const reports::Section& section : reports::sections()) names.emplace_back(section.name);
  return names;
}

bool is_section(const std::string& word) { return word == kOverview || reports::find_section(word) != nullptr; }

struct Words {
  std::string run, section = std::string(kOverview);
};

// [RUN] [SECTION] in either order: a section's name is a section unless a run was expected there and stands there
// already.
Words sort_words(const std::vector<std::string>& words) {
  Words result;
  bool has_section = false;
  for (const std::string& word : words) {
    if (!has_section && is_section(word)) {
      result.section = word;
      has_section = true;
    } else if (result.run.empty() && (words.size() == 1 || looks_like_run(word))) {
      result.run = word;
    } else {
      throw Error(fmt::format("unknown section '{}'", word),
                  did_you_mean(word, section_names(), "see: ddl report --help"), ExitCode::kUsage);
    }
  }
  return result;
}

}  // namespace

int run_report(const Arguments& arguments) {
  const std::string text =
      "Says where the time of a recorded run went and what to fix first. Sections:\n" + section_list();
  VerbOptions options({.verb = "report",
                       .usage = "[RUN] [SECTION] [options]",
                       .text = text,
                       .example = "  ddl report --demo\n"
                                  "  ddl report\n"
                                  "  ddl report slow.ddl collectives\n"
                                  "  ddl report slow.ddl --html slow.html --share --anonymous\n"
                                  "  ddl report slow.ddl --json | jq '.findings[0].sentence'\n"
                                  "  ddl report slow.ddl --csv v_step > steps.csv"});
  options.add()("demo", "show the run that ships with ddl: a trainer on 4 ranks, one of them slowed")(
      "world", takes<int64_t>("N"), "which MPI_COMM_WORLD, if there are several")(
      "strict", "exit code 3 if any data are missing");
  add_threads_option(options);
  options.add("output")("html", takes<std::string>("FILE"),
                        "a page with figures, in one file that needs no network; - is standard output")(
      "json", "everything, for programs (docs/reference/ddl-report.schema.json)")(
      "ranks", "with --json: all rows of tables by rank or pair of ranks, also in jobs of more than 1,024 ranks")(
      "csv", takes<std::string>("VIEW"), "one view or table of the store, e.g. v_collective")(
      "one-line", "one line, for the end of a batch job's log");
  add_share_options(options);
  options.suggest("csv", reports::stable_views());
  options.allow_words(2, WordKind::kRun, section_names());
  if (!options.parse(arguments)) return 0;
  if (options.has("json") + options.has("csv") + options.has("html") + options.has("one-line") > 1)
    throw Error("--json, --csv, --html and --one-line exclude each other", "choose one", ExitCode::kUsage);
  const Words words = sort_words(options.words());
  if (options.has("ranks") && (!options.has("json") || words.section != kOverview))
    throw Error("--ranks needs --json", "leave it out: a section has all its rows", ExitCode::kUsage);
  if ((options.has("html") || options.has("one-line")) && words.section != kOverview)
    throw Error("--html and --one-line show the whole run, not a section", fmt::format("leave {} out", words.section),
                ExitCode::kUsage);
  const Readers who = readers(options);
  const unsigned threads = threads_of(options);
  bool complete = true;
  const auto answer = [&](Run& run) -> std::string {
    const reports::RunView view(run.db, options.maybe<int64_t>("world"));
    if (options.has("strict")) {
      reports::Document loss;
      reports::add_loss(view, loss);
      complete = loss.loss.empty() && view.ranks == view.expected_ranks;
    }
    const bool overview = words.section == kOverview;
    if (const auto file = options.maybe<std::string>("html")) {
      write_output(*file,
                   reports::html::render_page(reports::build_page(view, run.shown), reports::html::build_figures(view)),
                   who);
      return "";
    }
    if (options.has("one-line")) return reports::render_one_line(reports::build_overview(view, run.shown));
    if (options.has("json") && overview) {
      const bool all_rows = options.has("ranks") || static_cast<size_t>(view.ranks) <= kMostRanksInJson;
      reports::write_everything(view, run.shown, all_rows ? SIZE_MAX : kMostRanksInJson, print_out);
      return "";
    }
    const reports::Document document =
        overview ? reports::build_overview(view, run.shown) : reports::build_section(view, words.section);
    if (!options.has("json")) return reports::render_text(document, output_options());
    return document.tables.empty() ? reports::render_json(document) : reports::render_json(document.tables[0]);
  };
  // What writes as it reads takes no second chance, and what reads everything saves nothing by it.
  const bool writes = options.has("html") || options.has("csv") || (options.has("json") && words.section == kOverview);
  if (!writes && !options.has("demo") && !options.has("share")) {
    print_out(ask_run(words.run, threads, answer));
  } else {
    Run run = options.has("demo") ? open_demo(words.run, threads) : open_run(words.run, threads);
    share(run, options);
    if (const auto view = options.maybe<std::string>("csv")) {
      reports::write_csv(run.db, *view, print_out);
      return 0;
    }
    print_out(answer(run));
  }
  if (!complete) print_note("--strict: data are missing; see: ddl report loss");
  return complete ? 0 : static_cast<int>(ExitCode::kDataMissing);
}

}  // namespace ddl::cli
