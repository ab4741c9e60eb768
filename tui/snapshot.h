// One moment of a job as plain data: all that a screen may show, whatever its source. Value type; frames (frame.h) and
// lines of --json are made from it.
//
// Numbers cover the window, the newest kWindow finished steps, by the report's rules: per rank the mean over its steps,
// shares as ratios of sums, lateness as the median rank's waiting less its own, of those that may wait for each other
// (reports/rank_tables.cpp). Times are ns, ratios 0 to 1, unknown values absent.
#pragma once

#include <array>
#include <boost/container/flat_map.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tui/collective_use.h"

namespace ddl::tui {

constexpr size_t kWindow = 30;

/// Where time goes, in the order of every screen: a rank's GPUs if shown, else its thread. Unknown waiting stays in
/// kTransfer. kCopy: exposed copies of GPUs. For a job whose GPUs are not shown it is the host's time: kCompute is all
/// time outside MPI, idle or not.
enum Category : size_t { kCompute, kOverlapped, kTransfer, kWaiting, kCopy, kIdle, kCategories };
using Shares = std::array<double, kCategories>;

struct RankRow {
  int32_t rank = 0;
  std::string node;
  int32_t slot = 0;  ///< number on its node
  Life life = Life::kRunning;
  bool alarm = false;
  std::optional<double> late_ns, wait_ns, step_ns, compute_ns, exposed_ns;  ///< per step
  std::optional<Shares> shares;
  std::optional<double> computing_ratio;     ///< with background threads: its training thread in the last second
  std::vector<std::optional<double>> trend;  ///< lateness by step, oldest first
  /// of a job in parts whose ranks never wait for each other: its lowest rank
  std::optional<int32_t> part;
  std::string call;      ///< the call it sits in; empty: none
  double call_ns = 0;    ///< since when
  bool stale = false;    ///< silent for long while others go on
  double silent_ns = 0;  ///< for how long
  uint64_t lost = 0;
  std::string stack;                                ///< while the job stalls, from `ddl record --stall`; empty: unknown
  std::optional<double> gpu_ratio, memory_ratio;    ///< busy, in use: mean of the devices of its node
  std::vector<std::pair<uint32_t, double>> layers;  ///< Snapshot::layers, own time per step
};

struct CollectiveRow {
  std::string op;
  std::string comm;
  int32_t ranks = 0;
  std::optional<int64_t> bytes;
  double per_step = 0;
  double time_ns = 0;  ///< per step of one rank, mean over ranks; the sum of the next two
  std::optional<double> wait_ns, transfer_ns;
  std::optional<double> algbw, busbw;  ///< bytes per second, from the transfer alone
  std::optional<double> of_best;       ///< busbw against the best window of this job
  bool nonblocking = false;            ///< from post to completion: an upper bound
};

/// The collectives of an axis of parallelism (specification.md "Axes of parallelism").
struct AxisRow {
  std::string axis;
  std::string source;         ///< name, lineage, shape: the weakest of its communicators
  int32_t communicators = 0;  ///< on which there were collectives
  int32_t ranks = 0;          ///< in them
  double per_step = 0;        ///< collectives of one rank
  double time_ns = 0;         ///< per step of one rank, mean over `ranks`; the next two add up to it
  std::optional<double> wait_ns, transfer_ns;
};

struct LayerRow {
  std::string name;
  std::optional<double> forward_ns, backward_ns, other_ns;  ///< own time per step, median over ranks
  std::optional<double> comm_ns;                            ///< of the collectives called from it
};

struct HistoryPoint {
  uint64_t step = 0;
  double step_ns = 0;  ///< longest rank
  std::optional<double> exposed_ratio, wait_ratio;
  std::optional<double> busbw;  ///< of the collective that moves the most bytes
};

/// The one sentence to act on.
struct Headline {
  std::string text;
  std::string brief;  ///< for 40 columns
  std::string next;   ///< what to do about it
  bool alarm = false;
  std::optional<int32_t> rank;
};

struct Stall {
  std::string call;                       ///< "MPI_Allreduce number 57 on MPI_COMM_WORLD"
  std::vector<int64_t> waiting, missing;  ///< ranks
  /// the missing ranks wait in another collective, or for each other's messages
  bool circular = false;
  double waited_ns = 0;
  std::string message = {};  ///< if it is a message that never comes: the sentence about it, with ...
  /// ... what to do. `missing` are those that it waits for; of a circle they are among `waiting`
  std::string advice = {};
  std::string unready = {};  ///< in a job that negotiates: why no data moves. `call` is empty then
  std::string polling = {};  ///< missing ranks that only poll: "rank 1 polls in vain with MPI_Iprobe"; empty: none
  bool at_least = false;     ///< `waited_ns` counts from this program's start
};

enum class Feed { kWaiting, kLive, kStale, kHung, kEnded, kReplay };

/// (late, waiter): ns per step. Where ranks take turns in being late, one for each pair of ranks.
using Blame = boost::container::flat_map<std::pair<int32_t, int32_t>, double>;

struct Snapshot {
  std::string name, job_id, run;
  uint32_t generation = 0;  ///< Job's: snapshots of different ones are of different jobs, or worlds of a job
  int32_t world_size = 0;
  int32_t nodes = 0;
  int32_t other_worlds = 0;
  bool mpi = true;                  ///< it calls MPI; else Gloo or NCCL alone
  bool by_device = false;           ///< ranks with GPUs are shown by them
  bool gpus = false;                ///< its ranks use GPUs that are not shown
  bool device_collectives = false;  ///< GPUs carry out some of its collectives: who waits for whom is unknown
  /// background threads make its MPI calls: shares of steps and waiting are unknown, only RankRow::computing_ratio
  bool background = false;
  bool negotiates = false;  ///< these threads agree on what to move before they move it
  Feed feed = Feed::kWaiting;
  double silent_ns = 0;   ///< since anything happened
  std::string how_ended;  ///< "all ranks finalized", "killed by SIGKILL"
  bool ended_well = false;
  double interval_s = 1;
  std::string clock;      ///< "12:04:31"
  bool annotated = true;  ///< steps are real; else seconds
  size_t window = 0;      ///< steps in it
  /// of the job whose ranks never wait for each other (analyzer/waiting_parts.h)
  int32_t parts = 1;
  std::optional<uint64_t> step, first_step;  ///< newest, oldest of the window
  std::optional<double> now_ns, p50_ns, p99_ns;
  std::optional<double> samples_per_s;
  std::optional<Shares> shares;
  std::optional<double> exposed_ratio, overlap_ratio;
  struct ComputeRatios {
    /// computing over communication, over its part without waiting, over its exposed part
    std::optional<double> raw, transfer, exposed;
  };
  std::optional<ComputeRatios> gpu_ratios;  ///< of jobs whose GPUs are shown
  bool waiting_known = false;
  std::vector<int64_t> devices_unknown;  ///< ranks without GPU records for some steps of the window
  uint64_t lost = 0;
  int32_t spools_in_turns = 0;  ///< opened for each look only: there are more of them than descriptors
  int32_t unreadable_spools = 0;
  std::string unreadable_why;            ///< of one of them
  std::optional<double> overhead_ratio;  ///< recording's share of the job, by the recorder's estimate
  std::optional<double> own_cpu_ratio;   ///< this program's share of one core
  Headline headline;
  std::optional<Stall> stall;
  std::optional<double>
      /// of a job that negotiates: no data has moved for unusually long, and nobody can tell who does not come
      no_data_ns;
  std::vector<RankRow> ranks;              ///< by rank
  std::vector<CollectiveRow> collectives;  ///< most time first
  std::vector<AxisRow> axes;               ///< most time first
  std::vector<LayerRow> layers;            ///< as the job first ran them
  std::vector<HistoryPoint> history;       ///< oldest first
  Blame blame;                             ///< nothing where background threads negotiate
};

/// A JSON object on one line without a newline at its end, valid UTF-8. Keys carry their unit; unknown values are null.
std::string to_json(const Snapshot& snapshot);

}  // namespace ddl::tui
