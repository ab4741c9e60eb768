// What `ddl record` saw of the job's end, and how to say it. Nothing is known of a job that ran without it.
#pragma once

#include <SQLiteCpp/Database.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ddl {

struct JobEnd {
  bool seen = false;
  std::optional<int64_t> exit_code;  ///< of the command; nothing: it was killed
  /// it called MPI: its launcher gives the exit code of a rank; torchrun has its own
  bool mpi = false;
  bool launcher_killed = false;  ///< the signal hit the launcher (mpirun), not a rank
  /// what told the job to end while it ran: "SIGTERM", "--on-stall abort"; empty: nothing
  std::string told_to_end;
  bool time_limit = false;  ///< it did so, as the exit code says, which a rank may have given as well
  bool over = false;        ///< of it only this is known: the launcher was started again
  /// of the command, or of a rank: launchers and shells return 128 + number; 0: none
  int64_t signal = 0;
  std::vector<int64_t> or_signals;  ///< that the exit code may stand for as well
  /// mpiexec of MPICH (Hydra): its code is that of all ranks together, those that it killed among them
  bool merged = false;

  /// A signal that no user sends: what the rank did is the cause, whatever came after it.
  bool crashed() const;
  /// The launcher said that one of its processes went wrong: it then ends the others itself.
  bool rank_failed() const { return exit_code && *exit_code != 0; }
};
JobEnd job_end(SQLite::Database& db);

/// A run whose last record is younger than this when it is read may still go on.
constexpr int64_t kFreshNs = 5'000'000'000;

/// When `ddl record` saw the job end, on the run's axis; nothing if it did not.
std::optional<int64_t> end_on_axis_ns(SQLite::Database& db);
/// When its watch last saw a job run whose end it did not see.
std::optional<int64_t> last_look_ns(SQLite::Database& db);

/// Ranks of a world whose record ends in a call that never returned. That time is in no number.
struct NeverReturned {
  int64_t ranks = 0;    ///< 0: none, or the run may still go on
  int64_t last_ns = 0;  ///< the world's last record
  /// from then to the job's end, or to when its watch last saw it; nothing: nobody knows
  std::optional<int64_t> span_ns;
  bool seen = false;   ///< it was its end
  double rank_ns = 0;  ///< that all of them sat in those calls, if the span is known
};
NeverReturned never_returned(SQLite::Database& db, int64_t world);

/// Did the job call MPI? Others communicate by Gloo or NCCL alone.
bool calls_mpi(SQLite::Database& db);

/// "SIGSEGV"
std::string signal_name(int64_t number);

/// "SIGSEGV", or "SIGABRT, SIGBUS or SIGTERM" where the exit code does not tell which.
std::string signals_text(const JobEnd& end);

/// The fate of ranks without a sign of their end, as far as the job's end tells: "crashed (SIGSEGV)", "was killed
/// (SIGKILL)", "stopped without MPI_Finalize (exit code 3)", without MPI "stopped (the command's exit code: 1)", "was
/// killed, crashed, left by _exit or still runs", for a world that is over "was killed, crashed or left by _exit".
std::string fate(const JobEnd& end, bool plural);

}  // namespace ddl
