// Builds run directories in words: a virtual job on an exact virtual clock, written as the spools that it would have
// left.
//
//     using namespace ddl::test; const Truth truth = run().ranks(16).steps(20).compute(30_ms).allreduce(4_MiB,
//     2_ms).slow(11, 38_ms).write(folder); EXPECT_EQ(truth.step(0, 3).wait_ns, 38_ms);
//
// The files are made from core/format.h alone (synthetic_run_spool.h), none of the recorder's code is used; what the
// product finds in them is compared with the Truth, which is the generator's own arithmetic.
//
// The program. Calls append items to what every rank does in every step, in that order. Times are ns, sizes are
// bytes: plain int64_t.
//
// The time model. Ranges and values cost nothing. Computing costs what it says (plus jitter, slow ranks, delays).
//   blocking symmetric   leaves everywhere at max(enter) + transfer; so do scans, neighbourhoods and what
//                        synchronises windows
//   bcast, scatter       root: enter + transfer. Others: max(own enter, root's enter) + transfer
//   reduce, gather       root: max(enter) + transfer. Others: enter + kCallNs; by rendezvous as the root (a chain), in
//                        a gather max(own enter, root's enter) + transfer
//   non-blocking         the post takes kCallNs. Bytes move from when the last rank has posted and the members' earlier
//                        transfers are over
//   Wait, Waitall        leaves when what it waits for is over, but takes kCallNs at least
//   messages             eager: a send takes `transfer`; a receive leaves at max(own enter, send's enter) + transfer. A
//                        synchronous send leaves when its receive does, an isend() after kCallNs. By rendezvous bytes
//                        of rings and halos move from when both ends were posted, and are over for both at once
//                        leaves when its receive does, an isend() after kCallNs. By rendezvous bytes of rings and halos
//                        move from when both ends were posted, and are over for both at once
//   MPI_Init             [10 us, 2 ms] on all ranks; the first step begins at 2.1 ms; MPI_Finalize is entered 100 us
//                        after the last item
// A rank that is hung, killed or aborted goes no further; whoever needs it stays in its call for good.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/format.h"
#include "tests/support/synthetic_run_truth.h"

namespace ddl::test {

inline namespace literals {
constexpr int64_t operator""_ns(unsigned long long n) { return static_cast<int64_t>(n); }
constexpr int64_t operator""_us(unsigned long long n) { return static_cast<int64_t>(n) * 1000; }
constexpr int64_t operator""_ms(unsigned long long n) { return static_cast<int64_t>(n) * 1000000; }
constexpr int64_t operator""_s(unsigned long long n) { return static_cast<int64_t>(n) * 1000000000; }
constexpr int64_t operator""_B(unsigned long long n) { return static_cast<int64_t>(n); }
constexpr int64_t operator""_KiB(unsigned long long n) { return static_cast<int64_t>(n) << 10; }
constexpr int64_t operator""_MiB(unsigned long long n) { return static_cast<int64_t>(n) << 20; }
constexpr int64_t operator""_GiB(unsigned long long n) { return static_cast<int64_t>(n) << 30; }
}  // namespace literals

constexpr int64_t kCallNs = 1000;  ///< what a call takes that need not wait for anything
constexpr int64_t kInitEnterNs = 10000, kInitLeaveNs = 2000000, kFirstStepNs = 2100000, kFinalizeGapNs = 100000,
                  kFinalizeNs = 1000000;

enum class ItemKind {
  kCompute,
  kCollective,
  kSendrecvRing,   ///< MPI_Sendrecv to the next rank, from the one before
  kIsendrecvRing,  ///< MPI_Irecv and MPI_Isend, completed by a later Waitall
  kHalo,           ///< the same with both neighbours, and the Waitall
  kMessage,        ///< MPI_Send (or MPI_Ssend) and MPI_Recv
  kIsend,          ///< MPI_Isend that is never completed
  kReceive,        ///< the MPI_Recv of the oldest of these
  kCollect,        ///< MPI_Send by all, MPI_Recv with MPI_ANY_SOURCE by one
  kWait,
  kWaitall,
  kPolls,
  kOpenRange,
  kCloseRange,
  kValue
};

struct Item {
  ItemKind kind = ItemKind::kCompute;
  std::string name;  ///< operation, range, value
  std::string comm;  ///< of split(); "": MPI_COMM_WORLD
  ContextKind range = ContextKind::kPhase;
  int64_t bytes = 0;
  int64_t time_ns = 0;  ///< compute, transfer
  int root = -1;        ///< also the sender of a message
  int to = -1;
  int64_t count = 0;  ///< polls
  double value = 0;
  uint64_t every = 1;        ///< only in steps that are multiples of it
  int only_rank = -1;        ///< compute and values: -1 = all
  bool synchronous = false;  ///< messages: MPI_Ssend; rings, halos, reductions: by rendezvous
};

/// What the run is made of; the simulation reads it, SyntheticRun fills it.
struct Plan {
  struct Slow {
    int rank;
    int64_t extra_ns;
    uint64_t from_step, until_step;
  };
  struct Split {
    std::string name;
    int groups;
    bool strided;
    bool named;
  };
  enum class Fate { kKilled, kHang, kAbort };
  struct End {
    int rank;
    uint64_t step;
    Fate fate;
    int code;
  };
  struct Thinning {
    int rank;
    uint32_t level;
    uint64_t from_step;
  };

