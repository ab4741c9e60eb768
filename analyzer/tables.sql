-- Tables that the passes of the analyzer hand to metrics, findings, reports and the tuner. `ddl analyze` makes these tables anew each time;
-- everybody else only reads them. They move with the analyzer: other people's SQL reads the views v_*.
--
-- "Steady" are the steps that count: those that every rank of the world recorded, without the warm-up (specification.md "Conventions"). A
-- world without such a step has one row for its whole run in their place, with step 0 and annotated 0.

-- ------------------------------------------------------------------------------------------------ which steps count

-- The basis of a world's numbers.
CREATE TABLE steady_world (
  world INTEGER PRIMARY KEY,    -- process.world, of those with a rank
  annotated INTEGER NOT NULL,   -- 1: it has steady steps; 0: the whole run takes their place
  inferred INTEGER NOT NULL,    -- 1: the steps were found by the repetition of collectives (table inferred_steps)
  used INTEGER NOT NULL,        -- steady steps; 0 without
  warmup INTEGER NOT NULL,      -- steps left out at the beginning
  incomplete INTEGER NOT NULL,  -- steps left out because some rank has no record of them
  ranks INTEGER NOT NULL,       -- that the numbers are over: those with a record, without table torn_rank
  world_size INTEGER NOT NULL,  -- ranks that there were
  bounded INTEGER NOT NULL,     -- 1: waits of steady_part are lower bounds, and transfers upper ones, because ranks left no record
  waits_by TEXT NOT NULL DEFAULT 'thread'  -- device: GPUs carry out collectives, and no thread communicates or GPUs wait longer; thread: else
);

-- The numbers of the steady steps.
CREATE TABLE steady_number (
  world INTEGER NOT NULL,  -- process.world
  step INTEGER NOT NULL,   -- step.step
  PRIMARY KEY (world, step)
) WITHOUT ROWID;

-- Ranks whose record is damaged, or stops so early that more is known without them: their steps do not count, as if they had left no record.
CREATE TABLE torn_rank (
  world INTEGER NOT NULL,  -- process.world
  rank INTEGER NOT NULL,   -- process.rank
  PRIMARY KEY (world, rank)
) WITHOUT ROWID;

-- Where each steady step of each rank went on the threads of the host: step_part, by rank. compute_ns + exposed_ns = duration_ns, but for ranks that idle (step_part.idle_ns).
CREATE TABLE steady_part (
  world INTEGER NOT NULL,        -- process.world
  step INTEGER NOT NULL,         -- steady_number.step; 0: the whole run
  rank INTEGER NOT NULL,         -- process.rank
  annotated INTEGER NOT NULL,    -- 1: a step; 0: the whole run
  duration_ns INTEGER NOT NULL,  -- of the step on this rank
  compute_ns INTEGER NOT NULL,   -- outside MPI
  comm_ns INTEGER,               -- communication under way, beside computing or not; NULL: its events were not kept
  exposed_ns INTEGER NOT NULL,   -- inside MPI
  wait_ns INTEGER,               -- of exposed_ns, waiting; NULL: see why
  xfer_ns INTEGER,               -- of exposed_ns, the rest; NULL as wait_ns
  why TEXT,                      -- reason of a NULL; PARTIAL_RANKS beside a wait_ns: that is a lower bound
  input_ns INTEGER,              -- loading data: of what is neither compute_ns nor exposed_ns, and of compute_ns what is more; NULL: the run names no range that does
  bubble_ns INTEGER,             -- of wait_ns, waiting of a pipeline's stage for its neighbours; NULL: not a stage, or not known
  staged INTEGER NOT NULL,       -- 1: the rank is a stage of a pipeline
  sigma_ns REAL,                 -- clock sigma of wait_ns; NULL as wait_ns
  PRIMARY KEY (world, step, rank)
) WITHOUT ROWID;

-- Steady steps: sums over the ranks of steady_part, NULL where one of them is.
CREATE TABLE steady_step (
  world INTEGER NOT NULL,               -- process.world
  step INTEGER NOT NULL,                -- steady_number.step; 0: the whole run
  annotated INTEGER NOT NULL,           -- 1: a step; 0: the whole run
  ranks INTEGER NOT NULL,               -- that the sums are over
  duration_ns INTEGER NOT NULL,         -- sum
  compute_ns INTEGER NOT NULL,          -- sum
  comm_ns INTEGER,                      -- sum
  exposed_ns INTEGER NOT NULL,          -- sum
  wait_ns INTEGER,                      -- sum; NULL: see why
  xfer_ns INTEGER,                      -- sum; NULL: see why
  longest_ns INTEGER NOT NULL,          -- duration on the slowest rank: the time of the step
  longest_exposed_ns INTEGER NOT NULL,  -- exposed_ns of the rank that has most
  why TEXT,                             -- reason of a NULL; PARTIAL_RANKS beside a wait_ns: that is a lower bound
  input_ns INTEGER,                     -- sum
  bubble_ns INTEGER,                    -- sum over the stages of pipelines
  staged INTEGER NOT NULL,              -- ranks that are stages of pipelines
  staged_ns INTEGER NOT NULL,           -- sum of durations over those
  sigma_ns REAL,                        -- sum
  staged_sigma_ns REAL,                 -- sum over the stages
  PRIMARY KEY (world, step)
) WITHOUT ROWID;

