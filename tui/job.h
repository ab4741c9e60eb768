// The job as the live view knows it so far: from the spools of its ranks, or from a replayed store.
//
// A Source (source.h) appends to it; Steps (steps.h) removes finished steps. Only what unfinished steps need stays, so
// memory does not grow with the job. Times are ticks of the rank's clock until they are compared (Rank::clock).
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "analyzer/passes/device_partition.h"
#include "analyzer/passes/instance.h"
#include "analyzer/passes/message_operation.h"
#include "analyzer/passes/operation.h"
#include "store/ingest/clocks.h"
#include "store/stalls.h"
#include "tui/negotiating.h"
#include "tui/rank_messages.h"

namespace ddl::tui {

constexpr uint32_t kNone = UINT32_MAX;  ///< no operation, communicator or layer

struct JobOperation {
  Operation operation;
  MessageOperation message;
};

struct JobCommunicator {
  std::string label;
  int32_t size = 0;
  bool comparable = false;       ///< its members are known, and all of our world
  std::vector<int32_t> ranks;    ///< in the world, by rank in it; empty: not known
  std::string axis = {};         ///< of parallelism; empty: none or unknown
  std::string axis_source = {};  ///< name, lineage, shape
};

/// A finished call or request, or a collective carried out by a device.
struct Event {
  uint64_t start_ticks = 0;
  uint64_t duration_ticks = 0;
  uint64_t bytes = 0;
  uint32_t op = kNone;    ///< Job::operations
  uint32_t comm = kNone;  ///< Job::communicators
  uint64_t sequence = 0;  ///< number of a collective on the communicator; 0: not an instance
  uint32_t thread = 0;
  int32_t peer = -1;
  /// as coordination_vote() (analyzer/passes/background.h); of what no background thread called: -1
  int8_t coordination_vote = -1;
  bool request = false;
  bool device = false;  ///< carried out by a device, its kernel's time
  /// if several collectives share the kernel: this one's part is [share_begin, share_end) of share_total
  int64_t share_begin = 0;
  int64_t share_end = 1;
  int64_t share_total = 1;
  bool is_sized = true;            ///< false: bytes are not known
  uint32_t layer = kNone;          ///< Job::layers: the innermost layer it was called from
  std::optional<int64_t> wait_ns;  ///< of collectives, once all members are here
  Why why = Why::kPartialRanks;    ///< why it is unknown

  bool is_call() const { return !request && !device; }
};

/// One step of one rank, by its GPUs if shown, else by its thread. Missing: `duration_ns` is 0.
struct RankPart {
  int64_t duration_ns = 0;
  int64_t compute_ns = 0;
  int64_t comm_ns = 0;
  int64_t exposed_ns = 0;
  int64_t copy_ns = 0;                ///< exposed copies of GPUs
  std::optional<int64_t> wait_ns;     ///< exposed waiting
  std::optional<int64_t> waiting_ns;  ///< all waiting, also where GPUs compute beside it
  bool messages = false;              ///< its thread sent or received some