  int ranks = 2;
  uint64_t steps = 1, first_step = 0, epochs = 1;
  bool annotated = true;  ///< steps have ranges
  int64_t gap_ns = 0;     ///< between steps
  std::vector<Item> setup, step, teardown;
  std::vector<Split> splits;
  int64_t jitter_ns = 0;
  uint64_t seed = 1;
  std::vector<Slow> slow;
  std::vector<End> ends;
  std::vector<int> missing;
  std::vector<Thinning> thinning;
  bool has_window = false;
  uint64_t first_kept = 0, last_kept = 0;
  int hosts = 1;
  int64_t host_skew_ns = 0;
  struct HostClock {
    int64_t offset_ns = 0;
    double drift_ppm = 0;
    int64_t step_at_ns = INT64_MAX, step_ns = 0;
    int64_t bend_at_ns = INT64_MAX;
    double bend_ppm = 0;
  };
  std::map<int, HostClock> host_clocks;
  int64_t sync_ns = 0;    ///< round trip of ddl's own messages; 0: none are sent
  bool one_boot = false;  ///< all hosts have the same boot id
  double tsc_hz = 0;      ///< 0: CLOCK_MONOTONIC
  uint64_t world_key = 0x5eed;
  int64_t begin_ns = 0;  ///< of a second world in the same folder
  uint32_t first_pid = 1000;
  std::vector<std::pair<std::string, std::string>> facts;
  std::map<std::pair<int, uint32_t>, uint64_t> losses;  ///< by rank and LossKind
  bool job_json = false;
  int exit_code = 0;
  std::vector<std::string> command = {"mpirun", "./train"};
};

class SyntheticRun {
 public:
  // ---------------------------------------------------------------- the job
  SyntheticRun& ranks(int count) { return set(plan_.ranks, count); }
  SyntheticRun& steps(uint64_t count, uint64_t first = 0);
  /// All steps so often, each time with the same numbers.
  SyntheticRun& epochs(uint64_t count) { return set(plan_.epochs, count); }
  SyntheticRun& no_steps() { return set(plan_.annotated, false); }
  /// Time between the end of a step and the begin of the next.
  SyntheticRun& gap(int64_t ns) { return set(plan_.gap_ns, ns); }
  /// MPI_Comm_split of the world after MPI_Init: blocks of ranks, or every n_groups-th rank. Named with
  /// MPI_Comm_set_name; "" has no name.
  SyntheticRun& split(const std::string& name, int n_groups, bool strided = false, bool named = true);

  // ---------------------------------------------------------------- the program
  /// Items from here on are done once, before the first step (or after the last); each_step() goes back.
  SyntheticRun& setup() { return set(items_, &Plan::setup); }
  SyntheticRun& each_step() { return set(items_, &Plan::step); }
  SyntheticRun& teardown() { return set(items_, &Plan::teardown); }

