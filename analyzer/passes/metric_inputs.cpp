#include "analyzer/passes/metric_inputs.h"

namespace ddl {

void gather_metric_inputs(SQLite::Database& db) {
  db.exec(
      "CREATE TEMP TABLE reported (world INTEGER, step INTEGER, name TEXT, total REAL, ranks INTEGER, PRIMARY KEY (world, name, step))"
      " WITHOUT ROWID;"
      "INSERT INTO temp.reported SELECT p.world, v.step, v.name, total(v.value), count(DISTINCT p.rank) FROM value v JOIN process p"
      " ON p.id = v.process WHERE v.name IN ('samples', 'model_flops') AND v.value IS NOT NULL AND v.step IS NOT NULL AND p.rank IS NOT"
      " NULL GROUP BY p.world, v.step, v.name");
  // A job may have several regions of kind step: one for each place in the tree of ranges where it opens steps.
  db.exec(
      "CREATE TEMP TABLE counted AS"
      " WITH grown AS (SELECT f.process, c.name, total(f.value) AS value FROM counter_profile f JOIN counter c ON c.process = f.process AND"
      "   c.number = f.counter AND c.source IS NOT NULL JOIN region r ON r.id = f.region AND r.kind = 'step' GROUP BY f.process, c.name),"
      " lasted AS (SELECT f.process, total(f.time_ns) AS time_ns FROM range_profile f JOIN region r ON r.id = f.region AND r.kind = 'step'"
      "   GROUP BY f.process),"
      " said AS (SELECT process, max(value) AS peak FROM value WHERE name = 'peak_flops_per_second' GROUP BY process)"
      " SELECT p.world AS world, p.rank AS rank, p.world_size AS world_size,"
      "   (SELECT value FROM grown WHERE process = p.id AND name = 'PAPI_TOT_INS') AS instructions,"
      "   (SELECT value FROM grown WHERE process = p.id AND name = 'PAPI_TOT_CYC') AS cycles,"
      "   (SELECT value FROM grown WHERE process = p.id AND name = 'PAPI_FP_OPS') AS flops,"
      "   lasted.time_ns AS time_ns, said.peak AS peak"
      " FROM process p LEFT JOIN lasted ON lasted.process = p.id LEFT JOIN said ON said.process = p.id WHERE p.rank IS NOT NULL");
  db.exec(
      "CREATE TEMP TABLE pipeline_model AS SELECT p.world AS world,"
      " avg((l.stages - 1) * 1.0 / (l.chunks * l.micro_batches + l.stages - 1)) AS of_total,"
      " avg((l.stages - 1) * 1.0 / (l.chunks * l.micro_batches)) AS of_ideal FROM pipeline l JOIN process p ON p.id = l.process"
      " GROUP BY p.world");
}

}  // namespace ddl
