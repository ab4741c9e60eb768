-- The history: many runs, a row for each, written by `ddl history add` into one database that several users and nodes share. The same text makes it in SQLite
-- and in PostgreSQL; names begin with ddl_, so that it may lie in a database with other tables.
--
-- Times are ns: durations as numbers, moments since 1970. Ratios are 0..1. NULL means "not known" and never "zero"; of a column of ddl_run, ddl_unknown
-- says why. Columns are added, never removed or renamed, so that other people's SQL and dashboards go on working.
-- docs/reference/history-schema.md is generated from this file: every table and column carries a comment.

-- Version of this schema: one row. A newer one than the program knows is refused.
CREATE TABLE ddl_schema (
  version BIGINT NOT NULL  -- 2; 1 had no ddl_finding.saving_bound, and gets it when a ddl that knows it opens the history
);

-- Runs. Adding one again replaces its numbers; added_ns and added_by stay.
CREATE TABLE ddl_run (
  run TEXT PRIMARY KEY,       -- identity, which stays when the run is copied, moved or analyzed again: boot and spool of its first rank, and world; of imported runs the trace and its date
  name TEXT NOT NULL,         -- the job's name: by its user, else after its program or script
  path TEXT NOT NULL,         -- host:folder that it was added from last
  command TEXT,               -- as typed, with secrets masked
  commit_id TEXT,             -- of the Git repository that the job ran in, when it started
  job_id TEXT,                -- of the batch system
  job_step_id TEXT,           -- likewise
  started_ns BIGINT NOT NULL, -- first sign of life, since 1970
  duration_ns BIGINT,         -- of the recording
  exit_code BIGINT,           -- of the job
  signal BIGINT,              -- that ended it; 0 or NULL: none
  world BIGINT NOT NULL,      -- which MPI_COMM_WORLD of the run the numbers describe: the largest
  ranks BIGINT NOT NULL,      -- that left a record
  expected_ranks BIGINT NOT NULL,  -- that there were
  hosts BIGINT NOT NULL,      -- of those ranks
  gpus BIGINT NOT NULL,       -- that did something, as far as was recorded
  steps BIGINT NOT NULL,      -- steady ones, which the numbers are over; 0: none was marked or found
  step_time_ns BIGINT,        -- median over the steady steps of the slowest rank's step (specification.md "Conventions")
  step_lo_ns DOUBLE PRECISION,     -- its 95 % interval
  step_hi_ns DOUBLE PRECISION,     -- upper end
  step_p99_ns BIGINT,         -- 99th percentile
  throughput DOUBLE PRECISION,     -- samples/s (specification.md S1)
  efficiency DOUBLE PRECISION,     -- parallel efficiency: of GPUs where these tell where the time went, else of threads
  ccr DOUBLE PRECISION,       -- computing over transfer, without waiting: metric ccr_xfer, of GPUs gpu_ccr_xfer
  compute_ns DOUBLE PRECISION,     -- computing with nothing on the network; this and the next six: mean step, mean over ranks or GPUs, they add up to it
  overlap_ns DOUBLE PRECISION,     -- computing with communication beside it
  transfer_ns DOUBLE PRECISION,    -- exposed transfer
  wait_ns DOUBLE PRECISION,   -- exposed waiting for other ranks
  unsplit_ns DOUBLE PRECISION,     -- exposed communication that cannot be split into waiting and transfer
  copy_ns DOUBLE PRECISION,   -- exposed copies of GPUs
  idle_ns DOUBLE PRECISION,   -- idle
  bounded BIGINT NOT NULL,    -- 1: ranks left no record, waits are lower bounds and transfers upper ones (specification.md J7)
  findings BIGINT NOT NULL,   -- rows in ddl_finding
  verdict TEXT,               -- one line of the analyzer
  loss DOUBLE PRECISION,      -- of the training: "loss" reported in the last step that has one (last of all, where numbers of steps are used again), mean over ranks
  lost_events BIGINT NOT NULL,     -- that the recording lost and counted
  ddl_version TEXT,           -- that recorded it
  analysis TEXT,              -- version of the analysis behind the numbers
  added_by TEXT NOT NULL,     -- user
  added_ns BIGINT NOT NULL,   -- first added
  updated_ns BIGINT NOT NULL  -- added last
);
CREATE INDEX ddl_run_name ON ddl_run (name, started_ns);

-- Why a column of ddl_run is NULL: NO_DATA, ZERO_DENOM, CLOCK_UNTRUSTED, PARTIAL_RANKS, NOT_APPLICABLE, as in the run's own store.
CREATE TABLE ddl_unknown (
  run TEXT NOT NULL,    -- ddl_run.run
  field TEXT NOT NULL,  -- name of the column
  why TEXT NOT NULL,    -- the reason
  PRIMARY KEY (run, field)
);

-- Every metric of the run (docs/reference/metrics.md).
CREATE TABLE ddl_metric (
  run TEXT NOT NULL,       -- ddl_run.run
  id TEXT NOT NULL,        -- ccr_xfer, load_balance, ...
  value DOUBLE PRECISION,  -- NULL: see why
  unit TEXT NOT NULL,      -- ns, ratio, bytes/s, ...
  why TEXT,                -- reason of a NULL
  lo DOUBLE PRECISION,     -- 95 % interval of the median over steps; NULL: fewer than five steps, or not a metric of steps
  hi DOUBLE PRECISION,     -- its upper end
  PRIMARY KEY (run, id)
);

-- Exposed transfer and waiting of the mean step by axis of parallelism: ddl_run.transfer_ns and wait_ns, shared out as collectives of each axis took them - exposed time
-- of GPUs, else blocking calls. No rows: no axis is known, or it could not be told.
CREATE TABLE ddl_axis (
  run TEXT NOT NULL,                      -- ddl_run.run
  axis TEXT NOT NULL,                     -- tensor, pipeline, data, ..., all ranks
  transfer_ns DOUBLE PRECISION NOT NULL,  -- its share of transfer_ns
  wait_ns DOUBLE PRECISION NOT NULL,      -- its share of wait_ns
  PRIMARY KEY (run, axis)
);

-- Findings, most important first.
CREATE TABLE ddl_finding (
  run TEXT NOT NULL,             -- ddl_run.run
  position BIGINT NOT NULL,      -- 1, 2, ...
  id TEXT NOT NULL,              -- straggler, small_collectives, ...
  sentence TEXT NOT NULL,        -- one line
  rank BIGINT,                   -- the rank to blame, if it is one
  saving_ns BIGINT,              -- per step, if fixed
  share_ratio DOUBLE PRECISION,  -- of the step
  confidence TEXT NOT NULL,      -- sure, likely, maybe
  saving_bound TEXT,             -- of saving_ns and share_ratio: lower (at least that, since ranks left no record), upper (at most that); NULL: neither
  PRIMARY KEY (run, position)
);

-- Hosts of the run.
CREATE TABLE ddl_host (
  run TEXT NOT NULL,       -- ddl_run.run
  host TEXT NOT NULL,      -- Slurm's name of the node, else its hostname
  ranks BIGINT NOT NULL,   -- on it
  slow BIGINT NOT NULL,    -- 1: a finding names it, or a rank on it, as the one that others waited for
  slow_rank BIGINT,        -- that rank; NULL: none, or all of the host
  PRIMARY KEY (run, host)
);
