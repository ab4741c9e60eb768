#include "analyzer/models/pop_scaling.h"

#include "analyzer/models/run_facts.h"
#include "analyzer/query.h"

namespace ddl::models {

PopFacts pop_facts(SQLite::Database& db, int64_t world) {
  PopFacts facts;
  Query row(db, "SELECT count(DISTINCT rank), sum(compute_ns) * 1e-9 / count(DISTINCT step) FROM temp.steady_part WHERE world = ?");
  row.bind(world);
  if (row.next()) facts.workers = row.real(0), facts.useful_s = row.real(1);
  facts.parallel_efficiency = metric_of(db, world, "parallel_efficiency");
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