-- Steady steps by their durations alone, of worlds where background threads communicate and some steps have no sample of a training thread:
-- what was done in those is not known, how long they took is. Other worlds have no rows.
CREATE TABLE timed_step (
  world INTEGER NOT NULL,       -- process.world
  step INTEGER NOT NULL,        -- step.step, of those that ended on every rank, without the warm-up
  longest_ns INTEGER NOT NULL,  -- duration on the slowest rank: the time of the step
  warmup INTEGER NOT NULL,      -- of the world: steps left out at the beginning
  PRIMARY KEY (world, step)
) WITHOUT ROWID;

-- How long the steady steps took the job: the sum over them of the window from the first begin to the last end over the ranks
-- (specification.md J4).
CREATE TABLE job_window (
  world INTEGER PRIMARY KEY,  -- process.world
  duration_ns INTEGER,        -- NULL: see why
  sigma_ns REAL,              -- clock sigma of duration_ns, as if the errors of all windows went one way; NULL as duration_ns
  why TEXT                    -- reason of a NULL
);

-- Ranks over all steady steps: sums of steady_part.
CREATE TABLE steady_rank (
  world INTEGER NOT NULL,        -- process.world
  rank INTEGER NOT NULL,         -- process.rank
  host INTEGER NOT NULL,         -- host.id
  duration_ns INTEGER NOT NULL,  -- sum
  compute_ns INTEGER NOT NULL,   -- sum
  exposed_ns INTEGER NOT NULL,   -- sum
  wait_ns INTEGER,               -- sum; NULL: not known of one of the steps, see why
  why TEXT,                      -- reason of a NULL; PARTIAL_RANKS beside a wait_ns: that is a lower bound
  sigma_ns REAL,                 -- sum of the known ones
  PRIMARY KEY (world, rank)
) WITHOUT ROWID;

-- GPUs over all steady steps, or the whole run where there are none, without those of table torn_rank: sums of gpu_part, NULL where one of them is.
CREATE TABLE steady_gpu (
  world INTEGER NOT NULL,             -- process.world
  process INTEGER NOT NULL,           -- process.id
  device INTEGER NOT NULL,            -- gpu_event.device
  duration_ns INTEGER NOT NULL,       -- sums of the columns of gpu_part with the same names, down to idle_other_ns
  compute_ns INTEGER NOT NULL,        -- a kernel computed
  comm_ns INTEGER NOT NULL,           -- a kernel of a collective ran
  wait_ns INTEGER,                    -- of comm_ns, waiting for other ranks
  copy_ns INTEGER NOT NULL,           -- a copy or memset ran
  exposed_comm_ns INTEGER NOT NULL,   -- of comm_ns, while nothing computed
  exposed_wait_ns INTEGER,            -- of exposed_comm_ns, waiting
  exposed_copy_ns INTEGER NOT NULL,   -- of copy_ns, while neither computed nor communicated anything
  active_ns INTEGER NOT NULL,         -- anything ran
  active_xfer_ns INTEGER,             -- of active_ns, without exposed waiting
  idle_ns INTEGER NOT NULL,           -- nothing ran
  idle_input_ns INTEGER,              -- of idle_ns, while data was loaded; NULL: the run names no range that loads data
  idle_host_ns INTEGER NOT NULL,      -- of idle_ns, the host had not launched the next operation yet
  idle_launch_ns INTEGER NOT NULL,    -- of idle_ns, delay of launches
  idle_kernel_ns INTEGER NOT NULL,    -- of idle_ns, between two kernels that were both launched
  idle_dep_comm_ns INTEGER NOT NULL,  -- of idle_ns, the next operation waited for a collective on another stream
  idle_dep_copy_ns INTEGER NOT NULL,  -- of idle_ns, the next operation waited for a copy on another stream
  idle_other_ns INTEGER NOT NULL,     -- of idle_ns, the rest: the awaited operation is unknown
  why TEXT,                           -- reason of a NULL
  windows INTEGER NOT NULL,           -- rows of gpu_part: steps
  sigma_ns REAL,                      -- clock sigma of exposed_wait_ns
  PRIMARY KEY (world, process, device)
) WITHOUT ROWID;

-- Which resource tells where a rank's time goes (specification.md J1).
CREATE TABLE rank_resource (
  world INTEGER NOT NULL,  -- process.world
  rank INTEGER NOT NULL,   -- process.rank
  resource TEXT NOT NULL,  -- device: its GPUs were active in the steady steps; thread: it has none, or they were idle; unseen: it calls NCCL, and its GPUs were not recorded
  PRIMARY KEY (world, rank)
) WITHOUT ROWID;

