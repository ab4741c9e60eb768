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

std::optional<int64_t> on_axis_ns(SQLite::Database& db, const char* key) {
  Query row(db,
            "SELECT CAST(e.value AS INTEGER) - CAST(b.value AS INTEGER) FROM meta e, meta b"
            " WHERE e.key = ? AND b.key = 'epoch_realtime_ns'");
  row.bind(key);
  return row.next() ? row.maybe_integer(0) : std::nullopt;
}

std::optional<int64_t> number(SQLite::Database& db, const char* key) {
  Query row(db, "SELECT CAST(value AS INTEGER) FROM meta WHERE key = ?");
  row.bind(key);
  return row.next() ? row.maybe_integer(0) : std::nullopt;
}

bool is_signal(int64_t number) {
  return number > 0 && number < NSIG && sigabbrev_np(static_cast<int>(number)) != nullptr;
}

bool is_crash(int64_t signal) {
  constexpr int kCrashes[] = {SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSYS, SIGTRAP};
  return std::find(std::begin(kCrashes), std::end(kCrashes), signal) != std::end(kCrashes);
}

/// MPI of the ranks is one of those that Hydra starts, and Hydra's command did.
bool started_by_hydra(SQLite::Database& db) {
  Query launcher(db, "SELECT 1 FROM meta WHERE key = 'launcher' AND value IN ('mpirun', 'mpiexec')");
  Query library(
      db,
      "SELECT 1 FROM process_fact WHERE key = 'mpi' AND (value LIKE 'MPICH%' OR value LIKE 'Intel(R) MPI%' OR value LIKE 'MVAPICH%')");
  return launcher.next() && library.next();
}

/// Hydra returns a rank's signal as a bare number, OR-ed with the SIGKILL of the ranks that it ended then. A rank that
/// called MPI_Abort or exit() gave the same numbers as codes.
std::vector<int64_t> signals_in(SQLite::Database& db, int64_t code) {
  constexpr int kUsual[] = {SIGSEGV, SIGKILL, SIGABRT, SIGBUS,  SIGFPE,  SIGILL,
                            SIGSYS,  SIGTRAP, SIGPIPE, SIGTERM, SIGXCPU, SIGXFSZ};
  Query own(db,
            "SELECT 1 FROM process WHERE ended = 'aborted' UNION ALL"
            " SELECT 1 FROM process_fact WHERE key = 'exit_code' AND CAST(value AS INTEGER) <> 0");
  std::vector<int64_t> signals;
  if (own.next()) return signals;
  for (const int signal : kUsual)
    if (signal == code || (signal | SIGKILL) == code) signals.push_back(signal);
  if (code == SIGKILL) signals = {SIGKILL};
  return signals;
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
  } else if (end.exit_code && started_by_hydra(db)) {
    end.merged = true;
    end.or_signals = signals_in(db, *end.exit_code);
    if (!end.or_signals.empty()) {
      end.signal = end.or_signals.front();
      end.or_signals.erase(end.or_signals.begin());
    }
  }
  if (const auto told = number(db, "told_to_end"))
    end.told_to_end = signal_name(*told);
  else if (Query(db, "SELECT 1 FROM stall WHERE action = 'abort'").next())
    end.told_to_end = "--on-stall abort";
  end.time_limit = end.told_to_end.empty() && end.exit_code &&
                   (*end.exit_code == kTimeoutCode || *end.exit_code == kMpirunTimeoutCode);
  if (end.time_limit) end.told_to_end = fmt::format("a time limit, exit code {}", *end.exit_code);
  return end;
}

std::optional<int64_t> end_on_axis_ns(SQLite::Database& db) { return on_axis_ns(db, "ended_realtime_ns"); }

std::optional<int64_t> last_look_ns(SQLite::Database& db) { return on_axis_ns(db, "last_look_realtime_ns"); }

NeverReturned never_returned(SQLite::Database& db, int64_t world) {
  NeverReturned found;
  Query all(db, R"(
    SELECT max(end_ns), (SELECT min(start_ns) FROM process WHERE world > ?1 AND rank IS NOT NULL)
    FROM process
    WHERE world = ?1)");
  all.bind(world);
  if (!all.next() || all.is_null(0)) return found;
  found.last_ns = all.integer(0);
  const std::optional<int64_t> next_ns = all.maybe_integer(1), end_ns = end_on_axis_ns(db);
  found.seen = end_ns.has_value();
  const std::optional<int64_t> until_ns = next_ns && *next_ns >= found.last_ns ? std::nullopt
                                          : end_ns                             ? end_ns
                                                                               : last_look_ns(db);
  const std::optional<int64_t> read_ns = on_axis_ns(db, "ingested_at");
  if (!found.seen && read_ns && *read_ns - found.last_ns <= kFreshNs) return found;
  if (until_ns) found.span_ns = std::max(int64_t{0}, *until_ns - found.last_ns);
  Query open(db, R"(
    SELECT p.id, min(x.start_ns)
    FROM open_call x
    JOIN process p ON p.id = x.process
    WHERE p.world = ? AND p.rank IS NOT NULL AND p.ended = 'lost'
    GROUP BY p.id)");
  for (open.bind(world); open.next();) {
    ++found.ranks;
    if (until_ns) found.rank_ns += static_cast<double>(std::max(int64_t{0}, *until_ns - open.integer(1)));
  }
  return found;
}

bool calls_mpi(SQLite::Database& db) {
  return Query(db, "SELECT 1 FROM op WHERE name LIKE 'MPI!_%' ESCAPE '!'").next();
}

std::string signal_name(int64_t number) {
  return is_signal(number) ? fmt::format("SIG{}", sigabbrev_np(static_cast<int>(number)))
                           : fmt::format("signal {}", number);
}

std::string signals_text(const JobEnd& end) {
  std::string text = signal_name(end.signal);
  for (size_t i = 0; i < end.or_signals.size(); ++i)
    text += fmt::format("{}{}", i + 1 == end.or_signals.size() ? " or " : ", ", signal_name(end.or_signals[i]));
  return text;
}

bool JobEnd::crashed() const {
  // SIGABRT is how frameworks end a rank that waited too long.
  return signal != 0 && signal != SIGABRT && !launcher_killed && is_crash(signal) &&
         std::all_of(or_signals.begin(), or_signals.end(), is_crash);
}

std::string fate(const JobEnd& end, bool plural) {
  const char* were = plural ? "were" : "was";
  if (end.signal != 0 && !end.launcher_killed) {
    const bool crash = is_crash(end.signal),
               all_alike = std::all_of(end.or_signals.begin(), end.or_signals.end(),
                                       [&](int64_t signal) { return is_crash(signal) == crash; });
    return fmt::format("{} ({}){}",
                       !all_alike ? fmt::format("crashed or {} killed", were)
                       : crash    ? "crashed"
                                  : fmt::format("{} killed", were),
                       signals_text(end), end.merged && end.signal == SIGKILL ? " or left by _exit" : "");
  }
  if (end.exit_code)
    return end.mpi ? fmt::format("stopped without MPI_Finalize (exit code {})", *end.exit_code)
                   : fmt::format("stopped (the command's exit code: {})", *end.exit_code);
  if (end.over) return fmt::format("{} killed, crashed or left by _exit", were);
  return fmt::format("{} killed, crashed, left by _exit or still {}", were, plural ? "run" : "runs");
}

}  // namespace ddl
