// Operations of a pipeline job as straggler analysis records them (rank, stage, step, type, begin, duration),
// made into a replay.
//
// Within a stage computing and collectives come one after the other in the order of their begins. Micro-batch i
// of a direction ("forward", "backward"): its -recv is posted after the -compute of i-1, its -compute comes
// after its -recv, its -send after its -compute; sends and receives of a direction are in order, and do not
// hold up computing behind them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analyzer/models/replay.h"

namespace ddl::models {

struct PipelineOp {
  int64_t replica = 0, stage = 0;    ///< data-parallel replica, pipeline stage
  std::optional<int64_t> rank = {};  ///< else stage * replicas + replica
  int64_t step = 0;
  /// forward-compute, backward-recv, grads-reduce-scatter, gc, ...: store/import/pipeline_ops.h lists who meets in
  /// which
  std::string type;
  int64_t number = 0;  ///< of this type in the step: the micro-batch
  double start_s = 0, duration_s = 0;
};

/// Transfers count from the latest begin of those who meet; the time before is waiting. Throws ddl::Error for the same
/// operation twice or a message of which one end is missing.
Replay pipeline_replay(const std::vector<PipelineOp>& ops);

}  // namespace ddl::models
