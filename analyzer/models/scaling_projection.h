// A run at another size, from the latency and bandwidth that its own transfers show: t(N) = k (compute + copies + idle) + wait + transfer
// times model(N) / model(now), k = 1 for weak and now/N for strong scaling. Waiting stays what it is: it grows with the number of ranks in
// ways that one run does not tell. That transfers hide behind computing, or are slower than the model, is in the measured transfer time and
// is kept as a factor.
#pragma once

#include <cstdint>
#include <vector>

#include "analyzer/models/link_fit.h"
#include "analyzer/models/scaling.h"

namespace ddl::models {

constexpr Algorithm kProjectedAlgorithm = Algorithm::kRing;

struct RecordedScale {
  int64_t ranks = 1;
  StepParts parts;
  Printed efficiency = {};           ///< of the run itself
  std::vector<Sample> samples = {};  ///< its collectives; `instances` weighs them. Those on all ranks will be on all ranks
  LinkFit fit = {};                  ///< by kProjectedAlgorithm
};

/// 95 % interval from the standard errors of the fit and from that of the run's own efficiency. `strong`: the global batch stays.
Projection project_run(const RecordedScale& run, int64_t ranks, bool strong);

}  // namespace ddl::models
