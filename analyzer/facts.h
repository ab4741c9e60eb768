// The facts of an analyzed run that more than one output shows: how long a step takes, where its time goes, rank by
// rank and for the job. They are computed here and nowhere else; the report in all its formats, Prometheus, the
// verdict, the models and the tuner read them, so that two outputs cannot say different things of the same run.
//
// Units: ns of the steady steps (specification.md "Conventions"); in runs without steps, of the whole run as one step.
// Parts are sums or means as each member says; they add up exactly to the time that they are parts of. Reads the tables
// of an analyzed run.
#pragma once

#include <SQLiteCpp/Database.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analyzer/waiting_parts.h"

namespace ddl {

/// The parts of the time of a rank's thread, or of a GPU (specification.md T5, J1). Unknown time is a part of its own,
/// never 0 of another.
struct TimeParts {
  /// with nothing on the network. For a thread: all that is outside MPI; of a GPU: kernels that are not collectives
  double compute_ns = 0;
  double overlap_ns = 0;   ///< the same, with communication beside it; 0 if that is not known
  double transfer_ns = 0;  ///< exposed communication: nothing computes
  double wait_ns = 0;      ///< exposed waiting for other ranks
  double unsplit_ns = 0;   ///< exposed communication that cannot be split into waiting and transfer
  double copy_ns = 0;      ///< exposed copies of GPUs
  double idle_ns = 0;

  double computing_ns() const { return compute_ns + overlap_ns; }
  double communication_ns() const { return transfer_ns + wait_ns + unsplit_ns; }  ///< exposed
  double total_ns() const { return computing_ns() + communication_ns() + copy_ns + idle_ns; }
  TimeParts& operator+=(const TimeParts& other);
  TimeParts operator/(double count) const;
};

/// The members of TimeParts, in the order in which they are shown.
inline constexpr double TimeParts::*kTimeParts[] = {
    &TimeParts::compute_ns, &TimeParts::overlap_ns, &TimeParts::transfer_ns, &TimeParts::wait_ns,
    &TimeParts::unsplit_ns, &TimeParts::copy_ns,    &TimeParts::idle_ns};

/// The resource that shows where the time went (J1): a device's activities say more than its host's waiting for it.
/// Mixed: some ranks have an active device, others none. Unseen: collectives ran on GPUs without a recording, so the
/// computing is unknown.
enum class Resource { kThread, kDevice, kMixed, kUnseen };

/// One of them, its mean step.
struct ResourceTime {
  int64_t rank = 0;
  std::optional<int64_t> device = {};  ///< of GPUs
  int64_t steps = 0;                   ///< that the mean is over
  TimeParts mean = {};
  /// all waiting, of GPUs also where they compute beside it; unset if one step does not tell
  std::optional<double> waiting_ns = 0;
  std::string why = {};  ///< of what is not split
  bool bounded = false;  ///< waits are lower bounds, transfers upper ones (specification.md J7)
};

/// All of one kind together: sums over ranks and steps, so that a share is a ratio of sums.
struct JobTime {
  TimeParts sum;
  double windows = 0;  ///< resources times steps: sum / windows is a mean step
  std::string why;     ///< of what is not split: PARTIAL_RANKS, CLOCK_UNTRUSTED, ...; empty: all is
  /// Ranks left no record, and the others may have waited for them longer: the waiting is a lower bound, the
  /// transfer an upper one.
  bool bounded = false;

  bool is_known() const { return sum.total_ns() > 0; }
  /// None of the communication could be split.
  bool nothing_split() const { return sum.unsplit_ns > 0 && sum.transfer_ns + sum.wait_ns == 0; }
  double share(double TimeParts::*part) const { return sum.*part / sum.total_ns(); }
  /// The share as every screen prints it: in tenths of a percent, rounded such that all parts together are 100 %.
  double shown_share(double TimeParts::*part) const;
  double shown_computing() const;  ///< with and without communication beside it
};

/// A rank as the tables of ranks show it: its mean step. Computing is that of its GPUs (their mean) if these did
/// anything, else of its thread; waiting is that of the resource Facts::waits_by.
struct RankFacts {
  int64_t rank = 0;
  std::string host;
  Resource resource = Resource::kThread;
  std::optional<double> step_ns;  ///< duration; nothing: no steady step of it, or the run has no steps
  /// this and the next three: unset if a step of the rank lacks it, and `why` says why
  std::optional<int64_t> compute_ns;
  std::optional<int64_t> wait_ns, xfer_ns;
  /// The median rank's waiting less its own, by how much later it enters collectives; the median is over the ranks
  /// that it may wait for (Facts::parts). For GPUs it is all waiting inside their kernels: what computing hides is
  /// lateness as well.
  std::optional<int64_t> late_ns;
  std::string why;
  bool bounded = false;  ///< wait_ns is a lower bound, xfer_ns an upper one
};

/// How many of the job's ranks the numbers cover (specification.md J7).
struct CoverageFacts {
  int64_t ranks = 0;       ///< with a record that is not torn
  int64_t world_size = 0;  ///< that there were
  bool bounded = false;    ///< waits are lower bounds for it, transfers upper ones
};

/// How background threads agree on what they move next (J3). In no waiting and no transfer.
struct CoordinationFacts {
  int64_t ranks = 0;  ///< whose MPI calls background threads make; 0: none, and so is the rest
  int64_t calls = 0;  ///< collectives of coordination that the window kept, over all ranks
  double time_ns = 0;
};

struct StepFacts {
  bool has_steps = false;  ///< marked or inferred; false: the run counts as one
  int64_t used = 0;        ///< steady steps
  /// Those that the durations are over where that is more: also steps of whose training threads there is no sample
  /// (table timed_step); 0: it is not.
  int64_t timed = 0;
  int64_t timed_warmup = 0;  ///< left out before them
  /// Durations of the slowest rank over the steady steps (p50: the median, as metric step_time; p99: nearest rank);
  /// unset where no rank tells a time.
  std::optional<int64_t> p50_ns, p99_ns, min_ns, max_ns;
};

struct Facts {
  StepFacts step;
  JobTime threads, devices;  ///< all of one kind
  /// each rank by its own resource: the job's time as reported; unknown if that of one is unseen
  JobTime headline;
  Resource resource = Resource::kThread;
  /// Whose waiting and transfer the ranks show: GPUs that carry out collectives, unless threads wait longer in MPI.
  /// kThread or kDevice.
  Resource waits_by = Resource::kThread;
  std::vector<ResourceTime> by_thread, by_device;  ///< by rank
  std::vector<RankFacts> ranks;                    ///< every rank that was recorded
  PartOfRank parts;                                ///< of ranks that may wait for each other
  CoordinationFacts coordination;
  CoverageFacts coverage;

  int64_t part_of(int64_t rank) const;     ///< 0 where all are one
  int64_t ranks_by(Resource which) const;  ///< ranks whose resource it is
  /// Beside GPUs, threads that communicate nothing do nothing but compute, as far as calls of MPI tell.
  bool threads_tell() const { return resource == Resource::kThread || threads.sum.communication_ns() > 0; }
};

Facts read_facts(SQLite::Database& db, int64_t world);

/// Time of a run without steps before the first launch: a part of all its shares that says nothing about the rest.
/// From the process's start (MPI_Init, where there is one) to its first launch, the mean over GPUs; 0 without GPUs.
double run_start_ns(SQLite::Database& db, int64_t world);

}  // namespace ddl
