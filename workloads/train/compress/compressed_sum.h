#pragma once

#include <mpi.h>

#include <memory>
#include <vector>

#include "workloads/allreduce/exchange.h"
#include "workloads/train/compress/codec.h"

namespace ddl::train {

/**
 * Adds up an array over all ranks with codes on the wire. An allreduce of codes is none: a sum of codes is not a code.
 * So, with p ranks:
 *
 * - dense codes: each rank encodes p - 1 shards of its values and sends each to its owner, who adds them to its own
 *   values, encodes the sum and sends that to the others. A rank sends the code of every other's shard once and that of
 *   its own p - 1 times.
 * - sparse codes: each rank encodes all its values and sends what the code needs to all others: p - 1 times.
 *
 * What a rank's codes lose, of its values or of the sum that it owns, is added to its residual, which belongs into its
 * next values. Over all ranks: sum of values = what all ranks get + sum of the residuals, to rounding. All ranks get
 * the same result, bit for bit.
 *
 * Messages travel on a duplicate of the communicator; construction and destruction are collective. One rank:
 * nothing is encoded. */
class CompressedSum {
 public:
  CompressedSum(MPI_Comm comm, std::unique_ptr<Codec> codec);
  ~CompressedSum();
  CompressedSum(const CompressedSum&) = delete;
  CompressedSum& operator=(const CompressedSum&) = delete;

  /** `values`: this rank's, then everybody's sum. `residual`: what its codes lost; nothing is added to it, it
   * is overwritten. */
  void operator()(std::span<float> values, std::span<float> residual, Random& random);
  /** Sent by this rank since construction. */
  const allreduce::Traffic& traffic() const { return traffic_; }

 private:
  void sum_dense(std::span<float> values, std::span<float> residual, Random& random);
  void sum_sparse(std::span<float> values, std::span<float> residual, Random& random);
  /** Sends a code to one rank while another one's comes, of so many bytes at most; returns how many came. */
  std::size_t exchange(const std::byte* code, std::size_t bytes, std::size_t to, std::size_t bytes_in,
                       std::size_t from);

  MPI_Comm comm_ = MPI_COMM_NULL;
  std::unique_ptr<Codec> codec_;
  std::size_t rank_ = 0;
  std::size_t ranks_ = 1;
  std::vector<std::byte> out_;
  std::vector<std::byte> in_;
  allreduce::Traffic traffic_;
};

}  // namespace ddl::train
