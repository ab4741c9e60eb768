-- The store: one SQLite file per run (NAME.ddl/run.sqlite), written by `ddl record` when the job ends or by the first ddl command that opens
-- the run directory. Tables may move between versions; the views v_* are the stable surface for other people's SQL.
--
-- Times are integer ns since the run's first sign of life (meta.epoch_realtime_ns is that moment as Unix time), on one axis for all hosts.
-- Sizes are bytes. Ratios are 0..1. NULL means "not known" and never "zero"; a column `why` says which of NO_DATA, ZERO_DENOM, CLOCK_UNTRUSTED,
-- PARTIAL_RANKS, NOT_APPLICABLE it was. Ranks are ranks in MPI_COMM_WORLD of their world; world is 0 for ordinary jobs.
-- docs/reference/schema.md is generated from this file: every table and column carries a comment.

PRAGMA application_id = 0x64646c31;  -- "ddl1": a file without it is not ours
PRAGMA user_version = 15;            -- schema version; a newer one is refused

-- ------------------------------------------------------------------------------------------------ processes and hosts

-- Facts about the run as a whole, from job.json and the ingest.
CREATE TABLE meta (
  key TEXT PRIMARY KEY,  -- schema_version, ddl_version, epoch_realtime_ns, ingested_at, command, exit_code, signal, told_to_end (number of the signal, SIGINT or SIGTERM, that reached the job while it ran), launcher, torch.hooks (what was hooked of torch), torch.steps (what its steps are, where that is not plain), job_id and job_step_id (of the batch system), duration_ns, commit (of Git, that the job ran), spools (files that were looked at), imported_from (kineto, ...), env.NAME, ...; by the analyzer: verdict, analysis.*
  value TEXT             -- always text; numbers in decimal
) WITHOUT ROWID;

