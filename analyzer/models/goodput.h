// The parts of a job's wall time, over one run or the restarts of one job (specification.md J11).
//
// Every rank's time from the start of its run to the end is cut into parts, in this order of precedence: a stall that
// `ddl record --stall` told; repeated steps; checkpoints; loading; waiting inside of steps; the rest of steps is
// productive. Time before the first step is start-up; time between steps and behind the last one are parts of their
// own, as is time between two runs. Parts are means over the ranks, so they add up to the wall time. Ranks are
// processes that have steps, or all processes if none has. Pure but for the reading; throws ddl::Error (kDataMissing).
#pragma once

#include <SQLiteCpp/Database.h>

#include <array>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace ddl::models {

enum WallPart : size_t {
  kStartUp,     ///< before the first step
  kWarmUp,      ///< compilation in steps, and what the first steps take longer than a median one
  kProductive,  ///< steps whose result was kept, less the next three
  kWaitingPart,
  kLoading,
  kCheckpoints,
  kStalls,
  kLost,      ///< steps that were done again, or never used, and the one that never ended
  kBetween,   ///< outside of steps: evaluation, logging
  kShutDown,  ///< behind the last step
  kDown,      ///< between two runs
  kWallParts
};
struct WallPartName {
  const char *id, *name;
};
extern const std::array<WallPartName, kWallParts> kWallPartNames;

struct StepSpan {
  int64_t number = 0;
  int64_t start_ns = 0, end_ns = 0;
  double wait_ns = 0;
};
struct Span {
  int64_t start_ns = 0, end_ns = 0;
};

/// One process of a run.
struct WorkerTimes {
  int64_t world = 0;
  std::vector<StepSpan> steps;                        ///< that ended, by begin
  std::optional<int64_t> open_step_ns;                ///< begin of the one that did not
  int64_t end_ns = 0;                                 ///< last sign of life
  std::vector<Span> checkpoints, loading, compiling;  ///< by begin; may overlap
};

struct RunTimes {
  std::string name;               ///< of the recording; where it holds several, "NAME #2"
  std::string recording;          ///< in which it is
  std::set<int64_t> worlds;       ///< of the workers
  size_t unranked = 0;            ///< workers without a rank
  int64_t start_realtime_ns = 0;  ///< of the job's command, else the first sign of life
  int64_t wall_ns = 0;
  int64_t offset_ns = 0;  ///< of the run's own axis against start_realtime_ns: the axis begins so much later
  bool failed = false;
  std::string ended_by;  ///< "finished", "SIGKILL", "exit code 1", ..., and who was to blame
  int64_t warmup = 0;    ///< steps that the analyzer left out at the beginning
  bool waiting_known = true;
  std::vector<WorkerTimes> workers;
  std::vector<Span> stalls;
};

/// From an analyzed store: one for each start of the job in it, by time. A recording holds several if its command
/// starts the job again, as `while ! mpirun ...; do :; done` does: a world that begins when all earlier ones have
/// ended begins the next.
std::vector<RunTimes> read_run_times(SQLite::Database& db, const std::string& name);

struct RunGoodput {
  std::string name, ended_by;
  int64_t start_realtime_ns = 0, wall_ns = 0;
  size_t workers = 0;
  size_t worlds = 0;    ///< at the same time
  size_t unranked = 0;  ///< workers without a rank
  std::string recording;
  int64_t steps = 0;       ///< numbers that ended on all ranks of a world that have steps
  int64_t lost_steps = 0;  ///< of these
  /// how that is known: numbers (the next run does them again), checkpoint (behind the last one); empty: none
  std::string lost_by;
  std::array<double, kWallParts> parts{};  ///< ns; add up to wall_ns
};

struct Goodput {
  std::vector<RunGoodput> runs;            ///< by start
  std::array<double, kWallParts> parts{};  ///< over all runs and what lies between them; add up to wall_ns
  double wall_ns = 0;
  double worker_ns = 0;  ///< wall time times ranks, summed over the runs; between them as of the run before
  int64_t lost_steps = 0, steps = 0;
};

/// Throws ddl::Error (kUsage) if runs overlap in time: they are not restarts of one job.
Goodput goodput_of(std::vector<RunTimes> runs);

}  // namespace ddl::models
