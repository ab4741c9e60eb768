#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "workloads/train/background_runtime.h"
#include "workloads/train/buckets.h"
#include "workloads/train/gradient_sum.h"
#include "workloads/train/mpi.h"
#include "workloads/train/parameters.h"

namespace ddl::train {

/**
 * Sums the gradients over all ranks, bucket by bucket, in the order in which backward finishes them.
 *
 * With overlap, a bucket is posted (MPI_Iallreduce) as soon as its last gradient is ready, while backward goes on with
 * earlier layers; `wait` then completes the buckets one by one, each directly before its update. One MPI_Waitall before
 * all updates was rejected: every update would wait for the last bucket, which was posted last and is never hidden by
 * backward, and a profile could not tell which bucket was late. On a network that moves data by itself the updates hide
 * the last transfers; over shared memory, where only calls into MPI move data, the two differ by less than the noise
 * (workloads/README.md). Polling with MPI_Testall after each layer gained nothing either.
 *
 * Without overlap, `reduce_all` runs one blocking MPI_Allreduce per bucket after backward, or whatever `use`
 * was given instead.
 *
 * With a background runtime, a bucket is a tensor that is handed over to it, and `synchronize` takes the
 * place of `wait`. */
class Reducer {
 public:
  /** `before_first` runs directly before the first reduction of each step. `background`: who makes the MPI calls;
   * nullptr: this thread. */
  Reducer(Mpi& mpi, BackgroundRuntime* background, ParameterArena& arena, std::vector<Bucket> buckets,
          std::function<void()> before_first);

  /** Instead of MPI_Allreduce; nullptr: that. */
  void use(std::unique_ptr<GradientSum> sum) { sum_ = std::move(sum); }
  /** What took MPI_Allreduce's place, if something did. */
  const GradientSum* replacement() const { return sum_.get(); }

  const std::vector<Bucket>& buckets() const { return buckets_; }
  /** Other buckets from the next step on; not with a background runtime, which knows those that it was started with. */
  void cut(std::vector<Bucket> buckets);
  /** What is reduced at once, by the names that profiles have. */
  std::vector<NamedTensor> tensors();

  /** Posts the buckets that are complete now that `finished_parameters` gradients are final. */
  void post_ready(std::size_t finished_parameters);
  void wait(std::size_t bucket);
  /** For what was not posted. */
  void reduce_all();
  /** Waits for all that the background runtime was handed. */
  void synchronize();
  /** The next step begins. */
  void reset(uint64_t step) { step_ = step, next_ = 0, own_squares_ = 0, blocked_ns_ = 0, hidden_ns_.reset(); }
  /** In this step, so far: in blocking MPI calls or `synchronize`. */
  int64_t blocked_ns() const { return blocked_ns_; }
  /** In this step: in the background runtime's reductions before `synchronize`; nothing without one. */
  std::optional<int64_t> hidden_ns() const { return hidden_ns_; }
  /** When the last bucket so far was posted, handed over, or its blocking sum began. */
  int64_t handed_over_ns() const { return handed_over_ns_; }
  /** Sum of the squares of this rank's own gradients, of the buckets that were reduced so far in this step. */
  double own_squares() const { return own_squares_; }

 private:
  /** The bucket's gradients; the last bucket also carries the arena's extra floats. */
  std::span<float> payload(std::size_t bucket);
  void sum(std::size_t bucket);
  template <typename Reduce>
  void reduce_next(Reduce&& reduce);

  Mpi& mpi_;
  BackgroundRuntime* background_;
  ParameterArena& arena_;
  std::vector<Bucket> buckets_;
  std::vector<std::string> names_;
  std::vector<MPI_Request> requests_;
  std::function<void()> before_first_;
  std::unique_ptr<GradientSum> sum_;
  uint64_t step_ = 0;
  std::size_t next_ = 0;  ///< the first bucket that this step has not reduced yet
  double own_squares_ = 0;
  int64_t blocked_ns_ = 0;
  std::optional<int64_t> hidden_ns_;
  int64_t handed_over_ns_ = 0;
};

}  // namespace ddl::train