-- Steady steps of ranks where they wait: steady_part, but the rank's GPU in a world with steady_world.waits_by device; of several GPUs the one
-- that waited most.
CREATE TABLE steady_wait (
  world INTEGER NOT NULL,        -- process.world
  step INTEGER NOT NULL,         -- steady_number.step; 0: the whole run
  rank INTEGER NOT NULL,         -- process.rank
  duration_ns INTEGER NOT NULL,  -- of the step on this rank
  compute_ns INTEGER NOT NULL,   -- outside MPI, or a kernel computed
  wait_ns INTEGER,               -- waiting inside MPI, or exposed waiting of the GPU; NULL: not known
  exposed_ns INTEGER NOT NULL,   -- inside MPI, or in collectives while nothing computed
  PRIMARY KEY (world, step, rank)
) WITHOUT ROWID;

-- Layers of all ranks together, whole run: sums of v_layer, which has them by rank.
CREATE TABLE layer_total (
  world INTEGER,       -- process.world
  layer TEXT NOT NULL, -- region.layer
  phase TEXT,          -- NULL: none, or inferred
  calls INTEGER,       -- of all ranks
  compute_ns INTEGER,  -- own time outside MPI
  exposed_ns INTEGER,  -- own time in MPI
  wait_ns INTEGER      -- NULL: none of its calls waited, or not known
);

-- ------------------------------------------------------------------------------------------------ waiting

-- Instances of collectives and the last rank to enter, or the root that was waited for (specification.md W10); and, as message = 1, waiting for messages by the rank with which the lateness began.
CREATE TABLE late (
  world INTEGER NOT NULL,       -- process.world
  step INTEGER,                 -- of the late rank; NULL: outside steps
  rank INTEGER NOT NULL,        -- the late one; if a message had kept it waiting as long, the rank that was late with that
  ties INTEGER NOT NULL,        -- ranks that entered last together; each has a row
  wait_ns INTEGER NOT NULL,     -- waiting of the others, this rank's share of it
  longest_ns INTEGER NOT NULL,  -- longest wait of one rank
  instances INTEGER NOT NULL,   -- that the row stands for: 1, or so many calls
  comm INTEGER,                 -- communicator.id of a collective; NULL: messages
  message INTEGER NOT NULL      -- 1: calls that waited for messages, 0: a collective
);

-- Table blame, summed over the waiting ranks.
CREATE TABLE caused (
  world INTEGER NOT NULL,    -- process.world
  late INTEGER NOT NULL,     -- rank that entered last, or the root that was waited for
  wait_ns INTEGER NOT NULL,  -- sum
  sigma_ns REAL NOT NULL,    -- sum
  PRIMARY KEY (world, late)
) WITHOUT ROWID;

-- The highest sequence number that each process completed on each communicator.
CREATE TABLE reached (
  comm INTEGER NOT NULL,     -- communicator.id
  process INTEGER NOT NULL,  -- process.id
  seq INTEGER NOT NULL,      -- event.seq
  PRIMARY KEY (comm, process)
) WITHOUT ROWID;

-- Transfers of blocking collectives on each communicator in a step. A step may have several rows; each collective has its own, in their order,
-- where members left no record.
CREATE TABLE comm_step (
  comm INTEGER NOT NULL,    -- communicator.id
  step INTEGER NOT NULL,    -- step.step
  xfer_ns REAL NOT NULL,    -- sum of the transfer times of the instances
  bytes INTEGER NOT NULL,   -- sum of their sizes
  bounded INTEGER NOT NULL  -- 1: one collective of which members left no record; xfer_ns is an upper bound (specification.md J7)
);
CREATE INDEX comm_step_comm ON comm_step (comm);

-- Transfers of blocking collectives of one operation, communicator and size, where known.
CREATE TABLE group_transfer (
  world INTEGER NOT NULL,    -- process.world
  op INTEGER NOT NULL,       -- op.id
  comm INTEGER NOT NULL,     -- communicator.id
  bytes INTEGER NOT NULL,    -- S
  xfer_ns REAL NOT NULL,     -- median over instances
  busbw REAL,                -- bus bandwidth by it, bytes/s; NULL: not defined
  bounded INTEGER NOT NULL,  -- 1: in most instances members left no record, xfer_ns is the median of upper bounds (specification.md J7)
  PRIMARY KEY (world, op, comm, bytes)
) WITHOUT ROWID;

-- Bytes that the collectives of a step put on the wire, all ranks together, without those of unknown size or bus factor.
CREATE TABLE wire (
  world INTEGER NOT NULL,  -- process.world
  step INTEGER NOT NULL,   -- step.step
  bytes REAL NOT NULL,     -- sum over instances of size x bus factor x members
  PRIMARY KEY (world, step)
) WITHOUT ROWID;

