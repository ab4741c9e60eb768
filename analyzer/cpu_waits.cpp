#include "analyzer/cpu_waits.h"

#include <algorithm>

#include "analyzer/query.h"

namespace ddl {

std::vector<CpuWait> read_cpu_waits(SQLite::Database& db, int64_t world) {
  Query row(db, R"(
    SELECT p.rank, h.name, CAST(ready.value AS INTEGER), CAST(ran.value AS INTEGER), CAST(whole.value AS INTEGER)
    FROM process p
    JOIN host h ON h.id = p.host
    JOIN process_fact ready ON ready.process = p.id AND ready.key = 'run_queue_wait_ns'
    JOIN process_fact ran ON ran.process = p.id AND ran.key = 'on_cpu_ns'
    JOIN process_fact whole ON whole.process = p.id AND whole.key = 'cpu_account_ns'
    WHERE p.world = ? AND p.rank IS NOT NULL
    ORDER BY p.rank, p.id)");
  std::vector<CpuWait> waits;
  for (row.bind(world); row.next();) {
    CpuWait wait{row.integer(0), row.text(1), row.real(2), row.real(3), row.real(4)};
    if (wait.over_ns <= 0 || wait.ready_ns < 0 || wait.on_cpu_ns < 0) continue;  // damage
    if (!waits.empty() && waits.back().rank == wait.rank) continue;
    wait.ready_ns = std::min(wait.ready_ns, wait.over_ns);
    waits.push_back(std::move(wait));
  }
  return waits;
}

double share_without_cpu(const std::vector<CpuWait>& waits) {
  double ready_ns = 0, over_ns = 0;
  for (const CpuWait& wait : waits) ready_ns += wait.ready_ns, over_ns += wait.over_ns;
  return over_ns > 0 ? ready_ns / over_ns : 0;
}

}  // namespace ddl
