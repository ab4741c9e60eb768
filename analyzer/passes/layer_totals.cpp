#include "analyzer/passes/layer_totals.h"

namespace ddl {

void sum_layers(SQLite::Database& db) {
  db.exec(R"(
    INSERT INTO layer_total (world, layer, phase, calls, compute_ns, exposed_ns, wait_ns)
    SELECT world, layer, phase, sum(calls), sum(compute_ns), sum(exposed_ns), sum(wait_ns)
    FROM v_layer
    GROUP BY world, layer, phase)");
}

}  // namespace ddl