-- Time of collectives of each axis on each GPU: lengths of unions over its streams, as gpu_part. Axes may run beside each other: their times do not
-- add up to those of gpu_part.
CREATE TABLE gpu_axis_part (
  process INTEGER NOT NULL,          -- process.id
  device INTEGER NOT NULL,           -- gpu_event.device
  step INTEGER,                      -- step.step; NULL: the whole run
  axis TEXT,                         -- communicator_axis.axis; NULL: unknown
  comm_ns INTEGER NOT NULL,          -- some kernel of a collective of the axis ran
  wait_ns INTEGER,                   -- of which nothing but waiting for other ranks; NULL: not known of some of them
  exposed_ns INTEGER NOT NULL,       -- of comm_ns, while nothing computed
  exposed_wait_ns INTEGER            -- of exposed_ns, waiting; NULL as wait_ns
);
CREATE INDEX gpu_axis_part_process ON gpu_axis_part (process, step);

-- Processes whose MPI calls are made by background threads, but for a few (specification.md J2, J3).
CREATE TABLE background_process (
  process INTEGER PRIMARY KEY,  -- process.id
  thread INTEGER,               -- thread.thread of the one that trains; NULL: it recorded nothing itself
  sampled INTEGER NOT NULL,     -- 1: table thread_sample tells when it computed
  cycle_ns INTEGER              -- from the begin of one cycle of coordination to that of the next, median; NULL: its ranks do not negotiate
);

-- Collectives of background threads that move no tensor, but agree on the next ones to move.
CREATE TABLE coordination (
  event INTEGER PRIMARY KEY  -- event.id
);

-- Data that background threads moved after negotiating it, and barriers: how ready its ranks were.
CREATE TABLE negotiation (
  process INTEGER NOT NULL,    -- process.id
  comm INTEGER NOT NULL,       -- communicator.id
  seq INTEGER NOT NULL,        -- event.seq of the collective that moved the data, or of the barrier; of the last cycle before, where messages or another communicator moved it
  step INTEGER,                -- its step; NULL: outside steps
  ready_ns INTEGER NOT NULL,   -- when this rank had all of it ready, or asked for the barrier: begin of the first cycle of coordination in which it said so
  agreed_ns INTEGER NOT NULL,  -- when the last rank had; across hosts: begin of that cycle on this rank
  late INTEGER NOT NULL,       -- 1: this rank was the last, or one of the last
  wait_ns INTEGER,             -- between the two, blocked on the training thread; NULL: not sampled
  PRIMARY KEY (process, comm, seq)
) WITHOUT ROWID;

-- Progress of the training threads of jobs that negotiate when the run ended, or was read: shows which rank hangs.
CREATE TABLE pending_negotiation (
  process INTEGER PRIMARY KEY,  -- process.id
  at_ns INTEGER NOT NULL,       -- its last cycle of coordination
  moved_ns INTEGER,             -- end of the last collective that moved its data; NULL: none did
  requested_bytes INTEGER,      -- of requests that it sent to rank 0 and that were not moved since, about; NULL: it sends none
  ready_bits INTEGER,           -- that it set for tensors which are ready in its last bitwise AND; NULL: it makes none
  thread TEXT,                  -- its training thread, in the last second: computing, polling (for another thread), asleep; NULL: not sampled
  sleeps_in TEXT                -- the system call in which it is asleep; NULL: not asleep, or not known
);

-- For whom everybody waits inside kernels of collectives: the rank, or all ranks of a host, whose GPUs spend least in collectives while nothing computes, in
-- nearly every step and by so much that it counts. No row: nobody, or threads tell the waiting (steady_world.waits_by). Times are medians over its steps, of a rank's GPU.
CREATE TABLE waited_for (
  world INTEGER PRIMARY KEY,     -- process.world
  rank INTEGER,                  -- process.rank; NULL: several, in waited_for_rank
  host INTEGER,                  -- host.id: that of the rank, or of which it is all; NULL: a few ranks
  since_step INTEGER,            -- from which on it is so; NULL: from the first steady one
  steps INTEGER NOT NULL,        -- that count
  late_steps INTEGER NOT NULL,   -- of those, no other rank spends less
  lead_ns REAL NOT NULL,         -- its time in collectives short of the next one's, at most the cause's excess: a step without it is shorter by as much
  cause TEXT NOT NULL,           -- its activity instead: compute; data (it computes longer for it gets more bytes in all-to-alls); host (idle until the host launches); input (idle while the host loads data); copy; idle
  own_ns REAL NOT NULL,          -- time of the cause
  others_ns REAL NOT NULL,       -- the same of the others
  comm_ns REAL NOT NULL,         -- in collectives while nothing computes
  others_comm_ns REAL NOT NULL,  -- the same of the others
  axis TEXT,                     -- on which the others wait for it longest; NULL: no axis is known, or no waiting
  axis_ratio REAL,               -- that axis's share of such waiting
  own_bytes REAL,                -- that it sends in all-to-alls of a step; NULL: there are none
  others_bytes REAL              -- the same of the others
);

