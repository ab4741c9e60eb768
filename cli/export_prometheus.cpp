#include "cli/export_prometheus.h"

#include <SQLiteCpp/Statement.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <filesystem>

#include "cli/interrupts.h"
#include "cli/open_run.h"
#include "cli/output_file.h"
#include "core/error.h"
#include "reports/prometheus.h"
#include "store/run_directory.h"
#include "tui/observer.h"
#include "tui/spool_source.h"
#include "tui/top.h"

namespace fs = std::filesystem;

namespace ddl::cli {
namespace {

constexpr double kFastest_s = 30;  // a scrape of every node is not to cost more than what it tells
constexpr double kLook_s = 1;

/// What is written is for node_exporter, which is another user.
struct Destination {
  std::string file;
  NamedBy by;

  void write(const std::string& page) const { write_output(file, page, Readers::kAll, by); }
  /// The last page is not to be taken for news. Only a file is removed: -o may name /dev/null, or a FIFO.
  void remove() const {
    std::error_code ignored;
    if (file != "-" && fs::is_regular_file(file, ignored)) fs::remove(file, ignored);
  }
};

/// ddl-NAME.prom, whatever the name holds: node_exporter reads *.prom.
Destination file_of(const PrometheusRequest& request, const fs::path& run) {
  if (!request.textfile) return {request.output.value_or("-"), NamedBy::kUser};
  std::error_code error;
  if (!fs::is_directory(*request.textfile, error))
    throw Error(fmt::format("--textfile {}: there is no such folder", *request.textfile),
                "the folder of node_exporter's --collector.textfile.directory", ExitCode::kUsage);
  std::string name = fs::weakly_canonical(run).filename().string();
  if (name.ends_with(".ddl")) name.erase(name.size() - 4);
  std::replace_if(
      name.begin(), name.end(),
      [](unsigned char c) { return std::isalnum(c) == 0 && c != '.' && c != '_' && c != '-'; }, '_');
  constexpr size_t kMost = 200;  // of the 255 bytes that a file's name may have
  return {*request.textfile + "/ddl-" + name.substr(0, kMost) + ".prom", NamedBy::kFolder};
}

struct Rendering {
  reports::PrometheusLimits limits;
  bool otlp;

  std::string page(const reports::JobNumbers& job, int64_t time_ns) const {
    return otlp ? reports::render_otlp(job, limits, time_ns) : reports::render_prometheus(job, limits);
  }
};

int64_t unix_ns() { return std::chrono::nanoseconds(std::chrono::system_clock::now().time_since_epoch()).count(); }

/// When the run ended; now, if it does not know the time of day.
int64_t end_ns(SQLite::Database& db) {
  SQLite::Statement row(
      db,
      "SELECT e.value + d.value FROM meta e JOIN meta d ON d.key = 'duration_ns' WHERE e.key = 'epoch_realtime_ns'");
  return row.executeStep() ? row.getColumn(0).getInt64() : unix_ns();
}

/// A job that is looked at from beside it.
class Watch {
 public:
  explicit Watch(const RunDirectory& run) : source_(run, shown_path(run.directory)) {}

  /// Reads what is new. Throws ddl::Error (kDataMissing) as long as nothing is there.
  void poll() { source_.poll(job_, kLook_s); }
  void look() {
    poll();
    observe();
  }
  void observe() { snapshot_ = observer_.look(job_, false); }
  bool ended() const { return job_.ended; }
  /// Nothing more will come, by all that is known.
  bool is_over() const { return job_.ended && !job_.may_go_on; }
  std::string page(const Rendering& rendering) const { return rendering.page(tui::job_numbers(snapshot_), unix_ns()); }

 private:
  tui::SpoolSource source_;
  tui::Job job_;
  tui::Observer observer_;
  tui::Snapshot snapshot_;
};

/// A job may be about to begin: `patience_s` for that.
RunDirectory wait_for_run(const std::string& name, double patience_s) {
  for (const double end_s = tui::monotonic_s() + patience_s;; usleep(static_cast<useconds_t>(1e6 * kLook_s))) {
    try {
      const RunDirectory run = find_run(name.empty() ? std::nullopt : std::optional(name));
      Watch(run).poll();
      return run;
    } catch (const Error& error) {
      if (error.code() != ExitCode::kDataMissing || tui::monotonic_s() > end_s) throw;
    }
  }
}

/// False: it has ended, or its spools tell nothing.
bool write_if_it_runs(const RunDirectory& run, const Destination& to, const Rendering& rendering) {
  if (run.spools().empty()) return false;
  Watch watch(run);
  try {
    watch.poll();
  } catch (const Error& error) {
    if (error.code() != ExitCode::kDataMissing) throw;
    return false;
  }
  if (watch.ended()) return false;
  watch.observe();
  const std::string page = watch.page(rendering);
  interruptible([&] { to.write(page); });
  return true;
}

/// An ended run, from its store.
std::string page_of_whole_run(const std::string& run, const Rendering& rendering) {
  Run stored = open_run(run);
  const reports::RunView view(stored.db, std::nullopt);
  return rendering.page(reports::job_numbers(view, stored.directory.string()), end_ns(stored.db));
}

/// The last page tells of the end.
void write_while_it_runs(Watch& watch, const Destination& to, double interval_s, const Rendering& rendering) {
  try {
    for (double next_s = 0;; usleep(static_cast<useconds_t>(1e6 * kLook_s))) {
      Interrupts::check();
      watch.look();
      if (tui::monotonic_s() < next_s && !watch.is_over()) continue;
      to.write(watch.page(rendering));
      if (watch.is_over()) return;
      next_s = tui::monotonic_s() + interval_s;
    }
  } catch (const Error&) {
    to.remove();
    throw;
  }
}

}  // namespace

void export_prometheus(const PrometheusRequest& request) {
  if (request.output && request.textfile)
    throw Error("-o and --textfile exclude each other", "choose one", ExitCode::kUsage);
  if (request.watch_s && !(*request.watch_s >= kFastest_s))
    throw Error(fmt::format("--watch: intervals are at least {:g}s", kFastest_s), "ddl-top shows a job every second",
                ExitCode::kUsage);
  const Rendering rendering{.limits = {.ranks = request.ranks}, .otlp = request.otlp};
  if (request.watch_s) {
    const RunDirectory run = wait_for_run(request.run, *request.watch_s);
    Watch watch(run);
    watch.poll();  // most of the reading: until there is a page, a signal ends it at once
    const Destination to = file_of(request, run.directory);
    interruptible([&] { write_while_it_runs(watch, to, *request.watch_s, rendering); });
    // takes a while: that it has ended is told already
    const std::string page = page_of_whole_run(run.directory.string(), rendering);
    interruptible([&] { to.write(page); });
    return;
  }
  const RunDirectory run = find_run(request.run.empty() ? std::nullopt : std::optional(request.run));
  const Destination to = file_of(request, run.directory);
  if (write_if_it_runs(run, to, rendering)) return;
  const std::string page = page_of_whole_run(request.run, rendering);
  interruptible([&] { to.write(page); });
}

}  // namespace ddl::cli
