#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

/*
 * What makes the trainer a test bed for a profiler: faults whose size and place are known beforehand (--slow-rank, --jitter, --delay-once,
 * --hang-rank), and a count of the rank's own MPI calls that does not pass through any profiler (--log-calls). The rank's own times of each
 * step are in step_log.h.
 *
 * Delays sleep rather than spin: on a machine with fewer cores than ranks a spinning rank would slow the others too, and the known truth
 * would no longer be known. --slow-spin is for who has the cores, and has to tell a rank that computes longer from one that sleeps.
 */
namespace ddl::train {

/** `rank` computes `ms` longer in every step from `from_step` on. */
struct SlowRank {
  int rank;
  double ms;
  uint64_t from_step = 0;
};
/** `rank` arrives `ms` late at the first gradient reduction of `step`. */
struct DelayOnce {
  int rank;
  uint64_t step;
  double ms;
};
/** `rank` never arrives at the first gradient reduction of `step`. */
struct HangRank {
  int rank;
  uint64_t step;
};

SlowRank parse_slow_rank(const std::string& text);    ///< R:MS or R:MS:FROM_STEP; throws UsageError
DelayOnce parse_delay_once(const std::string& text);  ///< R:STEP:MS
HangRank parse_hang_rank(const std::string& text);    ///< R:STEP

struct FaultPlan {
  std::vector<SlowRank> slow{};
  std::vector<DelayOnce> delays{};
  std::vector<HangRank> hangs{};
  double jitter_ms = 0.0;
  bool slow_spins = false;  ///< slow ranks and jitter compute; they sleep otherwise

  /** Throws UsageError when a fault names a rank that the job does not have: it would be a silent no-op. */
  void check_ranks(int ranks) const;
};

/** One rank's share of the plan. */
class Faults {
 public:
  Faults(const FaultPlan& plan, uint64_t seed, int rank) : plan_(plan), seed_(seed), rank_(rank) {}
  /** How much longer the forward phase of a step is to take: slow rank and jitter. */
  double forward_ms(uint64_t step) const;
  /** Returns the ns that were spent asleep. */
  int64_t stretch_forward(uint64_t step) const;
  /** Directly before the first gradient reduction of the step: delay or hang. Returns the ns that were spent asleep. */
  int64_t before_first_reduction(uint64_t step) const;

 private:
  FaultPlan plan_;
  uint64_t seed_;
  int rank_;
};

/** Every MPI function that the trainer calls. */
enum class MpiCall {
  kInit,
  kInitThread,
  kCommRank,
  kCommSize,
  kBcast,
  kGather,
  kGatherv,
  kAllreduce,
  kIallreduce,
  kReduce,
  kSend,
  kRecv,
  kSendrecv,
  kWait,
  kFinalize
};
inline constexpr std::array kMpiCallNames{"MPI_Init",       "MPI_Init_thread", "MPI_Comm_rank", "MPI_Comm_size",
                                          "MPI_Bcast",      "MPI_Gather",      "MPI_Gatherv",   "MPI_Allreduce",
                                          "MPI_Iallreduce", "MPI_Reduce",      "MPI_Send",      "MPI_Recv",
                                          "MPI_Sendrecv",   "MPI_Wait",        "MPI_Finalize"};

/**
 * Completed MPI calls of this process: lines `MPI_Allreduce 12` for each function called so far. The file is rewritten
 * by one pwrite after every call that returned, so it survives SIGKILL, never counts a call that has not returned, and
 * is at most one call behind. (A mapped file was rejected: a kill between two stores could leave "20" half way between
 * "19" and "20"; the kernel finishes a write within one page before it looks at the signal.) */
class CallLog {
 public:
  CallLog() = default;
  ~CallLog();
  CallLog(const CallLog&) = delete;
  CallLog& operator=(const CallLog&) = delete;

  /** Counts from before are kept and written. Throws DataError. */
  void open(const std::string& path);
  void returned(MpiCall call) noexcept;
  /** A write failed at some time: the file is not to be trusted. */
  bool failed() const { return failed_; }

 private:
  void write() noexcept;

  std::array<uint64_t, kMpiCallNames.size()> counts_{};
  int file_ = -1;
  bool failed_ = false;
};

}  // namespace ddl::train