  SyntheticRun& compute(int64_t ns);
  SyntheticRun& phase(const std::string& name) { return open(ContextKind::kPhase, name); }
  SyntheticRun& end_phase() { return close(ContextKind::kPhase); }
  SyntheticRun& layer(const std::string& name) { return open(ContextKind::kLayer, name); }
  SyntheticRun& end_layer() { return close(ContextKind::kLayer); }
  /// A layer that computes.
  SyntheticRun& layer(const std::string& name, int64_t ns) { return layer(name).compute(ns).end_layer(); }
  /// A layer in the phase "forward" / "backward"; neighbours share one phase.
  SyntheticRun& forward(const std::string& name, int64_t ns) { return in_phase("forward", name, ns); }
  SyntheticRun& backward(const std::string& name, int64_t ns) { return in_phase("backward", name, ns); }
  /// Zero-cost layers with these names (see hostile_names()) in every step.
  SyntheticRun& names(const std::vector<std::string>& names);
  SyntheticRun& value(const std::string& name, double value);

  /// Applies to the next item only.
  SyntheticRun& on_comm(const std::string& name) { return set(next_.comm, name); }
  SyntheticRun& every(uint64_t steps) { return set(next_.every, steps); }
  SyntheticRun& on_rank(int rank) { return set(next_.only_rank, rank); }
  SyntheticRun& rendezvous() { return set(next_.synchronous, true); }

  /// Any collective of the table in synthetic_run_ops.cpp. `bytes`: what a rank sends; of rooted ones what the root
  /// (bcast, scatter: all of it) or a member (reduce, gather) sends.
  SyntheticRun& collective(const std::string& op, int64_t bytes, int64_t transfer_ns, int root = -1);
  SyntheticRun& allreduce(int64_t bytes, int64_t transfer_ns) {
    return collective("MPI_Allreduce", bytes, transfer_ns);
  }
  SyntheticRun& bcast(int64_t bytes, int64_t transfer_ns, int root = 0) {
    return collective("MPI_Bcast", bytes, transfer_ns, root);
  }
  SyntheticRun& reduce(int64_t bytes, int64_t transfer_ns, int root = 0) {
    return collective("MPI_Reduce", bytes, transfer_ns, root);
  }
  SyntheticRun& barrier(int64_t ns = kCallNs) { return collective("MPI_Barrier", 0, ns); }
  SyntheticRun& iallreduce(int64_t bytes, int64_t transfer_ns) {
    return collective("MPI_Iallreduce", bytes, transfer_ns);
  }
  SyntheticRun& waitall();
  /// The oldest request.
  SyntheticRun& wait();
  SyntheticRun& sendrecv_ring(int64_t bytes, int64_t transfer_ns);
  SyntheticRun& isendrecv_ring(int64_t bytes, int64_t transfer_ns);
  /// With both neighbours in the ring, and the Waitall.
  SyntheticRun& halo(int64_t bytes, int64_t transfer_ns);
  SyntheticRun& message(int from, int to, int64_t bytes, int64_t transfer_ns, bool synchronous = false);
  /// MPI_Isend whose request nothing ever completes.
  SyntheticRun& isend(int from, int to, int64_t bytes, int64_t transfer_ns);
  /// MPI_Recv of the oldest isend() that is under way between the two.
  SyntheticRun& receive(int from, int to);
  /// From all others to `to`, which takes them as they come.
  SyntheticRun& collect(int to, int64_t bytes, int64_t transfer_ns);
  /// MPI_Test that found nothing, `count` times: in the profile only.
  SyntheticRun& polls(int64_t count, int64_t each_ns);

