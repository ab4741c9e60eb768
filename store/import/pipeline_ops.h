// Operations of a pipeline job in the names of straggler analyses, with the ranks that meet in each. For the importer
// and the replay of its runs.
#pragma once

#include <string_view>

namespace ddl::store {

enum class Meets {
  kAlone,     ///< no other rank
  kReplicas,  ///< the replicas of a stage
  kEnds,      ///< the first and the last stage of a replica
  kAll
};

struct PipelineCollective {
  std::string_view type;
  Meets meets;
};
constexpr PipelineCollective kPipelineCollectives[] = {
    {"params-all-gather", Meets::kReplicas},
    {"grads-reduce-scatter", Meets::kReplicas},
    // they share the embedding
    {"grads-all-reduce", Meets::kReplicas},
    {"embedding-grads-all-reduce", Meets::kEnds},
    // norm of all gradients
    {"optimizer-clip-main-grad", Meets::kAll},
    {"layernorm-grads-all-reduce", Meets::kAlone},  // among the tensor-parallel ranks that one rank here stands for
};

/// Null: computing or a message.
constexpr const PipelineCollective* find_pipeline_collective(std::string_view type) {
  for (const PipelineCollective& one : kPipelineCollectives)
    if (one.type == type) return &one;
  return nullptr;
}

}  // namespace ddl::store
