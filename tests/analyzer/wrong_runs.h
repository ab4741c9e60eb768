// Jobs that went wrong, and words that their tests share.
#pragma once

#include <string>

#include "tests/analyzer/findings_jobs.h"

namespace ddl::test {

/// 10 allreduces; then all ranks but 1 enter the eleventh and stay, until everybody is killed.
inline Tables hung(int64_t ranks) {
  Tables run = training(ranks, 10, 5_ms, [](int64_t, int64_t) { return 50_ms; });
  const int64_t end_ns = run.integer("SELECT max(end_ns) FROM process");
  for (int64_t rank = 0; rank < ranks; ++rank) {
    if (rank != 1) run.open_call(rank, "MPI_Allreduce", 1, 11, end_ns + 50_ms, 10);
    // a waiting rank records nothing: no later sign of life
    run.ended(rank, "lost", rank == 1 ? end_ns : end_ns + 50_ms);
  }
  return run;
}

/// What `ddl record` notes.
inline void saw_it_end(Tables& run, int64_t end_ns) {
  run.meta("epoch_realtime_ns", "1700000000000000000");
  run.meta("ended_realtime_ns", std::to_string(1'700'000'000'000'000'000 + end_ns));
}

inline std::string first_sentence(Tables& run) { return run.text("SELECT sentence FROM finding WHERE position = 1"); }

/// A script starts mpirun again when it has ended.
inline void start_again(Tables& run, int64_t begin_ns) {
  for (int64_t rank = 0; rank < run.ranks(); ++rank) {
    run.exec("INSERT INTO process SELECT id + " + std::to_string(run.ranks()) +
             ", 1, rank, world_size, host, pid + 1000, " + std::to_string(begin_ns) + ", " +
             std::to_string(begin_ns + 3'000'000'000) + ", " + std::to_string(begin_ns) +
             ", NULL, 'finalized', NULL, thread_level, clock, 0, 0, exe, command, 't', 0 FROM process WHERE rank = " +
             std::to_string(rank));
  }
}

}  // namespace ddl::test
