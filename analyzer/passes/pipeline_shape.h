// Which processes form a pipeline, told by the order of their messages within one step
// (specification.md "Pipeline bubbles").
//
// A training pipeline hands activations down a chain of stages and gradients back up. So, of two neighbours, the lower
// stage sends nothing to the upper one before it received from it, and answers each message; only the first stage
// begins by sending; and the first stage sends a second micro-batch before the first one came back. That tells a
// pipeline from exchanges of neighbours (halos, rings: all begin by sending), from a server and its clients (no chain)
// and from question and answer (never two under way). One micro-batch at a time is not told from question and answer
// and is not a pipeline here.
//
// Interleaved stages (several chunks of the model on each device) close the chain to a ring: the last device sends
// forward to the first one as well. Chunks follow from the counts: the first device sends m v messages forward to the
// second and gets m (v - 1) from the last.
//
// A micro-batch may be several messages if their sizes differ: m is the greatest common divisor of how often each size
// occurs. Several messages of one size per micro-batch cannot be told from as many micro-batches.
//
// Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace ddl {

/// A message as one of its ends saw it: sends by their begin, receives by their completion, in the order of
/// that process's clock.
struct StageMessage {
  bool receive = false;
  int32_t peer = 0;
  int64_t bytes = 0;
};

struct PipelinePlace {
  int32_t pipeline = 0;  ///< number of the chain: the process that is its first stage
  int64_t stage = 0;
  int64_t stages = 0;
  int64_t micro_batches = 0;
  int64_t chunks = 1;  ///< of the model on each device
  friend bool operator==(const PipelinePlace&, const PipelinePlace&) = default;
};

/// By process; nothing: it is in no pipeline. `messages[i]`: those of process i in one step, both ends of which
/// lie in that step.
std::vector<std::optional<PipelinePlace>> find_pipelines(const std::vector<std::vector<StageMessage>>& messages);

}  // namespace ddl
