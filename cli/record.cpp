// ddl record: makes the run directory, starts the job with the library preloaded, and turns what it left
// behind into run.sqlite.
//
// The job must not notice: its standard streams, its exit code and its process group are as without us, and our own
// words go to standard error, two lines at most, after the job has ended.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <string_view>

#include "cli/job_file.h"
#include "cli/library.h"
#include "cli/mpirun.h"
#include "cli/new_run.h"
#include "cli/open_run.h"
#include "cli/process.h"
#include "cli/record_options.h"
#include "cli/terminal.h"
#include "cli/verbs.h"
#include "core/error.h"
#include "reports/format.h"
#include "store/job.h"
#include "store/run_directory.h"
#include "store/text.h"

namespace fs = std::filesystem;

namespace ddl::cli {
namespace {

struct Counts {
  int64_t ranks = 0, missing = 0, processes = 0, events = 0;
};

Counts count(SQLite::Database& db) {
  const auto number = [&](const char* sql) { return db.execAndGet(sql).getInt64(); };
  return {.ranks = number("SELECT count(*) FROM process WHERE rank IS NOT NULL"),
          .missing = number("SELECT coalesce(sum(count), 0) FROM loss WHERE kind = 'missing_rank'"),
          .processes = number("SELECT count(*) FROM process"),
          .events = number("SELECT count(*) FROM event")};
}

// After the job: whatever goes wrong here is said, but the job's exit code stands.
void finish(const fs::path& directory, const JobFile& job, const Ended& ended) {
  const std::string shown = shown_path(directory);
  std::error_code unreadable;
  if (!fs::exists(directory, unreadable)) {
    print_note(unreadable ? fmt::format("{} cannot be read any more ({}): only what had reached the disk is left",
                                        shown, unreadable.message())
                          : fmt::format("{} was removed while the job ran: nothing is left of its record", shown));
    return;
  }
  try {
    write_job_file(directory, job);
  } catch (const Error& error) {
    print_note(error.what());
  }
  try {
    if (find_run(directory.string()).spools().empty()) {
      const std::string why =
          ended.shell_code() == 0 && !job.gloo.empty()
              ? fmt::format("this job communicates through Gloo ({}), which was not recorded", job.gloo)
          : ended.shell_code() == 0
              ? "no process of the job called MPI or used ddl/annotate.h or ddl_annotate.py"
              : fmt::format("the job failed ({}) before any process of it called MPI", ended.shell_code());
      print_note(fmt::format("nothing was recorded to {}: {} (see: ddl doctor)", shown, why));
      if (ended.shell_code() == 0)
        print_note(fmt::format("hint: {}",
                               job.gloo.empty()
                                   ? "calls of an MPI that is linked statically, or looked up with dlsym, are not seen"
                                   : kGlooHint));
      return;
    }
    Run run = open_run(directory.string());
    const Counts counts = count(run.db);
    const std::string what =
        counts.missing > 0
            ? fmt::format("{} of {}", counts.ranks, reports::plural(counts.ranks + counts.missing, "rank"))
        : counts.ranks > 0 ? reports::plural(counts.ranks, "rank")
                           : fmt::format("{} without MPI", reports::plural(counts.processes, "process"));
    print_note(fmt::format("recorded {} to {} ({}) - see it with: ddl report {}", what, shown,
                           reports::plural(counts.events, "event"), shell_quoted(shown)));
  } catch (const Error& error) {
    print_note(fmt::format("the job was recorded in {}, but the recording cannot be read: {}", shown, error.what()));
    if (!error.hint().empty()) print_note("hint: " + error.hint());
  } catch (const std::exception& error) {
    print_note(fmt::format("the job was recorded in {}, but the recording cannot be read: {}", shown, error.what()));
  }
}

// DDL_* variables that the user has set must reach the other hosts as well: a job whose halves keep different windows
// cannot be compared.
void add_own_variables(Settings& settings) {
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const size_t equals = text.find('=');
    const std::string name(text.substr(0, equals));
    const bool is_set =
        std::any_of(settings.begin(), settings.end(), [&](const auto& setting) { return setting.first == name; });
    if (name.starts_with("DDL_") && equals != std::string_view::npos && !is_set)
      settings.emplace_back(name, text.substr(equals + 1));
  }
}

}  // namespace

int run_record(const Arguments& arguments) {
  const RecordOptions options = parse_record_options(arguments);
  if (options.help) return 0;

  const fs::path library = find_library(options.flavour ? *options.flavour : flavour_of(options.command));
  Settings settings = {{"LD_PRELOAD", preload_value(library)}};
  NewRun run(options.directory, options.command, ExitCode::kCannotLaunch);
  const fs::path& directory = run.path();
  settings.emplace_back("DDL_OUT", directory.string());
  settings.insert(settings.end(), options.window.begin(), options.window.end());
  if (const std::string path = options.python ? python_path() : ""; !path.empty())
    settings.emplace_back("PYTHONPATH", path);
  if (options.horovod_timeline) {
    settings.emplace_back("HOROVOD_TIMELINE", RunDirectory{directory, {}}.horovod_timeline().string());
    settings.emplace_back("HOROVOD_CACHE_CAPACITY", "0");  // what the cache answers names no ranks
  }
  if (options.stall.limit) settings.emplace_back("DDL_STACKS", "1");  // for python/ddl_hooks
  add_own_variables(settings);
  add_injections(library.string(), settings);

  JobFile job = describe_job(options.command, environ);
  try {
    write_job_file(directory, job);
    const Ended ended =
        run_job(is_open_mpi_launcher(options.command) ? forward_settings(options.command, settings) : options.command,
                settings, {},
                options.stall.limit ? [&](pid_t pid) { watch_for_stalls(directory, options.stall, pid); }
                                    : std::function<void(pid_t)>());
    run.keep();
    job.ended_realtime_ns = realtime_ns();
    std::error_code no_watch;
    fs::remove(RunDirectory{directory, {}}.last_look(), no_watch);
    if (ended.signal != 0)
      job.signal = ended.signal;
    else
      job.exit_code = ended.exit_code;
    if (ended.told_to_end != 0) job.told_to_end = ended.told_to_end;
    finish(directory, job, ended);
    return ended.shell_code();
  } catch (const Error& error) {
    if (error.code() != ExitCode::kCannotLaunch) throw;
    std::error_code ignored;  // nothing was started: leave nothing behind
    fs::remove(directory / "job.json", ignored);
    throw;
  }
}

}  // namespace ddl::cli
