// ddl goodput: one or several runs of a job as one document.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "analyzer/models/goodput.h"
#include "reports/document.h"

namespace ddl::reports {

/// What a finding cost: its saving per step, times the steps of its run, on all ranks.
struct FindingCost {
  std::string run, id, sentence;
  double worker_ns = 0;
  Value::Bound bound = Value::Bound::kNone;
};

/// `price`: of a rank (GPU) for an hour. `joules_per_step`: of all GPUs, if NVML reported power; of the last run.
Document build_goodput(const models::Goodput& goodput, const std::vector<FindingCost>& costs,
                       const std::optional<double>& price, const std::optional<double>& joules_per_step,
                       bool waiting_known);

}  // namespace ddl::reports
