// The pipeline of a recorded run, for `ddl model pipeline`: its stages as the analyzer recognised them (v_pipeline),
// and what each of them computes in a steady step.
#pragma once

#include <SQLiteCpp/Database.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "analyzer/models/pipeline.h"

namespace ddl::models {

/// Seconds of a steady step outside MPI: medians over the steps (of GPUs the mean), mean over the replicas of the
/// stage.
struct RecordedStage {
  double forward_s = 0, backward_s = 0;  ///< in the phases of these names
  double other_s = 0;                    ///< the rest: update, input
  double compute_s() const { return forward_s + backward_s + other_s; }
};

struct RunPipeline {
  int64_t replicas = 1, micro_batches = 1, chunks = 1;
  std::vector<RecordedStage> stages;
  bool phases = false;             ///< forward and backward were told apart; else all computing is in forward_s
  std::optional<PassOrder> order;  ///< as the phases followed one another on the first stage; unset: they do not tell
  double hop_s = 0;                ///< median time of a message that its receiver waited for, from when it was sent
  int64_t messages = 0;            ///< that the median is over; 0: no rank waited, or the messages were not kept
  double slowest_stage_s() const;  ///< computing time of the slowest stage in a step
  double schedule_s(PassOrder order, int64_t micro_batches) const;
};

/// Stage i of a pipeline without replicas that the analyzer did not recognise is rank i modulo `stages`.
struct StatedPipeline {
  int64_t stages = 0, micro_batches = 1;
};

/// Throws ddl::Error (kDataMissing): no pipeline was recognised and none is stated, pipelines of different shapes in
/// one job, stages that are not whole, or ranks without steps.
RunPipeline run_pipeline(SQLite::Database& db, int64_t world, const std::optional<StatedPipeline>& stated = {});

}  // namespace ddl::models
