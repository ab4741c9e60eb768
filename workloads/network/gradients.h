#pragma once

#include <mpi.h>

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "workloads/allreduce/allreduce.h"
#include "workloads/train/buckets.h"
#include "workloads/train/tensor.h"

namespace ddl::network {

/**
 * The gradients of a stage, in backward order, and their sum over the ranks that hold the same stage (`comm`),
 * bucket by bucket.
 *
 * With overlap a bucket is posted (MPI_Iallreduce) as soon as the last micro-batch has written all of it and completed
 * before its update; without, and by an algorithm of our own, all are summed after backward. Every micro-batch adds 1
 * to each gradient, so the sums are known. */
class Gradients {
 public:
  struct Reduction {
    std::size_t bucket_bytes;
    bool overlap;
    allreduce::Choice choice;  ///< no algorithm: the MPI library's own
  };

  /** `counts`: gradients of each layer in backward order. Collective over `comm`, which must outlive this. */
  Gradients(MPI_Comm comm, std::span<const std::size_t> counts, const Reduction& reduction);
  Gradients(const Gradients&) = delete;
  Gradients& operator=(const Gradients&) = delete;

  /** A micro-batch's gradients of the next layer in backward order are ready. `last`: none comes after this
   * micro-batch. */
  void add(std::size_t layer, bool first, bool last);
  /** After backward; does nothing with overlap. */
  void sum_rest();
  bool sums_after_backward() const { return !overlap_; }
  /** Completes the sums. Throws std::runtime_error where one is not `micro_batches` times the ranks. */
  void update(std::size_t micro_batches);

  std::size_t size() const { return values_.size(); }
  std::size_t buckets() const { return buckets_.size(); }

 private:
  std::span<float> values_of(std::size_t bucket);

  MPI_Comm comm_;
  int ranks_ = 1;
  bool overlap_;
  std::unique_ptr<allreduce::Allreduce> own_;
  train::Buffer values_;
  std::vector<std::size_t> offsets_;
  std::vector<train::Bucket> buckets_;
  std::vector<std::string> names_;
  std::vector<MPI_Request> requests_;
  std::size_t next_ = 0;  ///< the first bucket that this step has not posted or summed yet
};

}  // namespace ddl::network