  // ---------------------------------------------------------------- what goes wrong
  /// Every compute() takes up to `ns` more or less (never less than 0), by rank, step and place: the same
  /// for the same seed.
  SyntheticRun& jitter(int64_t ns, uint64_t seed = 1);
  /// Computes longer before its first communication, in steps [from_step, until_step).
  SyntheticRun& slow(int rank, int64_t extra_ns, uint64_t from_step = 0, uint64_t until_step = UINT64_MAX);
  SyntheticRun& delay(int rank, uint64_t step, int64_t ns) { return slow(rank, ns, step, step + 1); }
  /// Dies inside its first communication of that step.
  SyntheticRun& killed(int rank, uint64_t step) { return end(rank, step, Plan::Fate::kKilled, 0); }
  /// Never enters its first communication of that step.
  SyntheticRun& hang(int rank, uint64_t step) { return end(rank, step, Plan::Fate::kHang, 0); }
  /// Calls MPI_Abort instead of its first communication of that step.
  SyntheticRun& aborts(int rank, uint64_t step, int code) { return end(rank, step, Plan::Fate::kAbort, code); }
  SyntheticRun& missing(int rank);
  SyntheticRun& loss(int rank, LossKind kind, uint64_t count);

  // ---------------------------------------------------------------- recording
  /// --steps first:last: other events go to the ring only.
  SyntheticRun& window(uint64_t first, uint64_t last);
  /// From that step on the rank keeps only every 2^level-th step, as if its log had filled.
  SyntheticRun& keep_level(int rank, uint32_t level, uint64_t from_step = 0);
  /// Ranks in blocks; each host has its boot id and base of CLOCK_MONOTONIC and TSC; its realtime clock is
  /// off by host * skew.
  SyntheticRun& hosts(int count, int64_t skew_ns = 3000000);
  /// All clocks of a host are off by `offset_ns` when the run begins and run `drift_ppm` too fast.
  SyntheticRun& host_clock(int host, int64_t offset_ns, double drift_ppm);
  /// They jump by `ns` at a moment of the run, or run `ppm` faster from then on.
  SyntheticRun& host_clock_step(int host, int64_t at_ns, int64_t ns);
  SyntheticRun& host_clock_bend(int host, int64_t at_ns, double ppm);
  /// As with ddl record --clock-sync: when MPI_Init is left and before MPI_Finalize is entered the first rank of each
  /// host exchanges a few messages with rank 0; half of the round trip is the way there.
  SyntheticRun& clock_sync(int64_t round_trip_ns) { return set(plan_.sync_ns, round_trip_ns); }
  /// Hosts are containers on one machine: one boot id, and the same CLOCK_MONOTONIC and TSC but for host_clock().
  SyntheticRun& one_boot() { return set(plan_.one_boot, true); }
  SyntheticRun& tsc(double hz) { return set(plan_.tsc_hz, hz); }
  SyntheticRun& fact(const std::string& key, const std::string& value);
  /// A second MPI_COMM_WORLD in the same folder: write() once more with another key, begin and first pid.
  SyntheticRun& world(uint64_t key, int64_t begin_ns, uint32_t first_pid);
  SyntheticRun& job_json(int exit_code = 0);
  SyntheticRun& command(const std::vector<std::string>& arguments) { return set(plan_.command, arguments); }

  // ---------------------------------------------------------------- the end
  const Plan& plan() const { return plan_; }
  /// Makes the folder (0700) if there is none, and the files (0600).
  Truth write(const std::filesystem::path& folder) const;
  /// The same without writing anything.
  Truth truth() const;

 private:
  template <class T, class V>
  SyntheticRun& set(T& to, V&& value) {
    to = std::forward<V>(value);
    return *this;
  }
  SyntheticRun& add(Item item);
  SyntheticRun& open(ContextKind kind, const std::string& name);
  SyntheticRun& close(ContextKind kind);
  SyntheticRun& in_phase(const std::string& phase, const std::string& name, int64_t ns);
  SyntheticRun& end(int rank, uint64_t step, Plan::Fate fate, int code);

  Plan plan_;
  std::vector<Item> Plan::*items_ = &Plan::step;
  Item next_;
};

inline SyntheticRun run() { return {}; }

/// Names that break naive printers: control and escape sequences, markup, quotes, broken UTF-8,
/// right-to-left, empty, long.
const std::vector<std::string>& hostile_names();

/// A folder of its own under the test's temporary folder; removed with everything in it.
class ScratchFolder {
 public:
  ScratchFolder();
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(std::string_view name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

}  // namespace ddl::test
