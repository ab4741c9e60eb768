// ddl import: traces of other tools as a run.
#include <fmt/format.h>

#include <filesystem>
#include <optional>

#include "analyzer/analyze.h"
#include "cli/interrupts.h"
#include "cli/new_run.h"
#include "cli/open_run.h"
#include "cli/options.h"
#include "cli/progress_bar.h"
#include "cli/terminal.h"
#include "cli/verbs.h"
#include "core/error.h"
#include "reports/format.h"
#include "store/import.h"
#include "store/text.h"

namespace fs = std::filesystem;

namespace ddl::cli {
namespace {

std::string import_formats_text() {
  std::string text =
      "Makes a run from another tool's trace, for report, query, analyze and the rest.\n"
      "FILE may be a folder: it stands for its files whose names end as the format's do.\n\nFORMAT is one of\n";
  for (const ImportFormat& format : import_formats())
    text += fmt::format("  {:<15} {}\n", format.name, format.sentence);
  return text;
}

std::vector<std::string> import_names() {
  std::vector<std::string> names;
  for (const ImportFormat& format : import_formats()) names.emplace_back(format.name);
  return names;
}

const ImportFormat& import_format(const std::string& name) {
  for (const ImportFormat& format : import_formats())
    if (format.name == name) return format;
  throw Error(fmt::format("unknown format '{}'", name), did_you_mean(name, import_names(), "see: ddl import --help"),
              ExitCode::kUsage);
}

void make_run(const ImportFormat& format, const std::vector<fs::path>& files, const std::string& name, bool one_clock,
              std::optional<uint64_t> most_events) {
  NewRun run(name, {format.name}, ExitCode::kOurs);
  ProgressBar bar;
  const auto show = [&](const std::string& what, double done) {
    Interrupts::check();
    bar.update(what, done);
  };
  ImportOptions options;
  options.output = run.path() / "run.sqlite";
  options.one_clock = one_clock;
  if (most_events) options.most_events = *most_events;
  options.progress = [&](const Progress& p) {
    show(p.stage, p.total_bytes == 0 ? 0 : static_cast<double>(p.done_bytes) / static_cast<double>(p.total_bytes));
  };
  options.finish = [&](SQLite::Database& db) {
    analyze(db, [&](std::string_view what, double done) { show(std::string(what), done); });
  };
  const ImportSummary summary = import_traces(format, files, options);
  run.keep();
  const std::string shown = shown_path(run.path());
  print_note(fmt::format("{}: {}, {}{}; see: ddl report {}", shown,
                         reports::plural(static_cast<int64_t>(summary.ranks), "rank"),
                         reports::plural(static_cast<int64_t>(summary.events), "event"),
                         summary.losses > 0 ? ", and gaps that the report names" : "", shell_quoted(shown)));
}

}  // namespace

int run_import(const Arguments& arguments) {
  const std::string text = import_formats_text();
  VerbOptions options({.verb = "import",
                       .usage = "FORMAT FILE... [options]",
                       .text = text,
                       .example = "  ddl import kineto worker*.pt.trace.json.gz -o job.ddl\n"
                                  "  ddl report job.ddl"});
  options.add()("output,o", takes<std::string>("NAME.ddl"),
                "the run directory to make (default: FORMAT-DATE-TIME.ddl)")(
      "one-clock", "the clocks of all ranks agree, as on one machine: compute waiting from them")(
      "max-events", takes<size_t>("N"), "end with an error if there are more (=100000000)");
  constexpr size_t kMostFiles = 1'000'000;
  options.allow_words(kMostFiles, WordKind::kFile, import_names());
  if (!options.parse(arguments)) return 0;
  const std::vector<std::string>& words = options.words();
  if (words.empty())
    throw Error("no format given", "e.g. ddl import kineto worker*.pt.trace.json.gz", ExitCode::kUsage);
  const ImportFormat& format = import_format(words[0]);
  if (words.size() == 1)
    throw Error("no files given", fmt::format("e.g. ddl import {} {}", format.name, format.files), ExitCode::kUsage);

  interruptible([&] {
    make_run(format, {words.begin() + 1, words.end()}, options.maybe<std::string>("output").value_or(""),
             options.has("one-clock"), options.maybe<size_t>("max-events"));
  });
  return 0;
}

}  // namespace ddl::cli
