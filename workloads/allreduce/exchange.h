#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ddl::allreduce {

/** What one rank has sent. Bytes are those of the elements, without gaps inside a datatype and without headers. */
struct Traffic {
  uint64_t messages = 0;
  uint64_t bytes = 0;
  bool operator==(const Traffic&) const = default;
};

/** Elements [begin, end) of the buffer. */
struct Range {
  std::size_t begin = 0;
  std::size_t end = 0;

  std::size_t size() const { return end - begin; }
  bool empty() const { return begin == end; }
  /** The `i`th of `parts` parts that differ by one element at most; some are empty where there are fewer
   * elements than parts. */
  Range part(std::size_t i, std::size_t parts) const {
    return {begin + size() * i / parts, begin + size() * (i + 1) / parts};
  }
};

/**
 * One rank's side of one allreduce: its buffer, which begins as the rank's contribution and ends as the result, and the
 * messages and reductions that an algorithm is made of. Every message is counted here. A range without elements is
 * never sent: both sides know its size.
 *
 * Errors are left to the communicator's error handler. One thread.
 */
class Exchange {
 public:
  /** `scratch` is resized as needed; keeping it between calls saves the allocation. */
  Exchange(MPI_Comm comm, MPI_Datatype type, MPI_Op op, std::byte* buffer, std::size_t count,
           std::vector<std::byte>& scratch, Traffic& traffic);

  int rank() const { return rank_; }
  int ranks() const { return ranks_; }
  Range all() const { return {0, count_}; }
  std::size_t element_bytes() const { return element_bytes_; }

  void send(Range range, int to);
  void receive(Range range, int from);
  /** The sender's elements are combined with ours: on their left if its rank is lower, else on their right. */
  void receive_and_reduce(Range range, int from);
  /** Sends one range while receiving another. */
  void exchange(Range out, int to, Range in, int from);
  void exchange_and_reduce(Range out, int to, Range in, int from);

  /** The same in halves, for algorithms that keep several messages in flight. `in_scratch`: where `reduce`
   * takes it from. */
  MPI_Request start_send(Range range, int to);
  MPI_Request start_receive(Range range, int from, bool in_scratch);
  void reduce(Range range, int from);

 private:
  std::byte* buffer_at(Range range) { return buffer_ + range.begin * extent_; }
  std::byte* scratch_at(Range range) { return scratch_.data() + range.begin * extent_; }
  void count_message(Range range);
  void receive_at(std::byte* place, Range range, int from);
  void exchange_at(Range out, int to, std::byte* place, Range in, int from);

  MPI_Comm comm_;
  MPI_Datatype type_;
  MPI_Op op_;
  std::byte* buffer_;
  std::size_t count_;
  std::vector<std::byte>& scratch_;
  Traffic& traffic_;
  int rank_ = 0;
  int ranks_ = 1;
  int commutes_ = 1;
  std::size_t element_bytes_ = 0;
  std::size_t extent_ = 0;
};

}  // namespace ddl::allreduce
