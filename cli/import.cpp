// ddl import: traces of other tools as a run.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "analyzer/analyze.h"
#include "cli/new_run.h"
#include "cli/open_run.h"
#include "cli/options.h"
#include "cli/progress_bar.h"
#include "cli/terminal.h"
#include "cli/verbs.h"
#include "core/error.h"
#include "store/import.h"

namespace fs = std::filesystem;
namespace po = boost::program_options;

namespace ddl::cli {
namespace {

std::string formats_text() {
  std::string text = "Makes a run of what another tool traced: report, query, analyze and the rest work on it.\n\nFORMAT is one of\n";
  for (const ImportFormat& format : import_formats()) text += fmt::format("  {:<15} {}\n", format.name, format.sentence);
  return text;
}

const ImportFormat& known_format(const std::string& name) {
  std::vector<std::string> names;
  for (const ImportFormat& format : import_formats()) {
    if (format.name == name) return format;
    names.emplace_back(format.name);
  }
  throw Error(fmt::format("unknown format '{}'", name), did_you_mean(name, names, "see: ddl import --help"), ExitCode::kUsage);
}

/// The directory of the run to be, gone again if it does not come to be.
class NewRun {
 public:
  NewRun(const std::string& name, const std::string& format) : path_(create_run_directory(name, {format})) {}
  ~NewRun() {
    std::error_code ignored;
    if (!kept_) fs::remove(path_, ignored);  // it is empty
  }
  NewRun(const NewRun&) = delete;
  NewRun& operator=(const NewRun&) = delete;
  const fs::path& path() const { return path_; }
  void keep() { kept_ = true; }

 private:
  fs::path path_;
  bool kept_ = false;
};

}  // namespace

int run_import(const Arguments& arguments) {
  const std::string text = formats_text();
  VerbOptions options({.verb = "import",
                       .usage = "FORMAT FILE... [options]",
                       .text = text,
                       .example = "  ddl import kineto worker*.pt.trace.json.gz -o job.ddl\n"
                                  "  ddl report job.ddl"});
  options.add()("output,o", po::value<std::string>()->value_name("NAME.ddl"), "the run directory to make (default: FORMAT-DATE-TIME.ddl)")(
      "one-clock", "the clocks of all ranks agree, as on one machine: waiting may be told by them");
  constexpr size_t kMostFiles = 1'000'000;
  options.allow_words(kMostFiles);
  if (!options.parse(arguments)) return 0;
  const std::vector<std::string>& words = options.words();
  if (words.empty()) throw Error("which format?", "e.g. ddl import kineto worker*.pt.trace.json.gz", ExitCode::kUsage);
  const ImportFormat& format = known_format(words[0]);
  if (words.size() == 1) throw Error("which files?", fmt::format("e.g. ddl import {} {}", format.name, format.files), ExitCode::kUsage);

  NewRun run(options.maybe<std::string>("output").value_or(""), fmt::format("{}", format.name));
  ProgressBar bar;
  ImportOptions import;
  import.output = run.path() / "run.sqlite";
  import.one_clock = options.has("one-clock");
  import.progress = [&](const Progress& p) {
    bar.update(p.stage, p.total_bytes == 0 ? 0 : static_cast<double>(p.done_bytes) / static_cast<double>(p.total_bytes));
};
  import.finish = [&](SQLite::Database& db) { analyze(db, [&](std::string_view what, double done) { bar.update(std::string(what), done);
  }  // namespace ddl::cli
);
}
;
const ImportSummary summary = import_traces(format, {words.begin() + 1, words.end()}, import);
run.keep();
const std::string shown = shown_path(run.path());
print_note(fmt::format("{}: {} rank{}, {} events{}; see: ddl report {}", shown, summary.ranks, summary.ranks == 1 ? "" : "s",
                       summary.events, summary.losses > 0 ? ", and gaps that the report names" : "", shown));
return 0;
}

}  // namespace ddl::cli
