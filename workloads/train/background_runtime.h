#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "workloads/train/mpi.h"
#include "workloads/train/negotiation.h"
#include "workloads/train/tensor.h"
#include "workloads/train/timeline.h"

namespace ddl::train {

/**
 * A runtime of the kind of Horovod's: a thread of its own makes all MPI calls, MPI_Init_thread and MPI_Finalize
 * included. The training thread hands over gradients as backward finishes them, computes on, and blocks on a condition
 * variable until all of a step are reduced; it is never inside MPI. A profile of its MPI calls therefore says nothing
 * of what the training waits for, which is what this is made to show.
 *
 * Between `start_cycles` and `stop_cycles` the thread works in cycles: agree with the other ranks on what is ready
 * everywhere (negotiation.h), pack it into the fusion buffer, reduce each batch by one MPI_Allreduce, unpack, sleep for
 * the rest of the cycle. A batch of one tensor is reduced where it lies. HOROVOD_TIMELINE=FILE has rank 0 write a
 * timeline (timeline.h), HOROVOD_CACHE_CAPACITY=0 switches the response cache off. */
class BackgroundRuntime {
 public:
  struct Settings {
    double cycle_ms = 1.0;
    bool cache = true;
    std::size_t fusion_bytes = std::size_t{64} << 20;
  };

  /** Starts the thread, in which MPI is initialised. */
  BackgroundRuntime(int* argc, char*** argv);
  /** Finalizes MPI and ends the thread. */
  ~BackgroundRuntime();
  BackgroundRuntime(const BackgroundRuntime&) = delete;
  BackgroundRuntime& operator=(const BackgroundRuntime&) = delete;

  /** For rank() and size() anywhere; for communication inside `call` only. */
  Mpi& mpi() { return *mpi_; }
  /** Runs it on the thread, and returns when it is done. Not between `start_cycles` and `stop_cycles`. */
  void call(std::function<void()> function);

  /// Other cycles and batches from here on. What was handed over before has to be reduced: the ranks, which all do this
  /// before the same step, then cut what they hand over in it alike.
  void change(double cycle_ms, std::size_t fusion_bytes);
  void start_cycles(const Settings& settings, std::vector<NamedTensor> tensors);
  /** `values` are summed over all ranks, in place, and not to be touched before `synchronize` has returned. */
  void hand_over(std::size_t tensor, std::span<float> values);
  /** Blocks until all that was handed over is reduced. Returns how many ns of MPI's reductions since the last time lay
   * before this call. */
  int64_t synchronize();
  /** Collective, as it were: the cycles end on all ranks when one wants to, and all want to after the last step. */
  void stop_cycles();

 private:
  void serve();
  void cycles(std::vector<NamedTensor> tensors);
  void reduce(std::span<const std::size_t> batch);

  std::mutex mutex_;
  std::condition_variable work_;  ///< for the thread: a function to run
  std::condition_variable done_;  ///< for the caller: it has run, or everything handed over is reduced
  std::deque<std::function<void()>> functions_;
  bool running_ = false;  ///< a function was taken and has not returned
  bool ends_ = false;

  std::vector<std::size_t> handed_over_;  ///< since the last cycle
  std::vector<std::span<float>> values_;  ///< of each tensor
  std::size_t outstanding_ = 0;           ///< handed over and not reduced
  bool shut_down_ = false;
  Settings settings_;                                    ///< of the cycles
  std::vector<std::pair<int64_t, int64_t>> reductions_;  ///< begin and end of each since `synchronize`
  std::optional<Timeline> timeline_;                     ///< rank 0's, while cycles go on, if it was asked for
  Buffer fusion_;                                        ///< the thread's alone

  std::optional<Mpi> mpi_;
  std::thread thread_;  ///< last: everything above is there when it begins
};

}  // namespace ddl::train
