// What the tuner reads from one recorded trial.
#pragma once

#include <SQLiteCpp/Database.h>

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "analyzer/models/fusion.h"
#include "analyzer/models/scaling.h"

namespace ddl::tune {

struct TrialFacts {
  int64_t ranks = 0, nodes = 0;
  int64_t steps = 0;                         ///< steady ones, annotated or inferred; 0: step times are unknown
  int64_t warmup_steps = 0;                  ///< left out before them
  double step_s = 0;                         ///< median, of the slowest rank
  double compute_s = 0;                      ///< mean, of the rank that computes longest
  std::optional<double> wait_s, transfer_s;  ///< mean over ranks; unset: waiting and transfer cannot be told apart
  std::optional<models::StepParts> parts;    ///< mean over ranks, of the mean step; transfer without unsplit_s
  double unsplit_s = 0;                      ///< likewise: waiting and transfer that cannot be told apart
  std::optional<double> samples;             ///< of a step, all ranks together
  std::optional<double> noise_scale;         ///< specification.md G3
  bool reports_no_loss = false;
  /// from the first step until the loss was at the target; unset: never, or not requested
  std::optional<double> target_s;
  /// Peak memory of a rank: on its GPU, whoever used that, if GPUs were sampled; else resident on its host.
  std::optional<double> memory_bytes;
  bool memory_of_gpu = false;
  /// From the end of the last rank's MPI_Init (without MPI: its start) until the last rank entered
  /// MPI_Finalize or ended.
  double elapsed_s = 0;
  std::optional<double> metric;  ///< reported by the job (Goal::metric)
  struct Pipeline {
    int64_t micro_batches = 1, chunks = 1;
    double others_s = 0;  ///< mean computing of a step in all stages but the longest-computing one
  };
  std::optional<Pipeline> pipeline;            ///< if the job has one with several micro-batches
  bool blocking = false, nonblocking = false;  ///< it has such allreduces in steady steps
  std::vector<models::Gradient> gradients;     ///< allreduces of a step, in order; empty: none was kept
  /// Sizes of blocking allreduces on communicators of all ranks, as classes of table profile: k for 2^(k-1) to 2^k - 1
  /// bytes, 0 for none.
  std::set<int64_t> allreduce_size_classes;
  std::string mpi_library;
};

/// The loss is at the target when its mean over this many steps is.
constexpr size_t kLossWindow = 5;

/// Reads an analyzed run. Throws ddl::Error (kDataMissing) if it has no steps, unless `needs_steps` is false.
TrialFacts read_trial(SQLite::Database& db, std::optional<double> target_loss = {}, bool needs_steps = true);

}  // namespace ddl::tune
