#pragma once

#include <mpi.h>

#include <span>

#include "workloads/train/test_aids.h"

namespace ddl::train {

/** What a call of the trainer's is for. Coordination: ranks agree on what to reduce next; no tensor moves. */
enum class Purpose { kSetUp, kData, kCoordination };
inline constexpr std::array kPurposeNames{"set-up", "data", "coordination"};

/** Completed collectives of this rank and what it handed to them, of a broadcast the buffer; messages, of
 * receives what came. */
struct Tally {
  uint64_t calls = 0;
  uint64_t bytes = 0;
};
using Tallies = std::array<std::array<Tally, kMpiCallNames.size()>, kPurposeNames.size()>;

/**
 * The job: MPI from init to finalize, and the few operations that data-parallel training needs, over MPI_COMM_WORLD.
 * Each operation tells the call log when it has returned. Errors are left to MPI's default handler, which ends the job:
 * there is nothing to carry on with.
 *
 * One thread makes all calls, that of the constructor; rank() and size() are for any.
 */
class Mpi {
 public:
  Mpi(int* argc, char*** argv);
  /** By MPI_Init_thread, with a level such as MPI_THREAD_MULTIPLE. */
  Mpi(int* argc, char*** argv, int thread_level);
  ~Mpi();
  Mpi(const Mpi&) = delete;
  Mpi& operator=(const Mpi&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  CallLog& call_log() { return call_log_; }
  const Tallies& tallies() const { return tallies_; }

  void finalize();
  /** Ends all ranks; for errors that only this one knows of. */
  [[noreturn]] static void abort(int exit_code);

  int minimum(int value);
  void broadcast(std::span<float> values);         ///< from rank 0
  void sum(std::span<float> values);               ///< in place
  MPI_Request start_sum(std::span<float> values);  ///< in place, complete after `wait`
  void wait(MPI_Request& request);
  void send(std::span<const float> values, int to);
  int receive(std::span<float> values, int from);  ///< from -1: from anybody; returns who sent it
  void exchange(std::span<const float> out, int to, std::span<float> in, int from);

  // Set-up.
  void sum_to_root(std::span<double> values);  ///< in place on rank 0

  // Coordination.
  void and_bits(std::span<long long> words);   ///< in place
  void gather(int value, std::span<int> all);  ///< to rank 0; `all` is empty elsewhere
  void gather(std::span<const std::byte> own,  ///< to rank 0, where each rank's `lengths` are known and
              std::span<std::byte> all,        ///< `all` has room for them, one behind the other
              std::span<const int> lengths, std::span<const int> offsets);
  void broadcast_length(int& value);                 ///< from rank 0
  void broadcast_bytes(std::span<std::byte> bytes);  ///< from rank 0

 private:
  void learn_ranks();
  void returned(MpiCall call, Purpose purpose, std::size_t bytes);

  CallLog call_log_;
  Tallies tallies_{};
  int rank_ = 0;
  int size_ = 1;
  bool finalized_ = false;
};

}  // namespace ddl::train
