// What the tuner needs to know of one recorded trial.
#pragma once

#include <SQLiteCpp/Database.h>

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "analyzer/models/fusion.h"

namespace ddl::tune {

struct TrialFacts {
  int64_t ranks = 0, nodes = 0;
  int64_t steps = 0;                         ///< steady ones, annotated or inferred; 0: then nothing is known of a step
  int64_t warmup_steps = 0;                  ///< left out before them
  double step_s = 0;                         ///< median over them, of the slowest rank
  double compute_s = 0;                      ///< mean, of the rank that computes longest
  std::optional<double> wait_s, transfer_s;  ///< mean over ranks; unset: waiting cannot be told from transferring
  std::optional<double> samples;             ///< of a step, all ranks together
  std::optional<double> noise_scale;         ///< specification.md G3
  std::optional<double> target_s;  ///< until the loss was at the target, from the first step on; unset: it never was, or none was asked for
  /// The most that a rank needed: on its GPU, whoever used that, where GPUs were sampled; else resident on its host.
  std::optional<double> memory_bytes;
  bool memory_of_gpu = false;
  /// From when the last rank had left MPI_Init (where there is none: had begun) to when the last one entered MPI_Finalize or ended.
  double elapsed_s = 0;
  std::optional<double> metric;  ///< as the job told it (Goal::metric)
  struct Pipeline {
    int64_t micro_batches = 1, chunks = 1;
    double others_s = 0;  ///< mean computing of a step, of all stages but the one that computes longest
  };
  std::optional<Pipeline> pipeline;            ///< the job has one, with several micro-batches
  bool blocking = false, nonblocking = false;  ///< allreduces of that kind, in steady steps
  std::vector<models::Gradient> gradients;     ///< allreduces of a step, in order; empty: none was kept
  /// Sizes of blocking allreduces on communicators of all ranks, as classes of table profile: k for 2^(k-1) to 2^k - 1 bytes, 0 for none.
  std::set<int64_t> allreduce_size_classes;
  std::string mpi_library;
};

/// The loss is at the target when the mean of this many steps is.
constexpr size_t kLossWindow = 5;

/// Reads an analyzed run. Throws ddl::Error (kDataMissing) if it has no steps, unless `needs_steps` is false.
TrialFacts read_trial(SQLite::Database& db, std::optional<double> target_loss = {}, bool needs_steps = true);

}  // namespace ddl::tune
