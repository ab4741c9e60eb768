#include "analyzer/models/pop_scaling.h"

#include <algorithm>

#include "analyzer/facts.h"
#include "analyzer/models/run_facts.h"

namespace ddl::models {

PopFacts pop_facts(SQLite::Database& db, int64_t world) {
  PopFacts facts;
  const Facts run = read_facts(db, world);
  const double steps = static_cast<double>(std::max<int64_t>(run.step.used, 1));
  facts.workers = run.headline.windows / steps;
  facts.useful_s = run.headline.sum.computing_ns() * 1e-9 / steps;
  if (run.resource == Resource::kThread || run.resource == Resource::kDevice)
    facts.parallel_efficiency =
        metric_of(db, world, run.resource == Resource::kDevice ? "gpu_parallel_efficiency" : "parallel_efficiency");
  return facts;
}

PopRow pop_row(const PopFacts& base, const PopFacts& run, ScalingKind kind) {
  PopRow row;
  row.parallel = run.parallel_efficiency;
  if (kind != ScalingKind::kStrong && kind != ScalingKind::kWeak) return row;
  const double share = kind == ScalingKind::kWeak ? run.workers / base.workers : 1;  // work that there is more of
  if (base.useful_s > 0 && run.useful_s > 0) row.computation = share * base.useful_s / run.useful_s;
  if (row.parallel && row.computation) row.global = *row.parallel * *row.computation;
  return row;
}

}  // namespace ddl::models