-- Hosts and how their ticks were mapped to the run's time axis.
CREATE TABLE host (
  id INTEGER PRIMARY KEY,  -- 1, 2, ... in the order of first appearance
  name TEXT NOT NULL,      -- hostname
  boot_id TEXT NOT NULL,   -- tells two boots, or two hosts of one name, apart
  clock TEXT NOT NULL,     -- tsc, monotonic or imported (the trace's own)
  ticks_per_second REAL NOT NULL,  -- fitted from the (ticks, CLOCK_MONOTONIC) pairs of all its processes
  fit_residual_ns REAL,    -- largest distance of a pair from the fitted line; NULL with fewer than three pairs
  offset_ns INTEGER NOT NULL,  -- added to the host's CLOCK_MONOTONIC to reach the run's axis, at its zero
  drift_ppm REAL,          -- how much faster its clock runs than the reference's, over the run; NULL: not known
  sigma_ns REAL,           -- 1-sigma of its place on the axis against the reference, while it communicates; 0: shares the reference's clock. NULL: not known
  method TEXT NOT NULL     -- single-host; reference: its clock is the axis; collectives: no member leaves before all entered; clock-sync: these, and messages of ddl record --clock-sync; realtime: by date only
);

-- Processes that recorded something.
CREATE TABLE process (
  id INTEGER PRIMARY KEY,       -- 1, 2, ... ordered by world, rank
  world INTEGER NOT NULL,       -- which MPI_COMM_WORLD: 0, 1, ... in the order of their start
  rank INTEGER,                 -- NULL: no rank, or it died in MPI_Init and its launcher had not announced one
  world_size INTEGER,           -- size of MPI_COMM_WORLD; NULL as rank
  host INTEGER NOT NULL,        -- host.id
  pid INTEGER NOT NULL,         -- process id on its host
  start_ns INTEGER NOT NULL,    -- recording began
  end_ns INTEGER NOT NULL,      -- last sign of life in the spool
  init_ns INTEGER,              -- MPI_Init left; NULL: never
  finalize_ns INTEGER,          -- MPI_Finalize entered; NULL: never
  ended TEXT NOT NULL,          -- imported (a trace of another tool: not known), finalized, aborted (MPI_Abort in this process), exited (without MPI_Finalize), exec (became another program, which is a row of its own), lost (killed, crashed, left by _exit, or still running)
  abort_code INTEGER,           -- argument of MPI_Abort
  thread_level TEXT,            -- MPI_THREAD_SINGLE ... MPI_THREAD_MULTIPLE
  clock TEXT NOT NULL,          -- tsc, monotonic or imported
  keep_level INTEGER NOT NULL,  -- events of every 2^keep_level-th step or block of collectives were kept at the end; 0: all
  overhead_ns INTEGER,          -- time that recording took from all threads together, as the process itself estimated (docs/performance.md); NULL: not estimated
  exe TEXT,                     -- path of the program
  command TEXT,                 -- its arguments
  spool TEXT NOT NULL,          -- file name in the run directory; of an imported run: of the trace
  spool_bytes INTEGER NOT NULL  -- size of that file
);
CREATE INDEX process_rank ON process(world, rank);

-- Other facts about a process: cpus (that its main thread could run on when it began), cpus_at_end (if others by then), peak_memory_bytes (resident at most, if it ended by itself), on_cpu_ns, run_queue_wait_ns and cpu_account_ns (how long its main thread was on a CPU, ready to run without one, and what both are of: from MPI_Init, or when recording began, to MPI_Finalize, MPI_Abort or the exit; not if it was killed, nor where the kernel does not tell), exit_code (what it gave exit(), the same), numa (nodes of those CPUs), local_rank (number on its host, as
-- the launcher said), gpu.until (when its GPUs were handed over to a use of the program's own for CUPTI, ns), job_id and job_step_id (of the batch system), cwd, mpi, env.NAME, note, ...
CREATE TABLE process_fact (
  process INTEGER NOT NULL,  -- process.id
  key TEXT NOT NULL,         -- name of the fact
  value TEXT                 -- its value
);
CREATE INDEX process_fact_key ON process_fact(process, key);

-- Threads that recorded something.
CREATE TABLE thread (
  process INTEGER NOT NULL,  -- process.id
  thread INTEGER NOT NULL,   -- 0 is the first that recorded; a number is used again after its thread has ended
  tid INTEGER NOT NULL,      -- kernel's thread id (of the last user of the number)
  name TEXT,                 -- thread name, if any
  PRIMARY KEY (process, thread)
) WITHOUT ROWID;

-- Missing data. Every row is shown in the report.
CREATE TABLE loss (
  world INTEGER,         -- NULL: the run as a whole
  rank INTEGER,          -- NULL: the run as a whole, or a process without a rank
  kind TEXT NOT NULL,    -- not_kept, records, profile_other, contexts, communicators, requests, meta, range_depth, unbalanced_ranges, threads, counters, forward_layers, gpu_not_kept, gpu_dropped, gpu_times, gpu_unread, nccl_events, pages, cannot_grow (counted by the process); torn_spool, damaged_header, missing_rank, killed, clock, clock_back, abandoned_calls, undescribed, gpu_launches, gpu_clock, gpu_tracing, nccl_kernels, nccl_shared, nccl_untimed, job_file, stall_file (found by the ingest), bad_times, negotiations, not_understood, other_format, whole_graphs, not_dumps, stacks, pg_status, ras_errors, ras_ranks, ras_silent, ras_status, ras_timeouts, ras_cut, ras_odd, ras_unnamed, stage_messages, inspector_ranks (found by ddl import)
  count INTEGER NOT NULL,  -- events, calls, bytes or processes: the note says which
  note TEXT NOT NULL     -- for people, reads on from the count: "3 of 16 ranks left no spool: rank 4, 7-8"
);

-- Operations: exact C names.
CREATE TABLE op (
  id INTEGER PRIMARY KEY,    -- 1, 2, ...
  name TEXT NOT NULL UNIQUE, -- MPI_Allreduce, ...
  class TEXT NOT NULL,       -- other, lifecycle, all_to_all, barrier, root_to_all, all_to_root, scan, neighbor, communicator, send, receive, send_receive, probe, completion, request_start, one_sided, rma_sync, file, file_collective, device_message, unknown (a damaged spool does not say)
  nonblocking INTEGER NOT NULL  -- 1: posts a request, or work for a device
);

-- Predefined datatypes of MPI and NCCL (core/names.h).
CREATE TABLE datatype (
  id INTEGER PRIMARY KEY,  -- code in event.datatype
  name TEXT NOT NULL       -- MPI_FLOAT, ...
);

-- Predefined reduction operations of MPI and NCCL (core/names.h).
CREATE TABLE reduction (
  id INTEGER PRIMARY KEY,  -- code in event.reduction
  name TEXT NOT NULL       -- MPI_SUM, ...
);

-- Communicators, one row for all members. Windows and files are groups of ranks with collective calls, and are told like communicators.
CREATE TABLE communicator (
  id INTEGER PRIMARY KEY,   -- 1, 2, ... by world, size descending, uid; behind them inferred ones
  world INTEGER NOT NULL,   -- process.world
  uid INTEGER NOT NULL,     -- the same on all members: hash of parent, creating call, members and count
  label TEXT NOT NULL,      -- unique within the world; world (inferred), NCCL stream ... (members unknown): of kernels that the trace of PyTorch names no process group of (docs/how-to/import.md); else its name (MPI_Comm_set_name, MPI_Win_set_name, file name, MPI_COMM_WORLD), else creating call and number
  size INTEGER,             -- members; of an intercommunicator: of both groups, as far as they are of this world; NULL: not known
  parent INTEGER,           -- communicator.id; NULL: predefined or unknown
  op INTEGER,               -- op.id that created it; NULL: predefined or unknown
  kind TEXT NOT NULL,       -- world, self, intra, inter, window, file, nccl, gloo
  topology TEXT             -- cart 4x2 periodic 1,0; graph; dist_graph; NULL: none
);

-- Members of communicators. None for MPI_COMM_SELF, whose one row stands for a communicator on each rank.
CREATE TABLE communicator_member (
  communicator INTEGER NOT NULL,  -- communicator.id
  side INTEGER NOT NULL,          -- 0; of an intercommunicator, whose peers are ranks in the other group: 0 or 1
  comm_rank INTEGER NOT NULL,     -- rank in it; of an intercommunicator: in its group
  rank INTEGER,                   -- rank in MPI_COMM_WORLD; NULL: not of our world
  PRIMARY KEY (communicator, side, comm_rank)
) WITHOUT ROWID;

-- Communicators that came of a split of their parent (ncclCommSplit). Those of one split serve one purpose, each for its own ranks.
CREATE TABLE communicator_split (
  communicator INTEGER PRIMARY KEY,  -- communicator.id
  split INTEGER NOT NULL,            -- number among all that was made from the parent, the same of all that one split made
  color INTEGER NOT NULL             -- as the program gave it: tells those of one split apart
);

-- The axis of parallelism that communicators serve, by the analyzer (specification.md "Axes of parallelism"). No row: none, or unknown.
CREATE TABLE communicator_axis (
  communicator INTEGER PRIMARY KEY,  -- communicator.id
  axis TEXT NOT NULL,                -- tensor, pipeline, data, context, sequence, expert, embedding, model, or several with + between; by shape: all ranks, stride N, other
  source TEXT NOT NULL               -- name: its framework's; lineage: the name of a communicator that was split off with it, or that it was split from; shape: the places of its members
);

-- Steps, phases, layers and operators: the tree of annotated ranges, merged over processes.
CREATE TABLE region (
  id INTEGER PRIMARY KEY,  -- 0 is "outside every range"
  parent INTEGER,          -- region.id; NULL for 0
  kind TEXT NOT NULL,      -- none, step, phase, layer, operator (a function of a framework, as torch's emit_nvtx names them), inferred (call site and position in a step of a job that marks nothing, by the analyzer)
  name TEXT NOT NULL,      -- name of the layer, phase or operator; '' for none and step
  phase TEXT,              -- name of the innermost phase at or above this region; NULL: none
  layer TEXT               -- name of the innermost layer at or above this region, else of the outermost operator; NULL: none
);

-- Call sites, merged over processes.
CREATE TABLE site (
  id INTEGER PRIMARY KEY,  -- 1, 2, ...
  module TEXT NOT NULL,    -- path of the program or library; '?' if the address lies in none that was recorded
  offset INTEGER NOT NULL  -- of the return address in that file
);

-- ------------------------------------------------------------------------------------------------ the profile: exact, whole run

-- Calls, bytes and time of every operation, summed over threads. Exact for the whole run whatever the window kept.
CREATE TABLE profile (
  process INTEGER NOT NULL,     -- process.id
  op INTEGER NOT NULL,          -- op.id
  comm INTEGER,                 -- communicator.id; NULL: operation without one
  region INTEGER NOT NULL,      -- region.id in which the call was made
  site INTEGER,                 -- site.id; NULL: unknown
  size_class INTEGER NOT NULL,  -- 0: no bytes; k: 2^(k-1) <= bytes of a call < 2^k
  calls INTEGER NOT NULL,       -- completed calls
  bytes INTEGER,                -- this rank's send payload; received bytes for receives; NULL: not known of some call (imported runs only)
  time_ns INTEGER NOT NULL,     -- sum of durations of the calls
  min_ns INTEGER,               -- shortest call
  max_ns INTEGER,               -- longest call
  time_estimated INTEGER NOT NULL,  -- 1: only some calls were timed and time_ns is scaled up
  histogram BLOB                -- 16 x uint32 little-endian: durations, bucket b = [2^(b+8), 2^(b+9)) ticks
);

-- Time of phases, layers and operators, summed over threads. Inclusive of ranges inside them.
CREATE TABLE range_profile (
  process INTEGER NOT NULL,  -- process.id
  region INTEGER NOT NULL,   -- region.id
  calls INTEGER NOT NULL,    -- times the range was closed
  time_ns INTEGER NOT NULL,  -- begin to end
  mpi_ns INTEGER NOT NULL,   -- of which inside MPI calls of the same thread
  min_ns INTEGER,            -- shortest
  max_ns INTEGER             -- longest
);

-- ------------------------------------------------------------------------------------------------ events that the window kept

-- Calls and requests. kind call: enter to leave of a call. kind request: post enter to leave of the completing call of a non-blocking operation.
CREATE TABLE event (
  id INTEGER PRIMARY KEY,   -- grouped by process, in the order of start_ns within it (kind 4: after all others; of imported runs: as the trace had them)
  process INTEGER NOT NULL, -- process.id
  thread INTEGER NOT NULL,  -- thread.thread (requests: of the thread that completed it)
  kind INTEGER NOT NULL,    -- 1 call of MPI or Gloo, 2 request, 3 call of NCCL (what the host did: it only enqueues), 4 collective of NCCL as a device carried it out
  op INTEGER NOT NULL,      -- op.id
  comm INTEGER,             -- communicator.id
  seq INTEGER,              -- number of this collective on its communicator, from 1, equal on all members (+ k * 2^32: the k-th repetition of a captured one; + 2^30: a monitored_barrier of PyTorch, counted for itself); NULL: not the instance of a collective, or on MPI_COMM_SELF
  region INTEGER NOT NULL,  -- region.id in which the call was made or posted
  site INTEGER,             -- site.id
  step INTEGER,             -- step number; NULL: outside steps
  start_ns INTEGER NOT NULL,     -- enter
  duration_ns INTEGER NOT NULL,  -- leave - enter
  bytes INTEGER,            -- this rank's send payload; received bytes for receives; NULL: not known
  peer INTEGER,             -- point to point: peer rank in comm; rooted collectives: the root in comm
  tag INTEGER,              -- point to point
  datatype INTEGER,         -- datatype.id; NULL: derived or none
  reduction INTEGER         -- reduction.id; NULL: user-defined or none
);

-- Calls that were entered and not left when the process ended, or when the run was read.
CREATE TABLE open_call (
  process INTEGER NOT NULL,   -- process.id
  thread INTEGER NOT NULL,    -- thread.thread
  op INTEGER NOT NULL,        -- op.id
  comm INTEGER,               -- communicator.id
  seq INTEGER,                -- as event.seq; of waiting calls (MPI_Wait, ...): the newest collective that they wait for
  region INTEGER NOT NULL,    -- region.id
  site INTEGER,               -- site.id
  step INTEGER,               -- step number
  start_ns INTEGER NOT NULL,  -- enter
  bytes INTEGER NOT NULL,     -- as event.bytes, as far as known at enter
  peer INTEGER,               -- as event.peer
  tag INTEGER                 -- as event.tag
);

-- Operations that flight recorders of PyTorch remembered when they were dumped: the last ones that each rank enqueued (ddl import flight-recorder); and what
-- ranks launched last by NCCL's RAS, where they differ (ddl import nccl-ras).
CREATE TABLE flight_entry (
  id INTEGER PRIMARY KEY,       -- grouped by process, in the order of record
  process INTEGER NOT NULL,     -- process.id
  record INTEGER NOT NULL,      -- number of the operation on its rank: the order in which the host enqueued them
  comm INTEGER NOT NULL,        -- communicator.id of its process group
  seq INTEGER,                  -- number of the collective on the group, equal on all members; of messages: of collectives enqueued before it. NULL: not told
  p2p_seq INTEGER,              -- of messages: number on the group, counted by each rank for itself; NULL: not told, or no message
  op_id INTEGER,                -- number of all operations on the group, batched ones counted singly; NULL: not told
  op TEXT NOT NULL,             -- as PyTorch names it: all_reduce, _all_gather_base, send, recv, coalesced (behind the batched ones), ...
  peer INTEGER,                 -- of send and recv: the other rank; NULL: none, or not told
  is_message INTEGER NOT NULL,  -- 1: point to point
  state TEXT NOT NULL,          -- scheduled, started (where events are timed) or completed; batched ones have that of the whole; RAS: launched
  open INTEGER NOT NULL,        -- 1: not completed when the recorder was dumped
  retired INTEGER NOT NULL,     -- 1: PyTorch no longer watched it
  created_ns INTEGER,           -- when the host enqueued it; NULL: not told
  started_ns INTEGER,           -- when it was seen to have started; NULL: not told
  completed_ns INTEGER,         -- when it was seen to have completed; NULL: not told
  timeout_ms INTEGER,           -- of its group; NULL: not told
  input_sizes TEXT,             -- of its tensors: [[8192, 1]]; NULL: not told
  output_sizes TEXT,            -- likewise
  input_elements TEXT,          -- of each tensor, with blanks between; NULL: not told
  output_elements TEXT,         -- likewise
  input_types TEXT,             -- of each tensor: BFloat16, ...; NULL: not told
  output_types TEXT,            -- likewise
  stack INTEGER                 -- flight_stack.id; NULL: not told
);

-- Flight recorders' counts for each group of each rank.
CREATE TABLE flight_status (
  process INTEGER NOT NULL,  -- process.id
  comm INTEGER NOT NULL,     -- communicator.id
  enqueued INTEGER,          -- number of the last operation that the host enqueued; of a group with messages it may be a message's
  started INTEGER,           -- likewise started; -1: none, or not timed
  completed INTEGER,         -- likewise completed; -1: none
  PRIMARY KEY (process, comm)
) WITHOUT ROWID;

-- Call stacks in dumps of flight recorders.
CREATE TABLE flight_stack (
  id INTEGER PRIMARY KEY,  -- 1, 2, ...
  frames TEXT NOT NULL     -- function (file:line), innermost first, with < between
);

-- Stalls that the watch of `ddl record --stall` told while the job ran: no rank had finished a call or a step for that long, or some waited that long for others that went on.
CREATE TABLE stall (
  id INTEGER PRIMARY KEY,     -- 1, 2, ... in the order of telling
  world INTEGER NOT NULL,     -- process.world
  kind TEXT NOT NULL,         -- stall: no rank finished anything; waiting: some ranks waited while others went on
  told_ns INTEGER NOT NULL,   -- when it was told
  since_ns INTEGER NOT NULL,  -- the last call or step that any rank finished; waiting: when the call was entered
  limit_ns INTEGER NOT NULL,  -- --stall
  call TEXT,                  -- the collective that the others wait in: operation, number, group; NULL: no collective
  sentence TEXT NOT NULL,     -- as it was told
  action TEXT,                -- taken by --on-stall: abort, or its command; NULL: none
  resumed_ns INTEGER          -- when something was finished again; NULL: not before the job ended
);

-- Ranks at the time of a stall.
CREATE TABLE stall_rank (
  stall INTEGER NOT NULL,  -- stall.id
  rank INTEGER NOT NULL,   -- rank in MPI_COMM_WORLD
  process INTEGER,         -- process.id; NULL: it left no spool
  role TEXT NOT NULL,      -- missing: others wait for it; waiting: in the call; other
  in_call TEXT,            -- the call that it sat in; NULL: none that is recorded
  state TEXT,              -- of its main thread: runs, sleeps, in uninterruptible sleep, stopped, gone; NULL: not known (another host)
  cpu_ratio REAL,          -- of one core that its main thread had used since the look before; NULL: not known
  python_why TEXT,         -- why no Python stack is known; NULL: one is
  c_why TEXT,              -- why no C stack is known; NULL: one is
  PRIMARY KEY (stall, rank)
) WITHOUT ROWID;

-- Stacks of the processes of a stall's ranks on the host of `ddl record`: all threads of Python, the main thread in C; of ranks that did not come also the main
-- threads of processes that they started, such as a loader's workers.
CREATE TABLE stall_stack (
  stall INTEGER NOT NULL,   -- stall.id
  rank INTEGER NOT NULL,    -- rank in MPI_COMM_WORLD
  language TEXT NOT NULL,   -- python or c
  position INTEGER NOT NULL,  -- 0: the main thread
  thread TEXT NOT NULL,     -- main, Python's name for it (its pthread_t), or 'worker PID'
  frames TEXT NOT NULL,     -- function (file:line), innermost first, with < between
  PRIMARY KEY (stall, rank, language, position)
) WITHOUT ROWID;

-- Steps of each process, from annotations; of processes in inferred_steps by the analyzer.
CREATE TABLE step (
  process INTEGER NOT NULL,   -- process.id
  thread INTEGER NOT NULL,    -- thread that opened the step
  step INTEGER NOT NULL,      -- number given by the program
  start_ns INTEGER NOT NULL,  -- begin
  duration_ns INTEGER,        -- NULL: never ended
  mpi_ns INTEGER,             -- inside MPI calls of the same thread; NULL: never ended, or inferred
  measured INTEGER NOT NULL DEFAULT 1  -- 1: the use of its number that counts, the first that ended; 0: another one, which other tables know nothing of: what lies in it is in no step
);

-- Times of the training thread so far, in processes whose MPI calls come from background threads: sampled where their
-- collectives begin and where those calls end, at most every half millisecond, as far as the window kept them.
CREATE TABLE thread_sample (
  process INTEGER NOT NULL,  -- process.id; which thread: process_fact training_thread, a thread id
  at_ns INTEGER NOT NULL,    -- when
  cpu_ns INTEGER NOT NULL,   -- on a CPU, since the thread began; of imported traces of PyTorch over Gloo: in operators
  ready_ns INTEGER,          -- ready to run, without a CPU; NULL: the kernel does not tell
  spun_ns INTEGER NOT NULL,  -- of both, waiting for another thread in a loop of sched_yield
  sleeps_in TEXT,            -- the system call that it was asleep in: clock_nanosleep, futex, ...; NULL: not asked, as it did something, or not known
  PRIMARY KEY (process, at_ns)
) WITHOUT ROWID;

-- Small bitwise ANDs by MPI_Allreduce in background threads, by which ranks agree what they reduce next.
CREATE TABLE agreement (
  process INTEGER NOT NULL,      -- process.id
  comm INTEGER NOT NULL,         -- communicator.id
  seq INTEGER NOT NULL,          -- event.seq
  own_bits INTEGER NOT NULL,     -- bits set by this rank: tensors that it has ready, and a few of status
  agreed_bits INTEGER NOT NULL,  -- bits set in the result: tensors that all ranks have ready
  PRIMARY KEY (process, comm, seq)
) WITHOUT ROWID;

-- Operations of Horovod as its timeline tells them (ddl record --horovod-timeline): tensors that were fused are one.
CREATE TABLE horovod_operation (
  id INTEGER PRIMARY KEY,     -- 1, 2, ... in the order of their ends
  op TEXT NOT NULL,           -- ALLREDUCE, ALLGATHER, BROADCAST, ...
  name TEXT NOT NULL,         -- name of a tensor, and how many more there are; layer of the collective
  tensors INTEGER NOT NULL,   -- how many were fused
  bytes INTEGER,              -- of all of them on one rank; NULL: the timeline does not tell (broadcasts)
  start_ns INTEGER NOT NULL,  -- rank 0 began it, by its clock
  end_ns INTEGER NOT NULL,    -- rank 0 had done all of it
  comm INTEGER,               -- event.comm of the collective that moved its data; NULL: none was recorded
  seq INTEGER                 -- event.seq of it
);

-- When ranks had all tensors of such an operation ready, as rank 0 heard: a cycle of coordination later at most.
CREATE TABLE horovod_ready (
  operation INTEGER NOT NULL,  -- horovod_operation.id
  rank INTEGER NOT NULL,       -- process.rank
  ready_ns INTEGER NOT NULL,   -- when, by the clock of rank 0
  PRIMARY KEY (operation, rank)
) WITHOUT ROWID;

-- The health of nodes, about once a second, as one process of each told it: counters of network interfaces (rx_bytes, tx_bytes, errors, since the host
-- started) and InfiniBand ports; of GPUs sm_mhz, memory_mhz, throttle_reasons (bits of NVML), power_watts, temperature_celsius, memory_used_bytes,
-- memory_total_bytes, busy_ratio, pcie_tx_bytes_per_second, pcie_rx_bytes_per_second, nvlink_tx_bytes, nvlink_rx_bytes (since the driver started).
CREATE TABLE node_sample (
  process INTEGER NOT NULL,  -- process.id of the process that took it
  time_ns INTEGER NOT NULL,  -- when
  device TEXT NOT NULL,      -- eth0, mlx5_0/1, gpu BUS-ID
  name TEXT NOT NULL,        -- see above
  value REAL NOT NULL        -- the number
);

-- Counters that were asked for (ddl record --counters), in each process.
CREATE TABLE counter (
  process INTEGER NOT NULL,  -- process.id
  number INTEGER NOT NULL,   -- 0, 1, ... in the order of --counters
  name TEXT NOT NULL,        -- PAPI_TOT_INS, page-faults, ...
  source TEXT,               -- papi, getrusage or clock_gettime; NULL: none has it
  why TEXT,                  -- then why not
  PRIMARY KEY (process, number)
) WITHOUT ROWID;

-- Growth of counters in each region, on the thread that opened it, whole run. Inclusive of ranges inside, as range_profile.
CREATE TABLE counter_profile (
  process INTEGER NOT NULL,  -- process.id
  region INTEGER NOT NULL,   -- region.id
  counter INTEGER NOT NULL,  -- counter.number
  calls INTEGER NOT NULL,    -- ranges in which it was read
  value INTEGER NOT NULL     -- sum over them
);

-- The same range by range, as far as the window kept them.
CREATE TABLE counter_event (
  process INTEGER NOT NULL,  -- process.id
  thread INTEGER NOT NULL,   -- thread.thread
  region INTEGER NOT NULL,   -- region.id
  step INTEGER,              -- step number
  start_ns INTEGER NOT NULL, -- begin of the range
  duration_ns INTEGER NOT NULL,  -- end - begin
  counter INTEGER NOT NULL,  -- counter.number
  value INTEGER NOT NULL     -- its growth
);

-- Phases, layers and operators as they happened.
CREATE TABLE range_event (
  process INTEGER NOT NULL,   -- process.id
  thread INTEGER NOT NULL,    -- thread.thread
  region INTEGER NOT NULL,    -- region.id
  step INTEGER,               -- step number
  start_ns INTEGER NOT NULL,  -- begin
  duration_ns INTEGER NOT NULL,  -- end - begin
  mpi_ns INTEGER NOT NULL,    -- of which inside MPI calls of the same thread; 0 for NVTX ranges that another thread ended
  seq INTEGER,                -- number of the operator's node in the backward graph (emit_nvtx): the same forwards and backwards; NULL: none was given
  op_id INTEGER               -- number of the operator's call (emit_nvtx); NULL: none was given
);

-- Numbers that the program reported with ddl_value(), NVTX marks, and payloads of NVTX events.
CREATE TABLE value (
  process INTEGER NOT NULL,  -- process.id
  step INTEGER,              -- step number
  time_ns INTEGER NOT NULL,  -- when
  name TEXT NOT NULL,        -- samples, batch, loss, ...
  value REAL                 -- the number; NULL: the program reported NaN, or marked the moment without a number
);

-- GPU activities by CUPTI (or NCCL, for its own collectives). Layer and step are those of the launching call.
CREATE TABLE gpu_event (
  id INTEGER PRIMARY KEY,     -- grouped by process, in the order in which it became known
  process INTEGER NOT NULL,   -- process.id
  kind INTEGER NOT NULL,      -- 1 kernel, 2 memcpy, 3 memset, 4 synchronisation (the host or a stream waited for the device), 5 overhead of the tracing, 6 whole launch of a CUDA graph, 7 collective as NCCL timed it
  name INTEGER NOT NULL,      -- gpu_name.id
  device INTEGER,             -- the process's number of the device; NULL: of none (synchronisation, overhead)
  context INTEGER,            -- CUDA context, by CUPTI's number; NULL as device
  stream INTEGER,             -- by CUPTI's number; NULL: all of the context, or none
  region INTEGER NOT NULL,    -- region.id in which it was launched; of nodes of a CUDA graph: captured
  step INTEGER,               -- step in which it was launched (inferred steps: in which it began); NULL: outside steps
  thread INTEGER,             -- thread.thread that launched it; NULL: not known
  start_ns INTEGER NOT NULL,  -- begin, by the device's stamps mapped to the run's axis
  duration_ns INTEGER NOT NULL,  -- end - begin
  bytes INTEGER,              -- copied or set; NULL: neither
  copy TEXT,                  -- memcpy: HtoD, DtoH, DtoD, PtoP, HtoH, ... (A: array)
  source TEXT,                -- memcpy: pageable, pinned, device, array, managed; NULL: not known
  destination TEXT,           -- memcpy, memset: likewise
  peer_device INTEGER,        -- memcpy PtoP: the other device: that receives, or, if this one does, that sends
  correlation INTEGER NOT NULL,  -- CUPTI's number of the launching call; 0: none
  graph_node INTEGER,         -- node of a CUDA graph; NULL: none
  comm INTEGER,               -- communicator.id of the NCCL collective that it carries out; NULL: none
  seq INTEGER,                -- number of that collective on the communicator
  launch_ns INTEGER,          -- the launching call was entered; NULL: it was not recorded
  launch_duration_ns INTEGER,  -- and left
  comm_rank INTEGER           -- rank on comm that this was done for: a process may have several; NULL: no comm, or not known
);

-- NVLinks of a host's GPUs, as NVML told the process of it that samples the node.
CREATE TABLE nvlink (
  host INTEGER NOT NULL,  -- host.id
  bus TEXT NOT NULL,      -- gpu.bus
  peer TEXT NOT NULL,     -- where the links lead to: another gpu.bus, cpu, or switch (of which all GPUs of the host hang on the same ones)
  link TEXT NOT NULL,     -- NVLink 4.0 x18: version, and how many are up
  link_bytes_per_second REAL,  -- bandwidth of all together in each direction: 20 GB/s each of NVLink 1, 25 of 2 to 4, 50 of 5; NULL: not known
  PRIMARY KEY (host, bus, peer)
) WITHOUT ROWID;

-- Streams that wait for others (cudaStreamWaitEvent): work given to `stream` after the call `correlation` begins only when all work given to `on_stream` before
-- `on_correlation`, the call that recorded the event, is done.
CREATE TABLE stream_wait (
  process INTEGER NOT NULL,      -- process.id
  context INTEGER NOT NULL,      -- of the stream that waits, as in gpu_event
  stream INTEGER NOT NULL,       -- that waits, as in gpu_event
  correlation INTEGER NOT NULL,  -- CUPTI's number of cudaStreamWaitEvent; calls are numbered in their order
  on_context INTEGER NOT NULL,   -- of the stream that is waited for
  on_stream INTEGER NOT NULL,    -- that is waited for
  on_correlation INTEGER NOT NULL  -- CUPTI's number of cudaEventRecord
);

-- Names in gpu_event: kernels (C++ names as people write them), and [CUDA memcpy HtoD] and the like.
CREATE TABLE gpu_name (
  id INTEGER PRIMARY KEY,     -- 1, 2, ...
  name TEXT NOT NULL UNIQUE,  -- void gemm<float>(float*, ...), [CUDA memset], ...
  class TEXT NOT NULL         -- of kernels by their names: communication, compute, or unclassified, which counts as computing; copy (memcpy, memset), other
);

-- GPUs that processes used, as the driver describes them. One GPU may be several rows: each process numbers them for itself.
CREATE TABLE gpu (
  process INTEGER NOT NULL,  -- process.id
  device INTEGER NOT NULL,   -- the process's number of it
  name TEXT,                 -- NVIDIA H200
  bus TEXT,                  -- its place on the PCI bus: 0000:3b:00.0. With the host it tells GPUs apart
  link TEXT,                 -- how it hangs on the host: PCIe 5.0 x16, the slowest hop up to the root; NULL: not known
  link_bytes_per_second REAL,  -- bandwidth in each direction, by its line rate and encoding
  PRIMARY KEY (process, device)
) WITHOUT ROWID;

-- How NCCL carried out the events of kind 4.
CREATE TABLE nccl_collective (
  event INTEGER PRIMARY KEY,     -- event.id
  source TEXT NOT NULL,          -- source of the times: kernel (CUPTI) or profiler (NCCL's own timers, whose place in time is approximate)
  algorithm TEXT,                -- RING, TREE, NVLS, ...; NULL: NCCL's profiler did not tell
  protocol TEXT,                 -- LL, LL128, SIMPLE; NULL as algorithm
  channels INTEGER,              -- NULL as algorithm
  fused INTEGER NOT NULL,        -- collectives in the same kernel, this one included; if more than 1, its times are a share of the kernel's
  kernel_start_ns INTEGER NOT NULL,     -- of the whole kernel
  kernel_duration_ns INTEGER NOT NULL,  -- of the whole kernel
  share_begin INTEGER NOT NULL,  -- this one's share is [share_begin, share_end) of share_total bytes (S of all in the kernel)
  share_end INTEGER NOT NULL,    -- as share_begin
  share_total INTEGER NOT NULL,  -- as share_begin
  comm_rank INTEGER,             -- rank on the communicator that did it: a process may have several, one per GPU; NULL: not known
  initial_sync_ns INTEGER,       -- nccl_phase.initial_sync_ns; NULL: NCCL did not tell
  final_sync_ns INTEGER,         -- as initial_sync_ns
  user_tag INTEGER               -- the number by which the program tagged the call (NCCL 2.31); NULL: none
);

-- Phases of a kernel on symmetric memory by NCCL's profiler (version 7, NCCL 2.31): a second estimate of its waiting, beside the
-- one by when the members began. Not verified on a GPU (docs/gpu-validation.md).
CREATE TABLE nccl_phase (
  gpu_event INTEGER PRIMARY KEY,     -- gpu_event.id, of kind 7
  initial_sync_ns INTEGER NOT NULL,  -- until it had met the other ranks: of the channel that this took longest
  final_sync_ns INTEGER NOT NULL     -- in which it met them again at the end, as initial_sync_ns
);

-- ------------------------------------------------------------------------------------------------ filled by the analyzer

-- One row per rank and collective instance that the window kept: its waiting and its transfer (specification.md "Waiting").
CREATE TABLE collective (
  event INTEGER PRIMARY KEY,  -- event.id
  bytes INTEGER,              -- S of nccl-tests: size of the whole operation; NULL: not known without the missing members
  wait_ns INTEGER,            -- waiting for other ranks; NULL: see why. wait_ns + xfer_ns = duration_ns
  xfer_ns INTEGER,            -- the rest
  wait_method TEXT,           -- max-start (W2), min-duration (W3), max-post (non-blocking: xfer_ns is an upper bound), late-root (W9), early-reduce (W8, W12), lower-bound (J7: members left no record; wait_ns is at least, xfer_ns at most so long)
  min_duration_wait_ns INTEGER,  -- the same wait by W3, clock-free, for symmetric blocking collectives; checks wait_ns
  sigma_ns REAL,              -- clock sigma of wait_ns; 0 within one host
  why TEXT                    -- reason of a NULL: PARTIAL_RANKS, CLOCK_UNTRUSTED, NOT_APPLICABLE
);

-- Waiting ranks and the late rank (W10) in collectives.
CREATE TABLE blame (
  world INTEGER NOT NULL,  -- process.world
  late INTEGER NOT NULL,   -- rank that entered last, or the root that was waited for
  waiter INTEGER NOT NULL, -- rank that waited
  instances INTEGER NOT NULL,  -- collectives in which it did
  wait_ns INTEGER NOT NULL, -- sum
  sigma_ns REAL NOT NULL   -- clock sigma of wait_ns, as if all errors went one way; 0 within one host
);

-- One row per message of the window: its send and receive, and the waiting of either (specification.md W5, W6). Sends and receives whose other
-- end cannot be told for sure have a row of their own, with NULL for the other end. MPI_PROC_NULL is not a message.
CREATE TABLE message (
  send INTEGER,              -- event.id of the send: its request if it is non-blocking, else the call
  receive INTEGER,           -- event.id of the receive, likewise; of matched receives (MPI_Mrecv) the probe that took the message
  send_call INTEGER,         -- event.id of the call in which the send completed (itself, or MPI_Wait ...), where the sender may wait; NULL: none was seen
  receive_call INTEGER,      -- event.id of the call in which the receive completed, or of the MPI_Probe before it if the waiting was there; NULL: none was seen, or one that does not wait (MPI_Test ...)
  late_sender_wait_ns INTEGER,    -- waiting of the receiver in receive_call for the send to begin; NULL: see why. Among several messages that complete in one call the longest wait counts, the others have 0
  late_receiver_wait_ns INTEGER,  -- waiting of the sender in send_call for the receive to be posted; likewise; a late sender counts if it is as long
  sigma_ns REAL,             -- clock sigma of both; 0 within one host; NULL: unknown
  why TEXT                   -- reason of a NULL: PARTIAL_RANKS (the other end, or all that comes before it, was not recorded), CLOCK_UNTRUSTED, NOT_APPLICABLE (another world, or several threads in one channel)
);

-- Waiting for messages by waiter and late rank, summed over the run.
CREATE TABLE message_blame (
  world INTEGER NOT NULL,   -- process.world
  late INTEGER NOT NULL,    -- rank that sent late, or was late to receive
  waiter INTEGER NOT NULL,  -- rank that waited
  kind TEXT NOT NULL,       -- late_sender or late_receiver
  calls INTEGER NOT NULL,   -- calls in which it did
  wait_ns INTEGER NOT NULL, -- sum
  sigma_ns REAL NOT NULL    -- clock sigma of wait_ns, as if all errors went one way; 0 within one host
);

-- The messages of each process that has any, over the events that the window kept.
CREATE TABLE message_part (
  process INTEGER PRIMARY KEY,   -- process.id
  sends INTEGER NOT NULL,        -- messages that it sent
  receives INTEGER NOT NULL,     -- messages that it received
  unmatched INTEGER NOT NULL,    -- of both, those whose other end could not be told for sure
  call_ns INTEGER NOT NULL,      -- inside calls in which messages completed and whose waiting is known
  late_sender_wait_ns INTEGER NOT NULL,    -- of which waiting for a send to begin
  late_receiver_wait_ns INTEGER NOT NULL,  -- of which waiting for a receive to be posted
  unsplit_ns INTEGER NOT NULL,   -- inside calls in which messages completed and whose waiting is not known
  why TEXT,                      -- why it is not known: PARTIAL_RANKS, CLOCK_UNTRUSTED, NOT_APPLICABLE (of several reasons one)
  sigma_ns REAL NOT NULL         -- clock sigma of both waits together, as if all errors went one way; 0 within one host
);

-- Processes that mark no steps, and whose steps were found by the repetition of their collectives. Their steps hold what lies between the last collective
-- of one repetition and that of the next.
CREATE TABLE inferred_steps (
  process INTEGER PRIMARY KEY,  -- process.id
  comm INTEGER NOT NULL,        -- communicator.id whose collectives repeat
  period INTEGER NOT NULL,      -- collectives in a repetition
  agreement REAL NOT NULL       -- of the sequence with itself one period later, corrected for chance (kappa); 1: it repeats exactly
);

-- Times of inferred layers in inferred steps.
CREATE TABLE inferred_layer (
  process INTEGER NOT NULL,     -- process.id
  region INTEGER NOT NULL,      -- region.id, of kind inferred
  calls INTEGER NOT NULL,       -- calls
  compute_ns INTEGER NOT NULL,  -- outside MPI, from the call before on the same thread to this one
  exposed_ns INTEGER NOT NULL   -- inside these calls
);

-- Stages of pipelines, as the order of messages within steps tells them: one row per process that is one (specification.md "Pipeline bubbles").
CREATE TABLE pipeline (
  process INTEGER PRIMARY KEY,   -- process.id
  first INTEGER NOT NULL,        -- process.id of the first stage of the same pipeline
  stage INTEGER NOT NULL,        -- 0, 1, ... in the direction of forward
  stages INTEGER NOT NULL,       -- devices in a row
  micro_batches INTEGER NOT NULL,  -- of each step
  chunks INTEGER NOT NULL        -- interleaved: chunks of the model on each device; else 1
);

-- Where each step went (specification.md "Time sets" and "Computing and communication", for CPU jobs). compute_ns + exposed_ns + idle_ns = duration_ns.
CREATE TABLE step_part (
  process INTEGER NOT NULL,     -- process.id
  step INTEGER NOT NULL,        -- step.step
  compute_ns INTEGER NOT NULL,  -- |K|: outside MPI calls
  comm_ns INTEGER,              -- |C|: union of MPI calls and requests in flight; NULL: the step's events were not kept
  exposed_ns INTEGER NOT NULL,  -- |C \ K|: inside MPI calls
  wait_ns INTEGER,              -- the waiting in exposed_ns; NULL: not known
  xfer_ns INTEGER,              -- exposed_ns - wait_ns
  idle_ns INTEGER NOT NULL,     -- |I|: 0 on CPU jobs, where time outside MPI counts as compute
  why TEXT,                     -- reason of a NULL: NO_DATA, PARTIAL_RANKS, CLOCK_UNTRUSTED, NOT_APPLICABLE; PARTIAL_RANKS beside a wait_ns: that is a lower bound
  input_ns INTEGER,             -- in ranges of the step's thread that load data: of idle_ns, and of compute_ns what is more; NULL: the run names none, or they were not kept
  bubble_ns INTEGER,            -- of wait_ns: for other stages of the same pipeline; NULL: in no pipeline, or wait_ns is NULL
  sigma_ns REAL,                -- clock sigma of wait_ns and xfer_ns: sum over its waits, as if all errors went one way; 0 within one host; NULL as wait_ns
  PRIMARY KEY (process, step)
) WITHOUT ROWID;

-- The same for the whole run of each process, from leaving MPI_Init to entering MPI_Finalize (or its last sign of life); of ranks that use Gloo and not MPI from start_ns to end_ns. For jobs without steps.
CREATE TABLE rank_part (
  process INTEGER PRIMARY KEY,  -- process.id
  duration_ns INTEGER NOT NULL, -- compute_ns + exposed_ns + idle_ns
  compute_ns INTEGER NOT NULL,  -- as step_part
  comm_ns INTEGER,              -- as step_part; NULL: not all events were kept
  exposed_ns INTEGER NOT NULL,  -- as step_part
  wait_ns INTEGER,              -- as step_part
  xfer_ns INTEGER,              -- as step_part
  idle_ns INTEGER NOT NULL,     -- as step_part
  why TEXT,                     -- as step_part
  sigma_ns REAL                 -- as step_part
);

-- Where each step of each GPU went, over all its streams (specification.md "Time sets" to "Idling of GPUs"). compute_ns + exposed_comm_ns + exposed_copy_ns + idle_ns = duration_ns, and the kinds of
-- idling add up to idle_ns.
CREATE TABLE gpu_part (
  process INTEGER NOT NULL,      -- process.id
  device INTEGER NOT NULL,       -- gpu_event.device
  step INTEGER,                  -- step.step; NULL: the whole run of the process, from leaving MPI_Init (or its first sign of life) to entering MPI_Finalize (or its last)
  duration_ns INTEGER NOT NULL,  -- of the window
  compute_ns INTEGER NOT NULL,   -- |K|: some kernel computes
  comm_ns INTEGER NOT NULL,      -- |C|: some kernel of a collective runs
  wait_ns INTEGER,               -- of which nothing but waiting for other ranks inside the kernels: |C| less the transfers; NULL: see why
  copy_ns INTEGER NOT NULL,      -- |M|: some copy or memset runs
  exposed_comm_ns INTEGER NOT NULL,  -- |C \ K|
  exposed_wait_ns INTEGER,       -- of which waiting for other ranks inside the kernels; NULL: see why
  exposed_copy_ns INTEGER NOT NULL,  -- |M \ (K u C)|
  active_ns INTEGER NOT NULL,    -- |K u C u M|
  active_xfer_ns INTEGER,        -- the same without the waiting inside kernels of collectives; NULL: see why
  idle_ns INTEGER NOT NULL,      -- |I|: nothing runs
  idle_input_ns INTEGER NOT NULL,   -- of which: while the host loaded data, on the thread of its steps
  idle_host_ns INTEGER NOT NULL,    -- the host had not launched the next operation yet
  idle_launch_ns INTEGER NOT NULL,  -- delay of a launch (less than 20 us)
  idle_kernel_ns INTEGER NOT NULL,  -- between two kernels that were both launched (less than 30 us)
  idle_dep_comm_ns INTEGER NOT NULL,  -- the next operation was launched, and waited for a collective of another GPU's stream (stream_wait)
  idle_dep_copy_ns INTEGER NOT NULL,  -- likewise for a copy
  idle_other_ns INTEGER NOT NULL,   -- the rest: the awaited operation, or the launch of the next one, is unknown
  why TEXT,                      -- reason of a NULL: PARTIAL_RANKS, CLOCK_UNTRUSTED
  sigma_ns REAL                  -- clock sigma of the waiting inside kernels: sum over them, as if all errors went one way; NULL as wait_ns
);
CREATE INDEX gpu_part_process ON gpu_part(process, step);

-- Times of each GPU by layer and step: lengths of unions over its streams, not sums.
CREATE TABLE gpu_layer_part (
  process INTEGER NOT NULL,      -- process.id
  device INTEGER NOT NULL,       -- gpu_event.device
  step INTEGER,                  -- step in which it was launched; NULL: outside steps
  layer TEXT,                    -- region.layer; NULL: outside layers
  phase TEXT,                    -- region.phase; NULL: outside phases
  compute_ns INTEGER NOT NULL,   -- some kernel of the layer computed
  comm_ns INTEGER NOT NULL,      -- some kernel of a collective that the layer launched ran
  copy_ns INTEGER NOT NULL,      -- some copy or memset of the layer ran
  exposed_comm_ns INTEGER NOT NULL  -- of comm_ns, while no kernel of the same step computed on this GPU
);

-- GPUs of each process by the rules of HTA (github.com/facebookresearch/HolisticTraceAnalysis), for comparison with it: all devices together.
-- idle_ns + compute_ns + non_compute_ns = kernel_time_ns.
CREATE TABLE hta_part (
  process INTEGER NOT NULL,        -- process.id
  whole INTEGER NOT NULL,          -- 1: all GPU activities; 0: those that HTA keeps, v_hta_event
  kernel_time_ns INTEGER NOT NULL, -- from the first begin to the last end of kernels, copies and memsets
  idle_ns INTEGER NOT NULL,        -- of which nothing ran
  compute_ns INTEGER NOT NULL,     -- of which a kernel computed, whatever ran beside it
  non_compute_ns INTEGER NOT NULL, -- the rest
  comm_ns INTEGER NOT NULL,        -- some kernel of a collective ran, by its name
  overlap_ns INTEGER NOT NULL,     -- of which some kernel computed
  PRIMARY KEY (process, whole)
) WITHOUT ROWID;

-- Collectives by operation, communicator and size, over the events that the window kept.
CREATE TABLE collective_group (
  world INTEGER NOT NULL,      -- process.world
  op INTEGER NOT NULL,         -- op.id
  comm INTEGER NOT NULL,       -- communicator.id
  bytes INTEGER,               -- S; NULL: not known
  instances INTEGER NOT NULL,  -- collectives
  step_instances INTEGER NOT NULL,  -- of which inside annotated steps
  calls INTEGER NOT NULL,      -- instances x ranks seen
  time_ns INTEGER NOT NULL,    -- sum of durations over ranks
  min_ns INTEGER NOT NULL,     -- shortest duration
  max_ns INTEGER NOT NULL,     -- longest
  wait_ns INTEGER,             -- sum of waiting over ranks; NULL: no instance could be split
  wait_method TEXT,            -- collective.wait_method of the instances that could be split
  min_duration_wait_ns INTEGER,  -- sum of collective.min_duration_wait_ns over the same calls; NULL: not symmetric or not blocking
  xfer_ns INTEGER,             -- sum of transfer over ranks, of the instances that could be split
  split_calls INTEGER NOT NULL,  -- calls that could be split
  algbw_bytes_per_second REAL,   -- S / median over instances of the transfer time; NULL: see why
  busbw_xfer REAL,             -- bus bandwidth from the transfer time, bytes/s (specification.md "Bandwidths")
  busbw_raw REAL,              -- from the mean duration, waiting included; of symmetric operations also where only some ranks were recorded
  busbw_max REAL,              -- from the longest duration of each instance
  upper_bound INTEGER NOT NULL,  -- 1: non-blocking, xfer_ns is an upper bound (post to completion) and tells no bandwidth
  why TEXT,                    -- reason of a NULL bandwidth
  bus_factor REAL,             -- bus bandwidth over S / time, with the communicator's own size; NULL: not defined
  completion_ns INTEGER,       -- symmetric, with trusted clocks: sum over ranks of the time after the first one left (Scalasca's N x N completion); NULL: else
  sigma_ns REAL                -- clock sigma of wait_ns: sum over its calls, as if all errors went one way; NULL as wait_ns
);

-- Results of the metrics (analyzer/metrics/*.sql).
CREATE TABLE metric (
  id TEXT NOT NULL,     -- ccr_xfer, load_balance, ...
  world INTEGER NOT NULL,  -- process.world
  value REAL,           -- NULL: see why
  unit TEXT NOT NULL,   -- ns, ratio, bytes/s, ...
  why TEXT,             -- reason of a NULL
  lo REAL,              -- bootstrap 95 % interval of the median over steps; NULL: fewer than five steps, an end is infinite, or not a per-step metric
  hi REAL,              -- its upper end
  p10 REAL,             -- 10th percentile over steps (nearest rank); NULL: infinite, or not a per-step metric
  p90 REAL,             -- 90th percentile
  steps INTEGER,        -- steps that its median is over, those of which only the denominator is 0 among them; NULL: not a per-step metric
  sigma REAL,           -- error of the value through the clocks of hosts (1 sigma, in its unit, as if all errors went one way); 0 within one host; NULL: it compares no clocks
  PRIMARY KEY (id, world)
) WITHOUT ROWID;

-- Results of the metrics that each rank has; metric.value is the worst of them.
CREATE TABLE rank_metric (
  id TEXT NOT NULL,        -- metric.id
  world INTEGER NOT NULL,  -- process.world
  rank INTEGER NOT NULL,   -- process.rank
  value REAL,              -- NULL: see why
  why TEXT,                -- reason of a NULL
  sigma REAL,              -- as metric.sigma
  PRIMARY KEY (id, world, rank)
) WITHOUT ROWID;

-- Findings, most important first.
CREATE TABLE finding (
  position INTEGER PRIMARY KEY,  -- 1, 2, ...
  id TEXT NOT NULL,         -- straggler, small_collectives, exposed_tail, ...
  sentence TEXT NOT NULL,   -- one line; writes "rank N"
  world INTEGER,            -- process.world
  rank INTEGER,             -- the rank to blame, if it is one
  saving_ns INTEGER,        -- per step, if fixed; per run when there are no steps
  share_ratio REAL,         -- saving_ns / mean of the steps that it is over: where something is late since a step, those from then on
  saving_bound TEXT,        -- of both: lower (at least that, since ranks left no record), upper (at most that); NULL: neither
  confidence TEXT NOT NULL, -- sure, likely, maybe
  evidence TEXT NOT NULL,   -- observations, with numbers
  evidence_sql TEXT,        -- a query that shows the rows
  try TEXT NOT NULL         -- advice
);

-- ------------------------------------------------------------------------------------------------ stable views

-- Processes with their host's name, their number on that host as the launcher said, and the CPUs and NUMA nodes that they could run on when they began.
CREATE VIEW v_rank AS
SELECT p.world, p.rank, h.name AS host, p.pid, p.world_size, p.start_ns, p.end_ns, p.end_ns - p.start_ns AS duration_ns, p.init_ns, p.finalize_ns, p.ended,
       p.abort_code, p.thread_level, p.clock, p.exe, p.command, p.spool, p.spool_bytes, p.id AS process, p.host AS node, f.local_rank, f.cpus, f.numa,
       p.overhead_ns
FROM process p JOIN host h ON h.id = p.host
     LEFT JOIN (SELECT process, CAST(max(CASE key WHEN 'local_rank' THEN value END) AS INTEGER) AS local_rank, max(CASE key WHEN 'cpus' THEN value END) AS cpus,
                       max(CASE key WHEN 'numa' THEN value END) AS numa FROM process_fact GROUP BY process) f ON f.process = p.id;

-- Every operation of every rank, exact for the whole run.
CREATE VIEW v_call AS
SELECT p.world, p.rank, o.name AS op, c.label AS comm, sum(f.calls) AS calls, iif(count(f.bytes) = count(*), sum(f.bytes), NULL) AS bytes, sum(f.time_ns) AS time_ns, min(f.min_ns) AS min_ns,
       max(f.max_ns) AS max_ns, max(f.time_estimated) AS time_estimated
FROM profile f JOIN process p ON p.id = f.process JOIN op o ON o.id = f.op LEFT JOIN communicator c ON c.id = f.comm
GROUP BY p.world, p.rank, p.id, f.op, f.comm;

-- One row per rank and collective instance of the window. source: call (MPI), gloo (in both the times are those of the call), kernel or profiler (NCCL; the times are those
-- of the device). fused: if more than 1, the row is a share of a kernel that carried out so many collectives. axis: communicator_axis.axis. initial_sync_ns: a
-- second estimate of wait_ns, by the phases that NCCL 2.31 tells of kernels on symmetric memory; not verified on a GPU.
CREATE VIEW v_collective AS
SELECT p.world, p.rank, e.step, r.layer, o.name AS op, c.label AS comm, c.size AS comm_size, e.seq, k.bytes, e.start_ns AS enter_ns,
       e.start_ns + e.duration_ns AS leave_ns, e.duration_ns, k.wait_ns, k.xfer_ns, k.wait_method, k.min_duration_wait_ns, k.why, r.phase, e.bytes AS payload_bytes, e.id AS event,
       CASE WHEN e.kind = 4 THEN n.source WHEN o.name LIKE 'gloo::%' THEN 'gloo' ELSE 'call' END AS source, n.algorithm, n.protocol, n.channels, n.fused, n.comm_rank, a.axis, n.initial_sync_ns, n.final_sync_ns, n.user_tag
FROM collective k JOIN event e ON e.id = k.event JOIN process p ON p.id = e.process JOIN op o ON o.id = e.op JOIN communicator c ON c.id = e.comm
     JOIN region r ON r.id = e.region LEFT JOIN nccl_collective n ON n.event = e.id LEFT JOIN communicator_axis a ON a.communicator = c.id;

-- One row per message of the window. source and destination are ranks in MPI_COMM_WORLD; send_ns and receive_ns are when it was posted, the ends when the
-- call that completed it was left; step, phase and layer are the receiver's (the sender's, if no receive is known).
CREATE VIEW v_message AS
SELECT coalesce(sp.world, rp.world) AS world, c.label AS comm, coalesce(sp.rank, (SELECT m2.rank FROM communicator_member m2 WHERE m2.communicator = r.comm
         AND m2.comm_rank = r.peer AND m2.side = CASE c.kind WHEN 'inter' THEN (SELECT 1 - m3.side FROM communicator_member m3 WHERE m3.communicator = r.comm
         AND m3.rank = rp.rank) ELSE 0 END)) AS source, coalesce(rp.rank, (SELECT m2.rank FROM communicator_member m2 WHERE m2.communicator = s.comm
         AND m2.comm_rank = s.peer AND m2.side = CASE c.kind WHEN 'inter' THEN (SELECT 1 - m3.side FROM communicator_member m3 WHERE m3.communicator = s.comm
         AND m3.rank = sp.rank) ELSE 0 END)) AS destination, coalesce(s.tag, r.tag) AS tag, coalesce(s.bytes, r.bytes) AS bytes, coalesce(r.step, s.step) AS step,
       g.layer, so.name AS send_op, ro.name AS receive_op, s.start_ns AS send_ns, s.start_ns + s.duration_ns AS send_end_ns, r.start_ns AS receive_ns,
       r.start_ns + r.duration_ns AS receive_end_ns, m.late_sender_wait_ns, m.late_receiver_wait_ns, m.sigma_ns, m.why, g.phase, m.send, m.receive
FROM message m LEFT JOIN event s ON s.id = m.send LEFT JOIN event r ON r.id = m.receive LEFT JOIN process sp ON sp.id = s.process
     LEFT JOIN process rp ON rp.id = r.process LEFT JOIN op so ON so.id = s.op LEFT JOIN op ro ON ro.id = r.op
     LEFT JOIN communicator c ON c.id = coalesce(s.comm, r.comm) LEFT JOIN region g ON g.id = coalesce(r.region, s.region);

-- The messages of each rank, over the events that the window kept.
CREATE VIEW v_message_part AS
SELECT p.world, p.rank, t.sends, t.receives, t.unmatched, t.call_ns, t.late_sender_wait_ns, t.late_receiver_wait_ns, t.unsplit_ns, t.why, t.sigma_ns
FROM message_part t JOIN process p ON p.id = t.process;

-- Waiting ranks and late ranks, over the events that the window kept: kind is collective (symmetric ones), late_sender or late_receiver.
CREATE VIEW v_blame AS
SELECT world, late, waiter, 'collective' AS kind, instances AS calls, wait_ns, sigma_ns FROM blame
UNION ALL SELECT world, late, waiter, kind, calls, wait_ns, sigma_ns FROM message_blame;

-- Where each step of each rank went. measured: as step.measured; of a number that was used before only begin and duration are known.
CREATE VIEW v_step AS
SELECT p.world, p.rank, s.step, s.start_ns, s.duration_ns, t.compute_ns, t.comm_ns, t.exposed_ns, t.wait_ns, t.xfer_ns, t.idle_ns, t.input_ns, t.bubble_ns, t.sigma_ns,
       s.measured
FROM step s JOIN process p ON p.id = s.process LEFT JOIN step_part t ON t.process = s.process AND t.step = s.step AND s.measured;

-- Stages of pipelines; pipeline is the rank of the first stage.
CREATE VIEW v_pipeline AS
SELECT p.world, p.rank, f.rank AS pipeline, l.stage, l.stages, l.micro_batches, l.chunks
FROM pipeline l JOIN process p ON p.id = l.process JOIN process f ON f.id = l.first;

-- Where the run of each rank went, with or without steps.
CREATE VIEW v_rank_part AS
SELECT p.world, p.rank, t.duration_ns, t.compute_ns, t.comm_ns, t.exposed_ns, t.wait_ns, t.xfer_ns, t.idle_ns, t.why, t.sigma_ns
FROM rank_part t JOIN process p ON p.id = t.process;

-- Layers of each rank, exact for the whole run except wait_ns (window only). Times of ranges inside a layer are not its own; a layer that
-- occurs in several places of the tree with the same phase is one row. Where operators of a framework stand for layers, calls are theirs.
-- Inferred layers (inferred = 1) are those of inferred steps only.
CREATE VIEW v_layer AS
WITH inside AS (  -- time of the children of every region
  SELECT g.process, q.parent AS region, sum(g.time_ns) AS time_ns, sum(g.mpi_ns) AS mpi_ns
  FROM range_profile g JOIN region q ON q.id = g.region
  GROUP BY g.process, q.parent
), own AS (  -- own time: inclusive minus that of its children
  SELECT f.process, f.region, f.calls, f.time_ns - coalesce(i.time_ns, 0) AS time_ns, f.mpi_ns - coalesce(i.mpi_ns, 0) AS mpi_ns
  FROM range_profile f LEFT JOIN inside i ON i.process = f.process AND i.region = f.region
), waiting AS (
  SELECT process, region, sum(wait_ns) AS wait_ns, sum(comm_ns) AS comm_ns FROM (
    SELECT e.process, e.region, k.wait_ns, e.duration_ns AS comm_ns FROM collective k JOIN event e ON e.id = k.event
    UNION ALL SELECT e.process, e.region, m.late_sender_wait_ns, NULL FROM message m JOIN event e ON e.id = m.receive_call WHERE m.late_sender_wait_ns > 0
    UNION ALL SELECT e.process, e.region, m.late_receiver_wait_ns, NULL FROM message m JOIN event e ON e.id = m.send_call WHERE m.late_receiver_wait_ns > 0
  ) GROUP BY process, region
)
SELECT p.world, p.rank, r.layer, r.phase, sum(CASE WHEN r.kind = 'layer' OR (r.kind = 'operator' AND u.layer IS NULL) THEN o.calls ELSE 0 END) AS calls, sum(o.time_ns - o.mpi_ns) AS compute_ns,
       sum(w.comm_ns) AS comm_ns, sum(o.mpi_ns) AS exposed_ns, sum(w.wait_ns) AS wait_ns, 0 AS inferred
FROM own o JOIN process p ON p.id = o.process JOIN region r ON r.id = o.region LEFT JOIN region u ON u.id = r.parent LEFT JOIN waiting w ON w.process = o.process AND w.region = o.region
WHERE r.layer IS NOT NULL
GROUP BY p.world, p.rank, p.id, r.layer, r.phase
UNION ALL
SELECT p.world, p.rank, r.layer, NULL, l.calls, l.compute_ns, w.comm_ns, l.exposed_ns, w.wait_ns, 1
FROM inferred_layer l JOIN process p ON p.id = l.process JOIN region r ON r.id = l.region LEFT JOIN waiting w ON w.process = l.process AND w.region = l.region;

-- The health of nodes over the run. growth: of counters, last minus first. throttled: of throttle_reasons, share of the samples with a reason that slows a busy GPU down.
CREATE VIEW v_node AS
SELECT p.world, h.name AS host, s.device, s.name, count(*) AS samples, min(s.value) AS least, avg(s.value) AS mean, max(s.value) AS most, max(s.value) - min(s.value) AS growth,
       CASE WHEN s.name = 'throttle_reasons' THEN avg((CAST(s.value AS INTEGER) & 236) <> 0) END AS throttled, p.host AS node
FROM node_sample s JOIN process p ON p.id = s.process JOIN host h ON h.id = p.host
GROUP BY p.world, p.host, s.device, s.name;

-- Counters of steps, phases and layers of each rank, whole run. A counter that no rank has is one row without region and value, with its reason.
CREATE VIEW v_counter AS
SELECT p.world, p.rank, r.kind, r.layer, r.phase, c.name AS counter, sum(f.calls) AS calls, sum(f.value) AS value, c.source, c.why
FROM counter c JOIN process p ON p.id = c.process LEFT JOIN counter_profile f ON f.process = c.process AND f.counter = c.number LEFT JOIN region r ON r.id = f.region
GROUP BY p.world, p.rank, p.id, c.number, r.kind, r.layer, r.phase;

-- Counters of each step of each rank, as far as the window kept them.
CREATE VIEW v_step_counter AS
SELECT p.world, p.rank, e.step, c.name AS counter, e.value, e.duration_ns, c.source
FROM counter_event e JOIN region r ON r.id = e.region AND r.kind = 'step' JOIN process p ON p.id = e.process JOIN counter c ON c.process = e.process AND c.number = e.counter;

-- Calls that never returned.
CREATE VIEW v_open_call AS
SELECT p.world, p.rank, o.name AS op, c.label AS comm, x.seq, x.step, r.layer, r.phase, x.start_ns, p.end_ns - x.start_ns AS since_ns, x.bytes, x.peer, x.tag, x.thread
FROM open_call x JOIN process p ON p.id = x.process JOIN op o ON o.id = x.op LEFT JOIN communicator c ON c.id = x.comm JOIN region r ON r.id = x.region;

-- Operations that flight recorders remembered.
CREATE VIEW v_flight AS
SELECT p.world, p.rank, f.record, c.label AS comm, f.seq, f.p2p_seq, f.op, f.peer, f.state, f.open, f.created_ns, f.input_sizes, f.output_sizes, f.input_types,
       f.output_types, k.frames AS stack
FROM flight_entry f JOIN process p ON p.id = f.process JOIN communicator c ON c.id = f.comm LEFT JOIN flight_stack k ON k.id = f.stack;

-- Kernels, one row per execution that the window kept. name is as people write it; correlation is CUPTI's number of the launching call.
CREATE VIEW v_kernel AS
SELECT p.world, p.rank, g.step, r.layer, g.device, g.stream, n.name, g.start_ns, g.duration_ns, g.correlation, r.phase, g.context, g.graph_node, c.label AS comm, g.seq,
       g.launch_ns, g.launch_duration_ns, g.thread, g.id AS event, iif(g.comm IS NULL, n.class, 'communication') AS class
FROM gpu_event g JOIN process p ON p.id = g.process JOIN region r ON r.id = g.region JOIN gpu_name n ON n.id = g.name LEFT JOIN communicator c ON c.id = g.comm
WHERE g.kind = 1;

-- Copies and memsets of GPUs. kind: HtoD, DtoH, DtoD, PtoP, ... or memset; source and destination: pageable, pinned, device, ...
CREATE VIEW v_memcpy AS
SELECT p.world, p.rank, g.step, r.layer, coalesce(g.copy, 'memset') AS kind, g.bytes, g.start_ns, g.duration_ns, g.device, g.stream, g.source, g.destination, g.peer_device,
       r.phase, g.correlation, g.graph_node, g.launch_ns, g.launch_duration_ns, g.thread, g.id AS event
FROM gpu_event g JOIN process p ON p.id = g.process JOIN region r ON r.id = g.region
WHERE g.kind IN (2, 3);

-- All GPU activities, also those that v_kernel and v_memcpy leave out: synchronisation, overhead of the tracing, launches of graphs.
CREATE VIEW v_gpu AS
SELECT p.world, p.rank, g.step, r.layer, CASE g.kind WHEN 1 THEN 'kernel' WHEN 2 THEN 'memcpy' WHEN 3 THEN 'memset' WHEN 4 THEN 'sync' WHEN 5 THEN 'overhead' WHEN 6 THEN 'graph'
       ELSE 'collective' END AS kind, n.name, g.device, g.stream, g.start_ns, g.duration_ns, g.bytes, g.correlation, r.phase, g.graph_node, g.launch_ns, g.launch_duration_ns, g.id AS event
FROM gpu_event g JOIN process p ON p.id = g.process JOIN region r ON r.id = g.region JOIN gpu_name n ON n.id = g.name;

-- Bytes and time of copies of each rank's GPUs, by direction and by the host's memory: pageable memory is copied twice. The peak is that of one direction of the
-- link: to the host NVLink where that leads there, else PCIe; to another GPU NVLink, direct or through a switch, where NVML told of it; of other copies there is none.
-- bytes NULL: not known of some copy.
CREATE VIEW v_link AS
SELECT p.world, p.rank, c.device, c.kind, c.memory, c.calls, c.bytes, c.time_ns, c.bytes * 1e9 / nullif(c.time_ns, 0) AS bytes_per_second,
       coalesce(n.link, s.link, CASE WHEN c.to_host THEN u.link END) AS link,
       coalesce(n.link_bytes_per_second, min(s.link_bytes_per_second, t.link_bytes_per_second), CASE WHEN c.to_host AND n.link IS NULL THEN u.link_bytes_per_second END) AS peak_bytes_per_second,
       c.bytes * 1e9 / nullif(c.time_ns, 0) / coalesce(n.link_bytes_per_second, min(s.link_bytes_per_second, t.link_bytes_per_second),
                                                       CASE WHEN c.to_host AND n.link IS NULL THEN u.link_bytes_per_second END) AS peak_ratio, c.peer_device
FROM (SELECT process, device, copy AS kind, CASE WHEN copy IN ('HtoD', 'HtoA') THEN source WHEN copy IN ('DtoH', 'AtoH') THEN destination END AS memory, peer_device,
             coalesce(copy IN ('HtoD', 'HtoA', 'DtoH', 'AtoH'), 0) AS to_host, count(*) AS calls, iif(count(bytes) = count(*), sum(bytes), NULL) AS bytes, sum(duration_ns) AS time_ns
      FROM gpu_event WHERE kind = 2 GROUP BY process, device, copy, 4, peer_device) c JOIN process p ON p.id = c.process
     LEFT JOIN gpu u ON u.process = c.process AND u.device = c.device LEFT JOIN gpu w ON w.process = c.process AND w.device = c.peer_device
     LEFT JOIN nvlink n ON n.host = p.host AND n.bus = u.bus AND n.peer = CASE WHEN c.to_host THEN 'cpu' ELSE w.bus END
     LEFT JOIN nvlink t ON t.host = p.host AND t.bus = w.bus AND t.peer = 'switch'
     LEFT JOIN nvlink s ON s.host = p.host AND s.bus = u.bus AND s.peer = 'switch' AND t.bus IS NOT NULL;

-- GPU times by layer and rank, over the events that the window kept: sums over kernels and copies, which may run side by side.
CREATE VIEW v_gpu_layer AS
SELECT p.world, p.rank, r.layer, r.phase, sum(CASE WHEN g.kind = 1 THEN 1 ELSE 0 END) AS kernels,
       sum(CASE WHEN g.kind = 1 AND n.class <> 'communication' AND g.comm IS NULL THEN g.duration_ns ELSE 0 END) AS compute_ns,
       sum(CASE WHEN g.kind = 1 AND (n.class = 'communication' OR g.comm IS NOT NULL) THEN g.duration_ns ELSE 0 END) AS comm_ns,
       sum(CASE WHEN g.kind IN (2, 3) THEN g.duration_ns ELSE 0 END) AS copy_ns, sum(CASE WHEN g.kind = 2 THEN g.bytes ELSE 0 END) AS copy_bytes
FROM gpu_event g JOIN process p ON p.id = g.process JOIN region r ON r.id = g.region JOIN gpu_name n ON n.id = g.name
WHERE g.kind IN (1, 2, 3)
GROUP BY p.world, p.rank, p.id, r.layer, r.phase;

-- Where each step of each GPU went; step NULL is the whole run.
CREATE VIEW v_gpu_part AS
SELECT p.world, p.rank, g.device, g.step, g.duration_ns, g.compute_ns, g.comm_ns, g.copy_ns, g.exposed_comm_ns, g.exposed_wait_ns, g.exposed_copy_ns, g.active_ns, g.active_xfer_ns,
       g.idle_ns, g.idle_input_ns, g.idle_host_ns, g.idle_launch_ns, g.idle_kernel_ns, g.idle_dep_comm_ns, g.idle_dep_copy_ns, g.idle_other_ns, g.why, g.wait_ns, g.sigma_ns
FROM gpu_part g JOIN process p ON p.id = g.process;

-- Times of each GPU by layer and step.
CREATE VIEW v_gpu_layer_part AS
SELECT p.world, p.rank, g.device, g.step, g.layer, g.phase, g.compute_ns, g.comm_ns, g.copy_ns, g.exposed_comm_ns
FROM gpu_layer_part g JOIN process p ON p.id = g.process;

-- Kernels, copies and memsets that HTA counts. It reads a trace of several steps without the last one: only those launched before that began, and none whose launch
-- the trace lacks. class as HTA tells it, by the name: COMMUNICATION, MEMORY, COMPUTATION.
CREATE VIEW v_hta_event AS
SELECT p.world, p.rank, g.step, CASE WHEN g.kind <> 1 THEN 'MEMORY' WHEN n.name GLOB 'nccl*' THEN 'COMMUNICATION' ELSE 'COMPUTATION' END AS class, n.name, g.device, g.stream,
       g.start_ns, g.duration_ns, g.bytes, g.correlation, g.launch_ns, g.launch_duration_ns, g.process, g.id AS event
FROM gpu_event g JOIN process p ON p.id = g.process JOIN gpu_name n ON n.id = g.name
     LEFT JOIN (SELECT process, max(start_ns) AS last_ns FROM step GROUP BY process) s ON s.process = g.process AND (SELECT count(DISTINCT step) FROM step) > 1
WHERE g.kind IN (1, 2, 3) AND (s.last_ns IS NULL OR g.launch_ns < s.last_ns);

-- The temporal breakdown and the overlap of HTA for each rank, over v_hta_event: its numbers under names like its own; times in ns (its are in us), *_pctg in percent as there.
CREATE VIEW v_hta AS
SELECT p.world, p.rank, h.kernel_time_ns, h.idle_ns, h.compute_ns, h.non_compute_ns, h.comm_ns, h.overlap_ns, 100.0 * h.idle_ns / nullif(h.kernel_time_ns, 0) AS idle_pctg,
       100.0 * h.compute_ns / nullif(h.kernel_time_ns, 0) AS compute_pctg, 100.0 * h.non_compute_ns / nullif(h.kernel_time_ns, 0) AS non_compute_pctg,
       100.0 * h.overlap_ns / nullif(h.comm_ns, 0) AS comp_comm_overlap_pctg
FROM hta_part h JOIN process p ON p.id = h.process WHERE h.whole = 0;

-- Launches: the call that gave work to a GPU, and that work. launch_delay_ns: from the end of the call to the begin of the work; 0: it began before the call ended.
CREATE VIEW v_launch AS
SELECT p.world, p.rank, g.step, r.layer, CASE g.kind WHEN 1 THEN 'kernel' WHEN 2 THEN 'memcpy' ELSE 'memset' END AS kind, n.name, g.device, g.stream, g.launch_ns,
       g.launch_duration_ns, g.start_ns, g.duration_ns, max(0, g.start_ns - g.launch_ns - g.launch_duration_ns) AS launch_delay_ns, g.correlation, g.thread, g.id AS event
FROM gpu_event g JOIN process p ON p.id = g.process JOIN region r ON r.id = g.region JOIN gpu_name n ON n.id = g.name
WHERE g.kind IN (1, 2, 3) AND g.launch_ns IS NOT NULL;

-- How many kernels, copies and memsets had been given to a stream and had not begun, at each change: it holds until the stream's next row.
CREATE VIEW v_queue AS
SELECT p.world, p.rank, q.device, q.stream, q.time_ns,
       sum(q.change) OVER (PARTITION BY q.process, q.device, q.stream ORDER BY q.time_ns, q.change DESC, q.event ROWS UNBOUNDED PRECEDING) AS length
FROM (SELECT process, device, stream, launch_ns AS time_ns, 1 AS change, id AS event FROM gpu_event WHERE kind IN (1, 2, 3) AND launch_ns IS NOT NULL
      UNION ALL SELECT process, device, stream, max(start_ns, launch_ns), -1, id FROM gpu_event WHERE kind IN (1, 2, 3) AND launch_ns IS NOT NULL) q
     JOIN process p ON p.id = q.process;

-- Rate of all copies and memsets of a kind, at each change: it holds until the kind's next row. kind as in v_memcpy.
CREATE VIEW v_copy_rate AS
SELECT p.world, p.rank, c.kind, c.time_ns,
       round(sum(c.change) OVER (PARTITION BY c.process, c.kind ORDER BY c.time_ns, c.change, c.event ROWS UNBOUNDED PRECEDING), 3) AS bytes_per_second
FROM (SELECT process, coalesce(copy, 'memset') AS kind, start_ns AS time_ns, bytes * 1e9 / duration_ns AS change, id AS event FROM gpu_event
      WHERE kind IN (2, 3) AND bytes IS NOT NULL AND duration_ns > 0
      UNION ALL SELECT process, coalesce(copy, 'memset'), start_ns + duration_ns, -bytes * 1e9 / duration_ns, id FROM gpu_event
      WHERE kind IN (2, 3) AND bytes IS NOT NULL AND duration_ns > 0) c
     JOIN process p ON p.id = c.process;

-- Time between two kernels, copies or memsets of one stream, by its cause. host: from then on until the host had begun the next launch; launch: the rest of gaps in which
-- the host came late; kernel: gaps below 30 us for which everything had been launched; other: longer ones. HTA counts all of a gap in which the host came late as host_wait.
CREATE VIEW v_stream_idle AS
SELECT p.world, p.rank, g.device, g.stream, g.end_ns AS start_ns, g.next_ns - g.end_ns AS duration_ns,
       CASE WHEN g.launch_ns > g.end_ns THEN min(g.launch_ns, g.next_ns) - g.end_ns ELSE 0 END AS host_ns,
       CASE WHEN g.launch_ns > g.end_ns THEN g.next_ns - min(g.launch_ns, g.next_ns) ELSE 0 END AS launch_ns,
       CASE WHEN coalesce(g.launch_ns, g.end_ns) <= g.end_ns AND g.next_ns - g.end_ns < 30000 THEN g.next_ns - g.end_ns ELSE 0 END AS kernel_ns,
       CASE WHEN coalesce(g.launch_ns, g.end_ns) <= g.end_ns AND g.next_ns - g.end_ns >= 30000 THEN g.next_ns - g.end_ns ELSE 0 END AS other_ns
FROM (SELECT process, device, stream, start_ns AS next_ns, launch_ns,
             max(start_ns + duration_ns) OVER (PARTITION BY process, device, context, stream ORDER BY start_ns, id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS end_ns
      FROM gpu_event WHERE kind IN (1, 2, 3)) g JOIN process p ON p.id = g.process
WHERE g.next_ns > g.end_ns;