-- The ranks that waited_for is about.
CREATE TABLE waited_for_rank (
  world INTEGER NOT NULL,  -- process.world
  rank INTEGER NOT NULL    -- process.rank
);

-- Calls of collectives whose waiting is not known.
CREATE TABLE unsplit (
  world INTEGER NOT NULL,  -- process.world
  op INTEGER NOT NULL,     -- op.id
  why TEXT NOT NULL,       -- the reason
  calls INTEGER NOT NULL,  -- with that reason
  PRIMARY KEY (world, op, why)
) WITHOUT ROWID;

-- Calls in which messages completed, of those that waited for one or of which that is not known.
CREATE TABLE call_wait (
  event INTEGER PRIMARY KEY,  -- event.id
  wait_ns INTEGER,            -- NULL: see why
  why TEXT,                   -- reason of a NULL
  late INTEGER,               -- process.id of the one it waited for; of several, the one that it waited for longest
  sigma_ns REAL               -- clock sigma of wait_ns
);

-- Calls that complete what is not blocking, after the waiting for others to post it and before the last of them comes to complete it in turn (specification.md W2):
-- transfer, or waiting for a rank that computes and does not drive the library. A call may have several rows, which are one: the latest begin and the latest end.
-- Where a process tests again and again, the time before the test that found what it posted over: a row for each.
CREATE TABLE late_completion (
  event INTEGER NOT NULL,     -- event.id of the call
  start_ns INTEGER NOT NULL,  -- it waits for nobody to post from here on; before the call begins: of one that tests
  end_ns INTEGER NOT NULL     -- the others have come, or the call is over
);

-- Waiting for messages by waiter, late rank and step. A key may have several rows.
CREATE TABLE message_late (
  world INTEGER NOT NULL,   -- process.world
  late_step INTEGER,        -- step of the late rank; NULL: outside steps
  late INTEGER NOT NULL,    -- its rank
  step INTEGER,             -- step of the rank that waited; NULL: outside steps
  waiter INTEGER NOT NULL,  -- its rank
  calls INTEGER NOT NULL,   -- that waited
  wait_ns INTEGER NOT NULL  -- sum
);

-- The end of each step with non-blocking collectives, after the last of them was posted: nothing is left to hide the rest of the transfers.
CREATE TABLE tail (
  process INTEGER NOT NULL,      -- process.id
  step INTEGER NOT NULL,         -- step.step
  xfer_ns INTEGER NOT NULL,      -- inside completing calls with collectives in flight, without the waiting, and without what may be waiting as well (late_completion)
  buckets INTEGER NOT NULL,      -- collectives posted in the step that completed in the tail
  bytes INTEGER NOT NULL,        -- theirs
  all_buckets INTEGER NOT NULL,  -- collectives posted in the step
  all_bytes INTEGER NOT NULL,    -- theirs
  last_bytes INTEGER NOT NULL,   -- of the one that was posted last
  split INTEGER NOT NULL,        -- 0: the clocks do not tell the waiting, which xfer_ns then contains
  PRIMARY KEY (process, step)
) WITHOUT ROWID;

-- Straggler scores (specification.md R1, R2).
CREATE TABLE section_score (
  world INTEGER NOT NULL,  -- process.world
  rank INTEGER NOT NULL,   -- process.rank
  relative REAL,           -- against the fastest rank; NULL: see why
  individual REAL,         -- against the rank's own best time; NULL: see individual_why
  why TEXT,                -- reason of a NULL
  individual_why TEXT,     -- reason of a NULL
  PRIMARY KEY (world, rank)
) WITHOUT ROWID;

-- ------------------------------------------------------------------------------------------------ inputs of several metrics

-- How long threads of ranks were in calls that launch work on GPUs or wait for it. No row: none of the step's calls was recorded.
CREATE TABLE host_gpu (
  world INTEGER NOT NULL,  -- process.world
  step INTEGER NOT NULL,   -- step.step
  ns INTEGER NOT NULL,     -- sum over threads
  PRIMARY KEY (world, step)
) WITHOUT ROWID;

-- Time of kernels in the whole run, by class of their names (specification.md J5).
CREATE TABLE kernel_time (
  world INTEGER NOT NULL,    -- process.world
  class TEXT NOT NULL,       -- communication, compute, or unclassified: no rule knows the name
  names INTEGER NOT NULL,    -- different names of them
  kernels INTEGER NOT NULL,  -- executions
  ns INTEGER NOT NULL,       -- sum; side by side counts twice
  PRIMARY KEY (world, class)
) WITHOUT ROWID;

-- Steps from which on the job was slower or faster: change points of steady_step.longest_ns.
CREATE TABLE step_change (
  world INTEGER NOT NULL,   -- process.world
  step INTEGER NOT NULL,    -- the first one after the change
  before_ns REAL NOT NULL,  -- mean step time before it, back to the last change
  after_ns REAL NOT NULL,   -- mean step time from it on, up to the next
  PRIMARY KEY (world, step)
) WITHOUT ROWID;

