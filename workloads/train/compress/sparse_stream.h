#pragma once

#include <mpi.h>

#include <cstdint>
#include <span>
#include <vector>

#include "workloads/allreduce/exchange.h"

namespace ddl::train {

/**
 * Sparse allreduce of SparCML (Renggli et al., SC 2019, "SSAR recursive doubling"): streams of index and value, sorted
 * by index, are merged in lg p rounds. A stream with more entries than half the values becomes dense, for from there on
 * index and value (8 bytes) of each entry are more than all values (4 bytes each): the switching point N isize / (c +
 * isize) of the publication with 4 and 4 bytes. A round sends 4 bytes for the number of entries, and the stream. Ranks
 * beyond a power of two hand their stream to a neighbour first, and get the sum last.
 *
 * All ranks get the same sums, bit for bit. Construction and destruction are collective.
 */
class SparseStreamSum {
 public:
  explicit SparseStreamSum(MPI_Comm comm);
  ~SparseStreamSum();
  SparseStreamSum(const SparseStreamSum&) = delete;
  SparseStreamSum& operator=(const SparseStreamSum&) = delete;

  /** `indices` ascending, `values` of them; out of `count`. `sum` gets all, zeros included. */
  void operator()(std::span<const uint32_t> indices, std::span<const float> values, std::span<float> sum);
  /** Sent by this rank since construction. */
  const allreduce::Traffic& traffic() const { return traffic_; }

 private:
  struct Stream {
    std::vector<uint32_t> indices;  ///< empty where it is dense
    std::vector<float> values;
    bool dense = false;
  };
  void send(const Stream& stream, int to);
  Stream receive(int from, std::size_t count);
  Stream exchange(const Stream& own, int with, std::size_t count);
  static Stream merged(const Stream& a, const Stream& b, std::size_t count);
  std::vector<std::byte> packed(const Stream& stream);
  static Stream unpacked(const std::vector<std::byte>& bytes, std::size_t count);

  MPI_Comm comm_ = MPI_COMM_NULL;
  int rank_ = 0;
  int ranks_ = 1;
  allreduce::Traffic traffic_;
};

/** Entries beyond which a stream out of `count` values is sent as all of them. */
inline std::size_t switching_point(std::size_t count) { return count / 2; }

}  // namespace ddl::train
