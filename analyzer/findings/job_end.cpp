#include "analyzer/findings/job_end.h"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <iterator>

#include "analyzer/query.h"

namespace ddl {
namespace {

constexpr int64_t kTimeoutCode = 124;        // of timeout(1) that ended its command
constexpr int64_t kMpirunTimeoutCode = 110;  // of Open MPI's mpirun --timeout (ETIMEDOUT)

std::optional<int64_t> number(SQLite::Database& db, const char* key) {
  Query row(db, "SELECT CAST(value AS INTEGER) FROM meta WHERE key = ?");
  row.bind(key);
  return row.next() ? row.maybe_integer(0) : std::nullopt;
}

bool is_signal(int64_t number) { return number > 0 && number < NSIG && sigabbrev_np(static_cast<int>(number)) != nullptr; }

bool is_crash(int64_t signal) {
  constexpr int kCrashes[] = {SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSYS, SIGTRAP};
  return std::find(std::begin(kCrashes), std::end(kCrashes), signal) != std::end(kCrashes);
}

}  // namespace

JobEnd job_end(SQLite::Database& db) {
  JobEnd end;
  end.seen = number(db, "ended_realtime_ns").has_value();
  end.exit_code = number(db, "exit_code");
  end.mpi = calls_mpi(db);
  Query launcher(db, "SELECT 1 FROM meta WHERE key = 'launcher' AND value <> ''");
  if (const auto signal = number(db, "signal"); signal && is_signal(*signal)) {
    end.signal = *signal;
    end.exit_code.reset();
    end.launcher_killed = launcher.next();
  } else if (end.exit_code && is_signal(*end.exit_code - 128)) {
    end.signal = *end.exit_code - 128;
  }
  if (const auto told = number(db, "told_to_end"))
    end.told_to_end = signal_name(*told);
  else if (Query(db, "SELECT 1 FROM stall WHERE action = 'abort'").next())
    end.told_to_end = "--on-stall abort";
  end.time_limit = end.told_to_end.empty() && end.exit_code && (*end.exit_code == kTimeoutCode || *end.exit_code == kMpirunTimeoutCode);
  if (end.time_limit) end.told_to_end = fmt::format("a time limit, exit code {}", *end.exit_code);
  return end;
}

bool calls_mpi(SQLite::Database& db) { return Query(db, "SELECT 1 FROM op WHERE name LIKE 'MPI!_%' ESCAPE '!'").next(); }

std::string signal_name(int64_t number) {
  return is_signal(number) ? fmt::format("SIG{}", sigabbrev_np(static_cast<int>(number))) : fmt::format("signal {}", number);
}

std::string fate(const JobEnd& end, bool plural) {
  const char* were = plural ? "were" : "was";
  if (end.signal != 0 && !end.launcher_killed)
    return is_crash(end.signal) ? fmt::format("crashed ({})", signal_name(end.signal))
                                : fmt::format("{} killed ({})", were, signal_name(end.signal));
  if (end.exit_code)
    return end.mpi ? fmt::format("stopped without MPI_Finalize (exit code {})", *end.exit_code)
                   : fmt::format("stopped (the command's exit code: {})", *end.exit_code);
  if (end.over) return fmt::format("{} killed, crashed or left by _exit", were);
  return fmt::format("{} killed, crashed, left by _exit or still {}", were, plural ? "run" : "runs");
}

}  // namespace ddl