-- The gradient noise scale (specification.md G1 to G3).
CREATE TABLE noise (
  world INTEGER PRIMARY KEY,  -- process.world
  square REAL,                -- |G|^2; NULL: see why
  trace REAL,                 -- tr(Sigma); NULL: see why
  scale REAL,                 -- tr(Sigma) / |G|^2, samples; NULL: see why
  lo REAL,                    -- bootstrap 95 % interval of scale; NULL: too few steps, or no upper end
  hi REAL,                    -- its upper end
  own_samples REAL,           -- samples of one rank in the last step
  all_samples REAL,           -- samples of all ranks in it
  why TEXT                    -- reason of a NULL
);

-- Values that ranks reported in each step with ddl_value: names "samples" and "model_flops".
CREATE TABLE reported (
  world INTEGER NOT NULL,  -- process.world
  name TEXT NOT NULL,      -- value.name
  step INTEGER NOT NULL,   -- value.step
  total REAL NOT NULL,     -- sum over ranks
  ranks INTEGER NOT NULL,  -- that reported it
  PRIMARY KEY (world, name, step)
) WITHOUT ROWID;

-- Growth of the hardware counters of each process in its steps.
CREATE TABLE counted (
  world INTEGER NOT NULL,     -- process.world
  rank INTEGER NOT NULL,      -- process.rank
  world_size INTEGER,         -- process.world_size
  instructions REAL,          -- PAPI_TOT_INS; NULL: not counted
  instruction_steps INTEGER,  -- steps that it was read in; NULL: not counted
  cycles REAL,                -- PAPI_TOT_CYC; NULL: not counted
  flops REAL,                 -- PAPI_FP_OPS; NULL: not counted
  time_ns REAL,               -- how long its steps took; NULL: it has none
  peak REAL                   -- reported as "peak_flops_per_second"; NULL: not reported
);
CREATE INDEX counted_world ON counted (world);

-- The bubble of the schedule (specification.md B1 to B3), mean over the stages. No row: there is no pipeline.
CREATE TABLE pipeline_model (
  world INTEGER PRIMARY KEY,  -- process.world
  of_total REAL NOT NULL,     -- of the step
  of_ideal REAL NOT NULL      -- of the step without the bubble
);

-- The line of a rank's computing over its samples in a steady step, by least squares of the distances from each rank's own means
-- (specification.md G6). No row: no rank had steps of different sizes.
CREATE TABLE batch_fit (
  world INTEGER PRIMARY KEY,    -- process.world
  per_sample_ns REAL NOT NULL,  -- its slope
  fixed_ns REAL NOT NULL        -- computing of a step without samples
);

-- Exposed transfer of a steady step, mean over ranks, or over GPUs where those tell more.
CREATE TABLE mean_transfer (
  world INTEGER PRIMARY KEY,  -- process.world
  xfer_ns REAL,               -- NULL: see why
  why TEXT                    -- reason of a NULL
);

-- ------------------------------------------------------------------------------------------------ findings

-- What findings do not say in table finding, for whoever compares runs or sums over one.
CREATE TABLE finding_about (
  position INTEGER PRIMARY KEY,  -- finding.position
  subject TEXT NOT NULL,         -- what it is about besides finding.rank: operation and communicator, layer, ranks; empty: the job. Findings of two runs with the same id, rank and subject are one
  since INTEGER                  -- first of the steps that finding.saving_ns is over; NULL: all steady ones
);

-- ------------------------------------------------------------------------------------------------ hangs, from flight recorders

-- Operations that ranks were in when flight recorders were dumped: the waits between ranks (docs/decisions/0027-who-hangs.md).
CREATE TABLE hang_call (
  world INTEGER NOT NULL,   -- process.world
  call INTEGER NOT NULL,    -- 1, 2, ...: from the first causes outwards
  depth INTEGER,            -- 1: its missing ranks are a first cause; 2: they wait in a call of depth 1; ... NULL: it leads to no cause
  fault INTEGER,            -- hang_fault.fault that it leads to; NULL as depth
  comm INTEGER NOT NULL,    -- communicator.id
  op TEXT NOT NULL,         -- as flight_entry.op; of messages as its ranks see it: send, recv or message
  seq INTEGER,              -- number on the group
  why TEXT NOT NULL,        -- its obstacle: missing, mismatch, behind (enqueued behind another one), no dump, left (some completed it: it waits for no rank), nothing (all are in it)
  since_ns INTEGER,         -- when the first of those in it enqueued it; NULL: not told
  ranks_in INTEGER NOT NULL,      -- ranks that enqueued it and saw no end of it
  ranks_missing INTEGER NOT NULL, -- ranks that it waits for
  PRIMARY KEY (world, call)
) WITHOUT ROWID;

