// What `ddl record` saw of the job's end, and how to say it. Nothing is known of a job that ran without it.
#pragma once

#include <SQLiteCpp/Database.h>

#include <cstdint>
#include <optional>
#include <string>

namespace ddl {

struct JobEnd {
  bool seen = false;
  std::optional<int64_t> exit_code;  ///< of the command; nothing: it was killed
  bool mpi = false;                  ///< it called MPI: its launcher gives the exit code of a rank; torchrun has its own
  bool launcher_killed = false;      ///< the signal hit the launcher (mpirun), not a rank
  std::string told_to_end;           ///< what told the job to end while it ran: "SIGTERM", "--on-stall abort"; empty: nothing
  bool time_limit = false;           ///< it did so, as the exit code says, which a rank may have given as well
  bool over = false;                 ///< of it only this is known: the launcher was started again
  int64_t signal = 0;                ///< of the command, or of a rank: launchers and shells return 128 + number; 0: none

  /// The launcher said that one of its processes went wrong: it then ends the others itself.
  bool rank_failed() const { return exit_code && *exit_code != 0; }
};
JobEnd job_end(SQLite::Database& db);

/// Did the job call MPI? Others communicate by Gloo or NCCL alone.
bool calls_mpi(SQLite::Database& db);

/// "SIGSEGV"
std::string signal_name(int64_t number);

/// The fate of ranks without a sign of their end, as far as the job's end tells: "crashed (SIGSEGV)", "was killed (SIGKILL)",
/// "stopped without MPI_Finalize (exit code 3)", without MPI "stopped (the command's exit code: 1)", "was killed, crashed, left by _exit or still runs",
/// for a world that is over "was killed, crashed or left by _exit".
std::string fate(const JobEnd& end, bool plural);

}  // namespace ddl