  bool is_there() const { return duration_ns > 0; }
};

/// A kernel, copy or memset of a running job's GPUs.
struct DeviceWork {
  uint64_t start_ticks = 0;
  uint64_t end_ticks = 0;
  /// number of a collective on the communicator, a captured one's repetition in the high half; 0: unknown
  uint64_t sequence = 0;
  uint32_t comm = kNone;   ///< Job::communicators
  int32_t comm_rank = -1;  ///< in it: a process may be several
  uint16_t device = 0;     ///< the process's number for it
  DeviceClass device_class = DeviceClass::kCompute;
};

/// A running job's GPU work so far, from its rank's spool.
struct RankDevices {
  bool launches = false;                  ///< it gives work to GPUs
  int64_t since_ns = 0;                   ///< when first seen
  std::deque<DeviceWork> work;            ///< of steps that are not finished, by begin, longest first
  std::vector<DeviceWork> arrived;        ///< kernels of collectives not yet taken in
  std::set<uint16_t> seen;                ///< devices that did anything
  int64_t from_ns = INT64_MIN;            ///< earlier work is incomplete
  uint64_t answered_ticks = 0;            ///< the newest launch with a known outcome
  std::optional<uint64_t> awaited_ticks;  ///< the oldest launch without one
  uint64_t until_ticks = UINT64_MAX;      ///< later work is unknown
};

struct EndedStep {
  uint64_t number = 0;
  uint64_t start_ticks = 0;
  uint64_t end_ticks = 0;
  uint64_t mpi_ticks = 0;
  uint32_t thread = 0;
  bool second = false;                  ///< of a job that marks no steps
  std::optional<RankPart> device = {};  ///< mean over its GPUs; unset: no GPU work, or not shown
};

/// A report of a rank that follows a tuner's schedule (interpose/tune.cpp).
struct TuneMark {
  uint64_t ticks = 0;
  std::string knob;  ///< the requested knob; empty: the rank's next step is in block `value`
  double value = 0;
};

/// A layer that ran: its time counts in the step it ended in.
struct EndedLayer {
  uint64_t end_ticks = 0;
  int64_t duration_ticks = 0;  ///< negative: time of a layer inside it
  uint32_t layer = kNone;
  bool computes = false;  ///< of a rank that computes in layers
};

struct OpenCall {
  uint32_t op = kNone;
  uint32_t comm = kNone;
  uint32_t sequence = 0;  ///< in waiting calls: the newest collective awaited
  uint64_t start_ticks = 0;
  int32_t peer = -1;  ///< of a message: rank on the communicator; of calls that wait for several the first one's
};

enum class Life { kStarting, kRunning, kFinalized, kAborted, kExited, kGone };
constexpr const char* name_of(Life life) {
  constexpr const char* kNames[] = {"starting", "running", "finalized", "aborted", "exited", "gone"};
  return kNames[static_cast<size_t>(life)];
}
/// Nothing more will come from it.
constexpr bool is_over(Life life) { return life != Life::kStarting && life != Life::kRunning; }

constexpr size_t kMostTuneMarks = 65'536;

struct Rank {
  int32_t rank = -1;
  std::string host;
  int32_t on_host = 0;  ///< number among the ranks of its host
  int64_t pid = 0;      ///< on its host
  bool here = false;    ///< on this host
  Life life = Life::kStarting;
  bool uses_mpi = true;  ///< false: a rank of NCCL or Gloo only, whose exit is a normal end
  /// of an import: it computes in layers and at no other time, and its messages lie on threads of their own
  bool computes_in_layers = false;
  store::ProcessClock clock;
  uint64_t newest_ticks = 0;  ///< its last sign of life
  /// end of the last call, step or range that it finished; of calls by which background threads only coordinate: not
  uint64_t finished_ticks = 0;
  uint64_t begin_ticks = 0;
  uint64_t overhead_ticks = 0;
  bool overhead_known = true;       ///< false: another tool recorded it
  uint64_t lost = 0;                ///< events not recorded, or overwritten before they were read
  std::optional<OpenCall> sits_in;  ///< the innermost call that has not returned
  /// the probes or tests that it makes again and again in vain since it finished its last call; `start_ticks`: then
  std::optional<OpenCall> polls;
  std::optional<uint64_t> open_step;  ///< number of the step it is in

  std::deque<Event> events;     ///< of steps that are not finished
  std::deque<EndedStep> steps;  ///< ended, not finished
  RankDevices devices;
  Negotiating negotiating;
  RankMessages messages;
  std::deque<EndedLayer> layers;
  std::deque<std::pair<uint64_t, double>> samples;   ///< reported training samples: ticks, number
  std::deque<TuneMark> tune_marks;                   ///< the newest kMostTuneMarks, until forget_events()
  std::set<uint64_t> posted;                         ///< posts of collectives in flight
  std::unordered_map<uint32_t, uint32_t> reached;    ///< by communicator: highest collective entered
  std::unordered_map<std::string, double> counters;  ///< latest value by name, of the node's devices too

  void reach(uint32_t comm, uint32_t sequence) {
    uint32_t& highest = reached[comm];
    highest = std::max(highest, sequence);
  }
};

/// A layer in its phase.
struct JobLayer {
  std::string name;
  std::string phase;
};

struct Job {
  /// another one: the source shows another job, and what is known of the earlier one does not count
  uint32_t generation = 0;
  std::string name;    ///< of the program
  std::string job_id;  ///< of the batch system; empty: none
  std::string mpi;     ///< its library and version, of a running job; empty: not known
  std::string run;     ///< the directory as the user would type it
  int32_t world_size = 0;
  int32_t other_worlds = 0;
  std::optional<int64_t> exit_code, signal;  ///< how it ended, by `ddl record`
  bool recording = false;                    ///< `ddl record` has started it, and not yet seen it end
  bool recorded_end = false;                 ///< `ddl record` has seen it end
  bool ended = false;                        ///< nothing more will come from its ranks
  /// it has, not long ago, but the command of `ddl record` has not: another mpirun may come
  bool may_go_on = false;
  bool joined = false;              ///< joined while running: earlier records of some process were left out
  bool gpus = false;                ///< its ranks use GPUs that are not, or cannot be, shown
  bool device_collectives = false;  ///< such GPUs carry out some of its collectives (NCCL)
  bool by_device = false;           ///< of a replay: by its GPUs
  /// background threads make its MPI calls, which do not show where the other threads' time goes
  bool background = false;
  std::optional<ToldStall> told;  ///< the last stall reported by `ddl record --stall`, if it goes on
  int32_t spools_in_turns = 0;    ///< opened for each look only: more than descriptors
  int32_t unreadable_spools = 0;
  std::string unreadable_why;  ///< of one of them
  int64_t now_ns = 0;          ///< on the axis: the clock, or the moment that is replayed
  int64_t wall_clock_s = 0;    ///< Unix time of `now_ns`; 0: not known
  std::vector<JobOperation> operations;
  std::vector<JobCommunicator> communicators;
  std::vector<JobLayer> layers;
  std::vector<Rank> ranks;  ///< as they became known; some may be missing
};

}  // namespace ddl::tui
