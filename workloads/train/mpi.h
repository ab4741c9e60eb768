#pragma once

#include <mpi.h>

#include <span>

#include "workloads/train/test_aids.h"

namespace ddl::train {

/**
 * The job: MPI from init to finalize, and the few operations that data-parallel training needs, over MPI_COMM_WORLD. Each operation tells
 * the call log when it has returned. Errors are left to MPI's default handler, which ends the job: there is nothing to carry on with.
 */
class Mpi {
 public:
  Mpi(int* argc, char*** argv);
  ~Mpi();
  Mpi(const Mpi&) = delete;
  Mpi& operator=(const Mpi&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  CallLog& call_log() { return call_log_; }

  void finalize();
  /** Ends all ranks; for errors that only this one knows of. */
  [[noreturn]] static void abort(int exit_code);

  int minimum(int value);
  void broadcast(std::span<float> values);         ///< from rank 0
  void sum(std::span<float> values);               ///< in place
  MPI_Request start_sum(std::span<float> values);  ///< in place, complete after `wait`
  void wait(MPI_Request& request);

 private:
  CallLog call_log_;
  int rank_ = 0;
  int size_ = 1;
  bool finalized_ = false;
};

}  // namespace ddl::train