-- The members of those calls.
CREATE TABLE hang_member (
  world INTEGER NOT NULL,  -- process.world
  call INTEGER NOT NULL,   -- hang_call.call
  rank INTEGER NOT NULL,   -- process.rank, or a rank without a dump
  part TEXT NOT NULL,      -- in: enqueued, not completed; missing: never enqueued it; other: enqueued another operation in its place; behind: enqueued it behind one that it sits in; left: completed it; no dump
  said TEXT,               -- of a mismatch: operation, sizes and types that the rank enqueued; NULL: not told
  PRIMARY KEY (world, call, rank)
) WITHOUT ROWID;

-- Ranks of a job whose flight recorders were dumped.
CREATE TABLE hang_rank (
  world INTEGER NOT NULL,  -- process.world
  rank INTEGER NOT NULL,   -- process.rank, or a rank without a dump
  call INTEGER,            -- hang_call.call that it sits in first; NULL: none
  fault INTEGER,           -- hang_fault.fault that it is the cause of; NULL: none
  entry INTEGER,           -- flight_entry.id: the operation that it is in; for others the last that it enqueued; NULL: none
  PRIMARY KEY (world, rank)
) WITHOUT ROWID;

-- First causes of a hang. Their ranks are in hang_rank.
CREATE TABLE hang_fault (
  world INTEGER NOT NULL,  -- process.world
  fault INTEGER NOT NULL,  -- 1, 2, ...
  kind TEXT NOT NULL,      -- missing: ranks did not enter a call; ahead: ranks entered one that most never did; behind: ranks are stuck before it; mismatch; circle: ranks wait for each other; no dump; stuck: all are in it
  call INTEGER NOT NULL,   -- hang_call.call that tells it best
  waiting INTEGER NOT NULL,    -- ranks that wait for it, through others too
  sure INTEGER NOT NULL,   -- 1: no moment of a healthy job looks like this; 0: one may
  PRIMARY KEY (world, fault)
) WITHOUT ROWID;

-- The critical path of each step of each rank with GPUs (specification.md J12), summed by kind and name.
CREATE TABLE critical_path (
  process INTEGER NOT NULL,  -- process.id
  step INTEGER,              -- step.step; NULL: the whole run, of a process without steps
  kind TEXT NOT NULL,        -- host, launch, between, compute, wait, transfer, collective (both, where they cannot be told apart), copy, unknown
  name INTEGER,              -- gpu_name.id of the operation, or of the synchronisation in which the host came back; NULL: the host's own work
  region INTEGER,            -- region.id of the launch; NULL: behind the last launch of the step
  pieces INTEGER NOT NULL,   -- how often
  time_ns INTEGER NOT NULL   -- on the path
);

-- ------------------------------------------------------------------------------------------------ for SQL of one's own

-- Counters of GPUs by operator (or other innermost range) of the kernels, from traces of PyTorch under CUPTI's profiler.
CREATE VIEW v_operator_counter AS
SELECT p.world, p.rank, e.step, r.name AS operator, r.layer, r.phase, c.name AS counter, count(*) AS kernels, sum(e.value) AS value
FROM counter_event e JOIN process p ON p.id = e.process JOIN counter c ON c.process = e.process AND c.number = e.counter JOIN region r ON r.id = e.region
WHERE c.source = 'cupti'
GROUP BY p.world, p.rank, e.step, r.id, c.number;

-- Memory that allocators held, as traces of PyTorch with profile_memory tell it (values "memory allocated cuda:0" and so on): at each change; it holds until the next row of
-- its device and column what. allocated: given to tensors; reserved: by the allocator from the device; since begin: given to tensors less given back since the trace began, of
-- traces that tell no more.
CREATE VIEW v_memory AS
SELECT p.world, p.rank, substr(m.name, 8 + instr(substr(m.name, 8), ' ')) AS device, replace(substr(m.name, 8, instr(substr(m.name, 8), ' ') - 1), 'change', 'since begin') AS what,
       m.step, m.time_ns,
       CAST(CASE WHEN m.name LIKE 'memory change %' THEN sum(m.value) OVER (PARTITION BY m.process, m.name ORDER BY m.time_ns, m.rowid ROWS UNBOUNDED PRECEDING) ELSE m.value END
            AS INTEGER) AS bytes
FROM value m JOIN process p ON p.id = m.process
WHERE m.name LIKE 'memory allocated %' OR m.name LIKE 'memory reserved %' OR m.name LIKE 'memory change %';

-- The critical path through the steps of each rank with GPUs, host and GPUs in turn: a name's time on the path is the most that a
-- step can gain without it. step NULL: the whole run, of a process without steps. name: of the kernel, copy or synchronisation; NULL: the host's own work, in
-- range_name. The rows of a step add up to its path.
CREATE VIEW v_critical_path AS
SELECT p.world, p.rank, c.step, c.kind, n.name, r.name AS range_name, r.layer, r.phase, c.pieces, c.time_ns
FROM critical_path c JOIN process p ON p.id = c.process LEFT JOIN gpu_name n ON n.id = c.name LEFT JOIN region r ON r.id = c.region;

