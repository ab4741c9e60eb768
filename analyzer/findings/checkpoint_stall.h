// Ranks stand still while one of them, or all, write a checkpoint.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "analyzer/findings/finding.h"

namespace ddl {

struct CheckpointStall {
  std::vector<int64_t> writers;  ///< ranks
  bool all = false;              ///< every rank writes
  size_t steps = 0;              ///< steady ones ...
  size_t checkpoints = 0;        ///< ... and those in which one was written
  double written_ns = 0;         ///< sum of the longest writing of each
  double longest_ns = 0;
  double saving_ns = 0;  ///< mean over the steps of what each would be shorter by without them
};

/// Nothing: checkpoints cost less than a hundredth of the steps.
std::optional<CheckpointStall> known_checkpoint_stall(const FindingInput& input);

}  // namespace ddl
