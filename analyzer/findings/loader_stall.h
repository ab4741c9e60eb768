// One rank whose loader is slower than the others'.
#pragma once

#include <cstdint>
#include <optional>

#include "analyzer/findings/finding.h"

namespace ddl {

struct SlowLoader {
  int64_t rank = 0;
  double saving_ns = 0;              ///< per step, if it loaded as the others do
  double own_ns = 0, others_ns = 0;  ///< loading per step: its, the median of the others
  double before_ns = 0;              ///< loading between the steps, per step
  int64_t steps = 0, late_steps = 0;
};

/// Nothing: all load alike, only one loads at all (and hands on), or nothing waits for it.
std::optional<SlowLoader> find_slow_loader(const FindingInput& input);

}  // namespace ddl
