#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>

#include "workloads/train/mpi.h"

/*
 * --log-steps: what a profile of the training should say, by the rank's own clock (CLOCK_MONOTONIC). One line for each step, flushed, so
 * that a job that hangs or is killed has left its finished steps; then what was called, and how much was handed to it, by purpose.
 */
namespace ddl::train {

int64_t monotonic_ns();
/** On-CPU time of the calling thread. */
int64_t thread_cpu_ns();

/** A step of one rank. */
struct StepTimes {
  uint64_t step = 0;
  int64_t begin_ns = 0;
  int64_t end_ns = 0;
  int64_t input_ns = 0;
  int64_t compute_ns = 0;  ///< forward, backward and update, with what test aids add, without `blocked_ns`
  /// until gradients were reduced: in `synchronize` of the background runtime, else inside blocking MPI calls
  int64_t blocked_ns = 0;
  /// of the background runtime's reductions, before `synchronize`: behind computing
  std::optional<int64_t> hidden_ns{};
  int64_t slept_ns = 0;  ///< by test aids; part of `compute_ns`
  int64_t cpu_ns = 0;    ///< of the training thread, from begin to end
  /// the moment at which the last gradients were handed over: to the background runtime, else to MPI
  int64_t handed_over_ns = 0;
};

class StepLog {
 public:
  /** Throws DataError. */
  void open(const std::string& path);
  void write(const StepTimes& times);
  /** After the last step. */
  void write(const Tallies& tallies);
  /** A write failed at some time: the file is not to be trusted. */
  bool failed() const { return file_ && std::ferror(file_.get()) != 0; }

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::unique_ptr<std::FILE, Close> file_;
};

}  // namespace ddl::train
