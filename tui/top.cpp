#include "tui/top.h"

#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "core/error.h"
#include "tui/snapshot.h"

namespace ddl::tui {
namespace {

double seconds(const timeval& t) { return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec); }

double cpu_s() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

/// Whoever follows a recording may begin before the job's first call, and then waits for it.
void poll(Source& source, Job& job, const TopOptions& options, bool has_begun) {
  for (;;) {
    try {
      return source.poll(job, options.view.interval_s);
    } catch (const Error& error) {
      if (options.frames || has_begun || error.code() != ExitCode::kDataMissing || !job.recording) throw;
    }
    usleep(static_cast<useconds_t>(1e6 * options.view.interval_s));
  }
}

}  // namespace

double monotonic_s() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

OwnCost::OwnCost() : cpu_s_(cpu_s()), wall_s_(monotonic_s()) {}

double OwnCost::cpu_ratio() {
  const double cpu = cpu_s(), wall = monotonic_s();
  const double ratio = wall > wall_s_ ? (cpu - cpu_s_) / (wall - wall_s_) : 0;
  cpu_s_ = cpu;
  wall_s_ = wall;
  return ratio;
}

int run_batch(Source& source, const TopOptions& options, const std::function<void(std::string_view)>& write) {
  Job job;
  Observer observer;
  OwnCost cost;
  std::optional<double> own;
  for (int n = 0; !options.frames || n < *options.frames; ++n) {
    if (n > 0) usleep(static_cast<useconds_t>(1e6 * options.view.interval_s));
    poll(source, job, options, n > 0);
    if (n > 0) own = cost.cpu_ratio();
    Snapshot snapshot = observer.look(job, options.replay);
    snapshot.interval_s = options.view.interval_s;
    snapshot.own_cpu_ratio = own;
    write(options.json ? to_json(snapshot) + "\n"
                       : (n > 0 ? "\n" : "") + draw(snapshot, options.size, options.theme, options.view).text());
    if (job.ended && !job.may_go_on && !options.frames) break;
  }
  return 0;
}

}  // namespace ddl::tui