-- Which kernels, copies and memsets follow each other in ranges (kind: operator, layer, phase): one row for each sequence of each range name in each step. kernels: how many it
-- has; calls: ranges that launched exactly these, in the order of their begins on the GPU; gpu_ns and host_ns: sums over those calls, on the GPU and of the ranges themselves.
-- What lies inside counts, too; a range inside another one of its own kind and name is part of that. All ranges and launches are sorted for it: it takes some seconds a million.
CREATE VIEW v_kernel_sequence AS
WITH RECURSIVE above(region, around, next) AS (  -- each region with all that it lies in, and with itself
  SELECT id, id, parent FROM region WHERE id > 0
  UNION ALL SELECT a.region, r.id, r.parent FROM above a JOIN region r ON r.id = a.next WHERE r.id > 0
), counted AS MATERIALIZED (
  SELECT r.id, r.kind, r.name FROM region r
  WHERE r.kind IN ('phase', 'layer', 'operator') AND r.id IN (SELECT a.around FROM above a WHERE a.region IN (SELECT region FROM gpu_event WHERE kind IN (1, 2, 3)))
        AND NOT EXISTS (SELECT 1 FROM above a JOIN region o ON o.id = a.around WHERE a.region = r.id AND o.id <> r.id AND o.kind = r.kind AND o.name = r.name)
), mark AS (  -- begins of ranges, and launches once for each range around them
  SELECT process, thread, region, step, start_ns AS time_ns, start_ns + duration_ns AS end_ns, NULL AS event, NULL AS name, NULL AS begin_ns, NULL AS gpu_ns
  FROM range_event WHERE region IN (SELECT id FROM counted)
  UNION ALL
  SELECT g.process, g.thread, a.around, g.step, g.launch_ns, NULL, g.id, g.name, g.start_ns, g.duration_ns
  FROM gpu_event g JOIN above a ON a.region = g.region
  WHERE g.kind IN (1, 2, 3) AND g.launch_ns IS NOT NULL AND a.around IN (SELECT id FROM counted)
), placed AS (  -- number: of the last range that had begun
  SELECT *, count(end_ns) OVER before AS number, max(end_ns) OVER before AS until_ns, max(iif(event IS NULL, time_ns, NULL)) OVER before AS since_ns
  FROM mark WINDOW before AS (PARTITION BY process, thread, region ORDER BY time_ns, event ROWS UNBOUNDED PRECEDING)
), called AS (
  SELECT process, region, min(step) AS step, count(*) AS kernels, sum(gpu_ns) AS gpu_ns, max(until_ns) - max(since_ns) AS host_ns, group_concat(name) AS names
  FROM (SELECT * FROM placed WHERE event IS NOT NULL AND time_ns < until_ns ORDER BY process, thread, region, number, begin_ns, event)
  GROUP BY process, thread, region, number
), summed AS (
  SELECT l.process, l.step, c.kind, c.name AS range_name, l.names, l.kernels, count(*) AS calls, sum(l.gpu_ns) AS gpu_ns, sum(l.host_ns) AS host_ns
  FROM called l JOIN counted c ON c.id = l.region
  GROUP BY l.process, l.step, c.kind, c.name, l.names
)
SELECT p.world, p.rank, s.step, s.kind, s.range_name, s.kernels, s.calls, s.gpu_ns, s.host_ns,
       (SELECT group_concat(n.name, ' | ') FROM json_each('[' || s.names || ']') j JOIN gpu_name n ON n.id = j.value) AS sequence
FROM summed s JOIN process p ON p.id = s.process;

-- Bytes that each rank sent in collectives, over the events that the window kept, by axis (communicator_axis.axis; NULL: none is known) and operation. In all-to-alls
-- ranks send as much as their share of the data: mean_ratio is bytes against the mean of the ranks of the same communicator. NULL bytes: not known of some call. NULL wait_ns and xfer_ns: see why.
CREATE VIEW v_traffic AS
WITH sent AS (
  SELECT p.world, p.rank, e.comm, e.op, count(*) AS calls, iif(count(e.bytes) = count(*), sum(e.bytes), NULL) AS bytes,
         iif(count(k.wait_ns) = count(*), sum(k.wait_ns), NULL) AS wait_ns, iif(count(k.xfer_ns) = count(*), sum(k.xfer_ns), NULL) AS xfer_ns,
         max(iif(k.wait_ns IS NULL, k.why, NULL)) AS why
  FROM collective k JOIN event e ON e.id = k.event JOIN process p ON p.id = e.process
  GROUP BY p.world, p.rank, e.comm, e.op
)
SELECT s.world, s.rank, a.axis, c.label AS comm, o.name AS op, s.calls, s.bytes, s.bytes / nullif(avg(s.bytes) OVER (PARTITION BY s.world, s.comm, s.op), 0) AS mean_ratio,
       s.wait_ns, s.xfer_ns, s.why
FROM sent s JOIN communicator c ON c.id = s.comm JOIN op o ON o.id = s.op LEFT JOIN communicator_axis a ON a.communicator = s.comm;
