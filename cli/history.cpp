// ddl history: runs in one database, and what many of them say that one does not.
#include <fmt/format.h>
#include <pwd.h>
#include <unistd.h>

#include "cli/job_file.h"
#include "cli/open_run.h"
#include "cli/options.h"
#include "cli/output_file.h"
#include "cli/terminal.h"
#include "cli/verbs.h"
#include "core/error.h"
#include "history/history.h"
#include "reports/format.h"
#include "reports/history.h"
#include "reports/html/figure.h"
#include "reports/html/page.h"
#include "reports/json.h"
#include "reports/safe_text.h"
#include "reports/text.h"

namespace ddl::cli {
namespace {

using history::History;
using reports::HistoryView;

constexpr size_t kMostAdded = 100'000;
constexpr int64_t kRunsListed = 20;
constexpr size_t kRunsOnPage = 200;
constexpr const char* kDatabaseText =
    "a file, or postgresql://[user@]host/database; default: $DDL_HISTORY, else ~/.local/share/ddl/history.sqlite";

std::string user_name() {
  const passwd* user = getpwuid(geteuid());
  return user == nullptr ? std::to_string(geteuid()) : user->pw_name;
}

std::string host_name() {
  char name[256] = "";
  gethostname(name, sizeof name - 1);
  return name;
}

std::string place_of(const VerbOptions& options) {
  return history::history_place(options.maybe<std::string>("database"));
}

/// The words of a verb that takes one job at most.
std::optional<std::string> job_of(const VerbOptions& options) {
  return options.words().empty() ? std::nullopt : std::optional(options.words()[0]);
}

HistoryView read_history(const VerbOptions& options) {
  const std::string place = place_of(options);
  History history(place, history::Access::kRead);
  const auto job = job_of(options);
  auto rows = history.runs(job);
  if (job && rows.empty()) {
    std::vector<std::string> names;
    for (const history::RunRow& row : history.runs({})) names.push_back(row.name);
    throw Error(fmt::format("no run of job '{}' in {}", *job, history::shown_place(place)),
                did_you_mean(*job, names, "ddl history list"), ExitCode::kDataMissing);
  }
  return HistoryView(std::move(rows), history::shown_place(place));
}

void print(const VerbOptions& options, const reports::Document& document) {
  print_out(options.has("json") ? reports::render_json(document) : reports::render_text(document, output_options()));
}

VerbOptions history_options(std::string_view verb, std::string_view usage, std::string_view text,
                            std::string_view example) {
  VerbOptions options({.verb = verb, .usage = usage, .text = text, .example = example});
  options.add()("database", takes<std::string>("FILE|URL"), kDatabaseText);
  return options;
}

int history_add(const Arguments& arguments) {
  VerbOptions options = history_options(
      "history add", "[RUN...] [options]",
      "Adds runs to the history: command without secrets, commit, Slurm job, hosts, step time, throughput,\n"
      "parts of the step, metrics, findings, loss. A run that is there already, perhaps under another name, is\n"
      "replaced, not counted twice. Several users and nodes may add at the same time.",
      "  ddl history add                                   # the newest *.ddl here\n"
      "  ddl history add *.ddl --database /shared/runs.sqlite\n"
      "  DDL_HISTORY=postgresql://db.example.org/ddl ddl history add train-4711.ddl");
  options.allow_words(kMostAdded);
  if (!options.parse(arguments)) return 0;
  std::vector<std::string> names = options.words();
  if (names.empty()) names.emplace_back();
  History history(place_of(options), history::Access::kWrite);
  int code = 0;
  for (const std::string& name : names) {
    try {
      Run run = open_run(name);
      const reports::RunView view(run.db, std::nullopt);
      std::error_code error;
      history::RunRow row = reports::history_row(
          view, fmt::format("{}:{}", host_name(), std::filesystem::absolute(run.directory, error).string()));
      row.added_by = user_name();
      row.added_ns = row.updated_ns = realtime_ns();
      const bool fresh = history.add(row) == History::Added::kNew;
      const reports::Value step = row.step_time_ns
                                      ? reports::Value::duration_ns(*row.step_time_ns)
                                      : reports::Value::absent(reports::Unit::kDuration, row.why_not("step_time_ns"));
      print_out(fmt::format("{} {}: {}, {} on {}, step time {}\n", fresh ? "added" : "updated",
                            reports::printable(run.shown), reports::printable(row.name),
                            reports::plural(row.expected_ranks, "rank"), reports::plural(row.hosts, "host"),
                            reports::line_text(step)));
    } catch (const Error& error) {
      if (names.size() == 1) throw;
      print_note(fmt::format("error: {}: {}", name, error.what()));  // the others are added all the same
      if (code == 0) code = static_cast<int>(error.code());
    }
  }
  return code;
}

int history_list(const Arguments& arguments) {
  VerbOptions options = history_options(
      "history list", "[JOB] [options]",
      "Lists jobs with their trend, changes of the step time, the newest runs, and hosts that others waited\n"
      "for. A job is the runs of one name on as many ranks and hosts. `ddl history` alone is the same.",
      "  ddl history\n"
      "  ddl history list train --rows 100\n"
      "  ddl history list --json | jq '.changes[0].sentence'");
  options.add()("rows", takes<int64_t>("N", kRunsListed), "so many runs; --json has all")("json", "for programs");
  options.allow_words(1, WordKind::kName);
  if (!options.parse(arguments)) return 0;
  const int64_t rows = options.get<int64_t>("rows");
  if (rows < 0) throw Error(fmt::format("--rows {}: must be at least 0", rows), "", ExitCode::kUsage);
  const HistoryView view = read_history(options);
  print(options, reports::build_history(view, options.has("json") ? view.rows.size() : static_cast<size_t>(rows)));
  return 0;
}

int history_check(const Arguments& arguments) {
  VerbOptions options = history_options(
      "history check", "[JOB] [options]",
      "Finds when the step time of each job changed, and by which part of the step. Where nothing changed, a look finds\n"
      "a change with a probability of 0.001 at most; changes below 1% are left out. --fail-over S: exit code 4 if the\n"
      "last change made a job slower by more than S, at most --within runs ago; 3 if the runs are too few to find that.",
      "  ddl history check\n"
      "  ddl history add new.ddl && ddl history check train --fail-over 5%      # in CI");
  options.add()("fail-over", takes<std::string>("SHARE"), "exit code 4 if slower by more: 5%, 0.05")(
      "within", takes<int64_t>("N", static_cast<int64_t>(reports::kLatelyRuns)),
      "runs of the job since the change, at most")("json", "for programs");
  options.allow_words(1, WordKind::kName);
  if (!options.parse(arguments)) return 0;
  const auto limit_text = options.maybe<std::string>("fail-over");
  const double limit = limit_text ? parse_share("fail-over", *limit_text) : 0;
  const int64_t within = options.get<int64_t>("within");
  if (within < 1) throw Error(fmt::format("--within {}: must be at least 1", within), "", ExitCode::kUsage);
  const HistoryView view = read_history(options);
  print(options, reports::build_trends(view));
  if (!limit_text) return 0;
  bool told = false, tripped = false, enough = false;
  for (const history::JobSeries& series : view.series) {
    enough |= series.runs.size() >= history::kLeastRuns;
    // That no change was seen says something only where one would be seen.
    if (series.changes.empty()) {
      const auto needed = history::runs_to_find(series, limit);
      told |= needed.has_value();
      if (needed)
        print_note(fmt::format("{}: no change seen; one by {} is seen after {} at the earliest",
                               reports::series_title(series), *limit_text,
                               reports::plural(static_cast<int64_t>(*needed), "run")));
    } else {
      told = true;
    }
    const auto slower = history::slower_lately(series, static_cast<size_t>(within));
    if (!slower || *slower <= limit) continue;
    tripped = true;
    print_note(fmt::format("{} is slower by {}, more than --fail-over {}", reports::series_title(series),
                           reports::percent_text(*slower), *limit_text));
  }
  if (!told)
    throw Error(
        enough
            ? fmt::format(
                  "--fail-over cannot decide: no job has enough runs, as much as they differ, to find one slower by {}",
                  *limit_text)
            : fmt::format("--fail-over cannot decide: no job has {} runs with a step time", history::kLeastRuns),
        "add more runs", ExitCode::kDataMissing);
  return tripped ? static_cast<int>(ExitCode::kGate) : 0;
}

int history_nodes(const Arguments& arguments) {
  VerbOptions options = history_options(
      "history nodes", "[options]",
      "Lists hosts that findings named as slow in many runs, with the probability of that by chance: the slow\n"
      "hosts of each run drawn at random among its hosts, corrected for the number of hosts. --drain prints\n"
      "commands for Slurm, for a person to read and run; ddl runs none of them.",
      "  ddl history nodes\n"
      "  ddl history nodes --drain > drain.sh");
  options.add()("drain", "scontrol commands that drain them, each with its reason")("json", "for programs");
  if (!options.parse(arguments)) return 0;
  if (options.has("drain") && options.has("json"))
    throw Error("--drain and --json exclude each other", "", ExitCode::kUsage);
  const HistoryView view = read_history(options);
  if (options.has("drain"))
    print_out(reports::drain_list(view));
  else
    print(options, reports::build_nodes(view));
  return 0;
}

int history_html(const Arguments& arguments) {
  VerbOptions options = history_options(
      "history html", "[JOB] [options]",
      "Writes a page of the history: step times of every job with their changes, the parts of a step before\n"
      "and after, runs, hosts. One file that needs no network.",
      "  ddl history html -o history.html");
  options.add()("output,o", takes<std::string>("FILE", "history.html"), "the page; - is standard output");
  options.allow_words(1, WordKind::kName);
  if (!options.parse(arguments)) return 0;
  const HistoryView view = read_history(options);
  reports::Document document = reports::build_history(view, kRunsOnPage);
  write_output(options.get<std::string>("output"),
               reports::html::render_page(document, reports::html::history_figures(view)));
  return 0;
}

int history_badge(const Arguments& arguments) {
  VerbOptions options = history_options(
      "history badge", "JOB [options]",
      "Writes an SVG with the step time of a job: red with the change if it got slower within 50 runs, grey if\n"
      "the runs are too few. If the job ran on several numbers of ranks, those of the newest run count.",
      "  ddl history badge train -o step-time.svg");
  options.add()("output,o", takes<std::string>("FILE", "-"), "the SVG; - is standard output");
  options.allow_words(1, WordKind::kName);
  if (!options.parse(arguments)) return 0;
  if (options.words().empty()) throw Error("no job given", "its name, as ddl history lists it", ExitCode::kUsage);
  const HistoryView view = read_history(options);
  write_output(options.get<std::string>("output"), reports::render_badge(view.series.front()), Readers::kAll);
  return 0;
}

struct HistoryQuestion {
  const char* name;
  const char* summary;
  int (*run)(const Arguments& arguments);
};
constexpr HistoryQuestion kHistoryQuestions[] = {
    {"add", "add runs, or what they say now", history_add},
    {"list", "jobs, changes, runs, hosts", history_list},
    {"check", "what got slower since when, and why; with a gate for scripts", history_check},
    {"nodes", "hosts that are slow again and again; commands that drain them", history_nodes},
    {"html", "a page of it all", history_html},
    {"badge", "an SVG: the step time of a job, and whether it got slower", history_badge},
};

std::string history_overview() {
  std::string text =
      "usage: ddl history [QUESTION] [options]        ddl history QUESTION --help: its options, examples\n\n";
  for (const HistoryQuestion& question : kHistoryQuestions)
    text += fmt::format("  {:<8} {}\n", question.name, question.summary);
  return text +
         "\nWithout a question: list.\n\nexample:\n  ddl history add *.ddl\n  ddl history check --fail-over 5%\n";
}

}  // namespace

std::vector<std::string> history_questions() {
  std::vector<std::string> names;
  for (const HistoryQuestion& question : kHistoryQuestions) names.emplace_back(question.name);
  return names;
}

int run_history(const Arguments& arguments) {
  if (arguments.empty()) return history_list(arguments);
  const std::string& word = arguments[0];
  if (word == "--help" || word == "-h" || word == "help") {
    print_out(history_overview());
    return 0;
  }
  if (word.starts_with('-')) return history_list(arguments);
  for (const HistoryQuestion& question : kHistoryQuestions)
    if (word == question.name) return question.run({arguments.begin() + 1, arguments.end()});
  throw Error(fmt::format("unknown word '{}'", word),
              did_you_mean(word, history_questions(), "see: ddl history --help"), ExitCode::kUsage);
}

}  // namespace ddl::cli
