#include "tests/reports/handmade_run.h"

#include <fmt/format.h>

#include "analyzer/passes/layer_totals.h"
#include "analyzer/passes/passes.h"
#include "analyzer/passes/steady_steps.h"
#include "analyzer/tables.h"
#include "store/database.h"

namespace ddl::test {
namespace {

constexpr const char* kTables = R"sql(
INSERT INTO meta VALUES ('ddl_version', '0.1.0'), ('command', 'mpirun -np 2 ./train'), ('name', 'train'), ('job_id', '4711'), ('exit_code', '0'),
  ('epoch_realtime_ns', '1763691000000000000'), ('verdict', 'wait'), ('verdict.text', 'bound by wait: wait 15.0%, transfer 10.0% of the step (threshold 5%)');
INSERT INTO host VALUES (1, 'nid0042', 'b1', 'tsc', 2.1e9, 20, 0, 0, 0, 'single-host');
INSERT INTO process (id, world, rank, world_size, host, pid, start_ns, end_ns, init_ns, finalize_ns, ended, clock, keep_level, overhead_ns, exe, command, spool, spool_bytes) VALUES
  (1, 0, 0, 2, 1, 100, 0, 1500000000, 100000000, 1450000000, 'finalized', 'tsc', 0, 6000000, '/home/u/train', './train', 'a.spool', 65536),
  (2, 0, 1, 2, 1, 101, 0, 1500000000, 100000000, 1450000000, 'finalized', 'tsc', 0, 9000000, '/home/u/train', './train', 'b.spool', 65536);
INSERT INTO op VALUES (1, 'MPI_Allreduce', 'all_to_all', 0), (2, 'MPI_Barrier', 'barrier', 0), (3, 'MPI_Iallreduce', 'all_to_all', 1), (4, 'MPI_Test', 'completion', 0);
INSERT INTO communicator (id, world, uid, label, size, parent, kind) VALUES (1, 0, 1, 'MPI_COMM_WORLD', 2, NULL, 'world'), (2, 0, 2, 'MPI_Comm_split#1', 2, 1, 'intra');
INSERT INTO region VALUES (0, NULL, 'none', '', NULL, NULL), (1, 0, 'step', '', NULL, NULL), (2, 1, 'phase', 'forward', 'forward', NULL),
  (3, 2, 'layer', 'conv1', 'forward', 'conv1'), (4, 2, 'layer', 'fc', 'forward', 'fc');
INSERT INTO profile VALUES
  (1, 1, 1, 1, NULL, 23, 12, 50331648, 480000000, 39000000, 41000000, 0, NULL), (2, 1, 1, 1, NULL, 23, 12, 50331648, 120000000, 9000000, 11000000, 0, NULL),
  (1, 2, 1, 0, NULL, 0, 1, 0, 8000, 8000, 8000, 0, NULL), (2, 2, 1, 0, NULL, 0, 1, 0, 1234, 1234, 1234, 0, NULL),
  (1, 4, NULL, 1, NULL, 0, 100000, 0, 5000000, 40, 900, 1, NULL);
INSERT INTO range_profile VALUES (1, 3, 12, 480000000, 0, 39000000, 41000000), (2, 3, 12, 700000000, 0, 58000000, 61000000),
  (1, 4, 12, 240000000, 20000000, 19000000, 21000000), (2, 4, 12, 380000000, 20000000, 31000000, 33000000);
INSERT INTO collective_group (world, op, comm, bytes, instances, step_instances, calls, time_ns, min_ns, max_ns, wait_ns, wait_method, min_duration_wait_ns, xfer_ns, split_calls,
  algbw_bytes_per_second, busbw_xfer, busbw_raw, busbw_max, upper_bound, why) VALUES
  (0, 1, 1, 4194304, 12, 12, 24, 600000000, 9000000, 41000000, 360000000, 'max-start', 360000000, 240000000, 24, 419430400.0, 419430400.0, 167772160.0, 104857600.0, 0, NULL),
  (0, 2, 1, 0, 1, 0, 2, 9234, 1234, 8000, 6766, 'max-start', 6766, 2468, 2, NULL, NULL, NULL, NULL, 0, 'NOT_APPLICABLE'),
  (0, 3, 2, 1048576, 3, 3, 5, 15000000, 2000000, 4000000, NULL, NULL, NULL, NULL, 0, NULL, NULL, NULL, NULL, 1, 'PARTIAL_RANKS');
INSERT INTO metric (id, world, value, unit, why, lo, hi, p10, p90, steps) VALUES
  ('recording_overhead', 0, 0.005, 'ratio', NULL, NULL, NULL, NULL, NULL, NULL),
  ('ccr_exposed', 0, 3.0, 'ratio', NULL, 2.9, 3.1, 2.8, 3.2, 7), ('ccr_raw', 0, 2.5, 'ratio', NULL, 2.4, 2.6, 2.3, 2.7, 7), ('ccr_xfer', 0, NULL, 'ratio', 'ZERO_DENOM', NULL, NULL, NULL, NULL, 7),
  ('load_balance', 0, 0.8333333333333334, 'ratio', NULL, NULL, NULL, NULL, NULL, NULL), ('parallel_efficiency', 0, 0.75, 'ratio', NULL, NULL, NULL, NULL, NULL, NULL),
  ('communication_efficiency', 0, 0.9, 'ratio', NULL, NULL, NULL, NULL, NULL, NULL), ('overlap', 0, 0.0, 'ratio', NULL, 0.0, 0.0, 0.0, 0.0, 7), ('step_time', 0, 100000000.0, 'ns', NULL, 99e6, 101e6, 99e6, 101e6, 7),
  ('throughput', 0, 640.0, 'samples/s', NULL, 630.0, 650.0, 630.0, 650.0, 7);
INSERT INTO finding VALUES (1, 'straggler', 'rank 1 (nid0042) is late', 0, 1, 30000000, 0.3, NULL, 'sure', 'Enters last in 12 of 12 collectives, 30.0 ms after the others.', NULL, 'look at its clock and its neighbours, then  ddl report'),
  (2, 'small_collectives', 'many small collectives', 0, NULL, NULL, NULL, NULL, 'maybe', '', NULL, '');
INSERT INTO loss VALUES (0, 1, 'not_kept', 40, 'events outside the window or thinned out; the profile counts them');
)sql";

void fill(SQLite::Database& db) {
  db.exec(kTables);
  for (int rank = 0; rank < 2; ++rank)
    for (int step = 0; step < 12; ++step) {
      const int64_t start_ns = 150'000'000 + step * 100'000'000LL;
      const int64_t compute_ns = rank == 0 ? 60'000'000 : 90'000'000, wait_ns = rank == 0 ? 30'000'000 : 0,
                    exposed_ns = wait_ns + 10'000'000;
      db.exec(fmt::format("INSERT INTO step VALUES ({}, 0, {}, {}, 100000000, {}, 1)", rank + 1, step, start_ns,
                          exposed_ns));
      db.exec(fmt::format("INSERT INTO step_part VALUES ({}, {}, {}, {}, {}, {}, 10000000, 0, NULL, NULL, NULL, 0)",
                          rank + 1, step, compute_ns, exposed_ns, exposed_ns, wait_ns));
      db.exec(fmt::format(
          "INSERT INTO event VALUES ({}, {}, 0, 1, 1, 1, {}, 1, NULL, {}, {}, {}, 4194304, NULL, NULL, 14, 1)",
          rank * 12 + step + 1, rank + 1, step + 1, step, start_ns + compute_ns, exposed_ns));
      db.exec(fmt::format("INSERT INTO collective VALUES ({}, 4194304, {}, 10000000, 'max-start', {}, 0, NULL)",
                          rank * 12 + step + 1, wait_ns, wait_ns));
    }
}

}  // namespace

EmptyRun::EmptyRun() : db_(create_store(folder_ / "run.sqlite")) {}

HandmadeRun::HandmadeRun() : db_(create_store(folder_ / "run.sqlite")) { fill(db_); }

reports::RunView view_of(SQLite::Database& db) {
  make_tables(db);
  select_steady_steps(db, Catalog(db));
  select_steady_devices(db);
  select_resources(db);
  sum_layers(db, read_region_waits(db, false));
  return {db, std::nullopt};
}

}  // namespace ddl::test
