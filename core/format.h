// The spool: the preload library's output, one file per process.
//
// Why a format of our own: the file *is* the memory that the job's threads write into (mmap), so all records up to a
// SIGKILL are there without a flush, and recording costs two clock reads and one cache line. Rejected: SQLite inside
// the job (20 times dearer per event, many libraries), a pipe to a helper (a full pipe stops the job), one shared ring
// for all threads (locks).
//
// Layout: one FileHeader page, then chunks. A chunk starts on a page boundary, is a whole number of pages, and begins
// with a ChunkHeader whose `check` covers its constant fields, so that a reader can find the next chunk after damage by
// looking at page boundaries only. Every chunk has one writer: a thread (events, ring, profile) or whoever holds the
// meta lock (meta). Space is allocated and zero before a chunk is used, and a zero `word` means "nothing here yet": a
// reader needs no counters, only what is not zero.
//
//   events   Records in order of their start. Filled once, then left alone.
//   ring     Records too, written round and round: the most recent ones that the log did not keep. For the live view
//            and for hung jobs.
//   meta     MetaHeader + payload, 8-byte aligned: strings, contexts, communicators, operations, clocks, facts.
//   profile  ProfileEntries, in the order of their first use: exact totals for the whole run, per thread; a thread
//            may have several.
//   device   DeviceRecords: GPU activities in the order in which they became known, which is not that of time.
//
// Units: `ticks` are the process's clock (TSC or ns of CLOCK_MONOTONIC, see FileHeader::clock); everything else
// says its unit in its name. Byte order: the writer's; the reader refuses a foreign one. All structs are plain
// data, sizes are asserted.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace ddl {

constexpr char kSpoolMagic[8] = {'D', 'D', 'L', 'S', 'P', 'O', 'O', 'L'};
constexpr uint32_t kFormatVersion = 3;
constexpr uint32_t kByteOrderMark = 0x01020304;
constexpr uint32_t kPageBytes = 4096;
constexpr uint32_t kMinChunkBytes = 64 * 1024;
constexpr uint32_t kMaxChunkBytes = 4 * 1024 * 1024;

// -------------------------------------------------------------------------------------------------------------- clocks

enum class ClockKind : uint32_t { kTsc = 1, kMonotonic = 2 };

/// One moment on three clocks, read back to back. Ingest fits ticks -> CLOCK_MONOTONIC per host and takes the
/// date from realtime.
struct ClockPair {
  uint64_t ticks;
  uint64_t monotonic_ns;
  uint64_t realtime_ns;
};

// -------------------------------------------------------------------------------------------------------------- losses

/// Everything that can be missing is counted under one of these names (FileHeader::loss, table `loss`).
#define DDL_LOSS_KINDS(X)                                                                                            \
  X(kLossProfileKeys, "profile_other", "calls booked under 'other': the profile's key cap was hit")                  \
  X(kLossContexts, "contexts", "ranges or call sites beyond the table: booked to their parent")                      \
  X(kLossCommunicators, "communicators", "communicators beyond the table: booked to none")                           \
  X(kLossRequests, "requests", "requests that could not be followed to their completion")                            \
  X(kLossMeta, "meta", "names or facts that could not be written")                                                   \
  X(kLossRangeDepth, "range_depth", "ranges nested deeper than the stack, or too many started at once")              \
  X(kLossUnbalanced, "unbalanced_ranges", "range ends without a begin")                                              \
  X(kLossThreads, "threads", "threads for which no room was left on the disk or in memory: their calls are missing") \
  X(kLossDeviceNotKept, "gpu_not_kept", "GPU activities outside the window, or left out when the log was full")      \
  X(kLossDeviceDropped, "gpu_dropped", "GPU activities that CUPTI dropped: they are in no number")                   \
  X(kLossDeviceTimes, "gpu_times", "GPU activities without time stamps: they are in no number")                      \
  X(kLossDeviceUnread, "gpu_unread", "buffers of GPU activities that could not be read to their end")                \
  X(kLossCounters, "counters", "ranges of threads on which counters could not be read: not in their sums")           \
  X(kLossForward, "forward_layers",                                                                                  \
    "backward operators whose layer could not be told: two threads went forward, or far back")                       \
  X(kLossNcclEvents, "nccl_events",                                                                                  \
    "events of NCCL's profiler that belong to no call that was seen, or to one of too many")                         \
  X(kLossPages, "pages", "pages of the spool that their file system took away: what was written there is missing")

enum LossKind : uint32_t {
#define DDL_LOSS_ENUM(id, name, note) id,
  DDL_LOSS_KINDS(DDL_LOSS_ENUM)
#undef DDL_LOSS_ENUM
      kLossKindCount
};

// ------------------------------------------------------------------------------------------------------------ the file

enum ProcessFlag : uint32_t {
  kMpiInitialized = 1u << 0,  ///< MPI_Init or MPI_Init_thread returned
  kMpiFinalized = 1u << 1,    ///< MPI_Finalize was entered
  kMpiAborted = 1u << 2,      ///< MPI_Abort was called in this process
  kExited = 1u << 3,          ///< the process ran its exit handlers
  kCannotGrow = 1u << 4,      ///< the spool could not grow (FileHeader::grow_errno says why); events were left out
  /// MPI_Init or MPI_Init_thread was called: a rank of the job, if it did not get a number in time, too
  kMpiEntered = 1u << 5,
  kNcclEntered = 1u << 6,  ///< a communicator of NCCL was made: a rank of the job, with or without MPI
  kGlooEntered = 1u << 7,  ///< a context of Gloo was made: likewise
};

constexpr uint32_t kLossSlots = 32;

/// Page 0. The first part is written once; the live part may change at any time until the process ends.
struct FileHeader {
  char magic[8];
  uint32_t format_version;
  uint32_t byte_order;
  uint32_t header_bytes;  ///< offset of the first chunk
  uint32_t record_bytes;
  uint32_t clock;  ///< ClockKind
  uint32_t pid;
  uint64_t process_start;  ///< field 22 of /proc/self/stat: tells two processes with the same pid apart
  uint64_t world_key;      ///< the same in all processes that were launched as one MPI_COMM_WORLD; 0 if unknown
  ClockPair begin;
  char host[64];
  char boot_id[40];
  char library_version[24];

  // Live part.
  int32_t rank;          ///< in MPI_COMM_WORLD; -1 until known
  int32_t world_size;    ///< 0 until known
  uint32_t flags;        ///< ProcessFlag
  int32_t abort_code;    ///< argument of MPI_Abort
  int32_t thread_level;  ///< provided by MPI_Init_thread; -1 until known
  uint32_t keep_level;   ///< events of every 2^keep_level-th unit are kept (see recorder.h)
  ClockPair latest;      ///< refreshed about once a second of activity and at the end
  uint64_t mpi_init_leave_ticks;
  uint64_t mpi_finalize_enter_ticks;
  uint64_t log_bytes;  ///< in event chunks
  uint64_t loss[kLossSlots];
  /// the rank that the launcher announced in the environment; -1: none. Counts only while `rank` is not known
  int32_t launch_rank;
  int32_t launch_size;      ///< how many it announced; 0: unknown
  int32_t grow_errno;       ///< why the spool could not grow, the first time
  uint64_t overhead_ticks;  ///< recording's cost, all threads together, estimated (budget.cpp)
};
static_assert(sizeof(FileHeader) <= kPageBytes);

enum class ChunkKind : uint32_t { kEvents = 1, kRing = 2, kMeta = 3, kProfile = 4, kDevice = 5 };

constexpr uint32_t kChunkMagic = 0x434c4444;  // "DDLC"

struct ChunkHeader {
  uint32_t magic;
  uint32_t kind;    ///< ChunkKind
  uint32_t bytes;   ///< whole chunk, header included; a multiple of kPageBytes
  uint32_t thread;  ///< ThreadMeta::thread of the writer; 0xffffffff for meta and device
  uint64_t index;   ///< 0, 1, 2, ... in the order of allocation
  uint64_t begin_ticks;
  uint64_t begin_monotonic_ns;
  uint64_t reserved64;
  uint64_t ring_written;  ///< ring: records ever written into it, which is how many the log did not keep
  uint32_t check;         ///< chunk_check() of magic, bytes, thread, index, begin_ticks
  uint32_t reserved;
};
static_assert(sizeof(ChunkHeader) == 64);

/// FNV-1a over the constant fields.
constexpr uint32_t chunk_check(const ChunkHeader& h) {
  uint64_t hash = 14695981039346656037ull;
  const uint64_t fields[] = {h.magic, h.bytes, h.thread, h.index, h.begin_ticks};
  for (uint64_t field : fields) {
    for (int i = 0; i < 8; ++i) {
      hash ^= (field >> (8 * i)) & 0xff;
      hash *= 1099511628211ull;
    }
  }
  return static_cast<uint32_t>(hash ^ (hash >> 32));
}

// ------------------------------------------------------------------------------------------------------------- records

enum class RecordKind : uint32_t {
  kNone = 0,
  /// a call that has not returned. Becomes kCall in place; a killed or hung process leaves its current call kOpen
  kOpen = 1,
  kCall = 2,  ///< a call, enter to leave
  /// a non-blocking operation: post enter to leave of the call that completed it (an upper bound of its transfer). Also
  /// the half of a Sendrecv that received; the call itself is the half that sent
  kRequest = 3,
  kRange = 4,      ///< a phase, layer or operator range, begin to end; op = its ContextKind
  kStepBegin = 5,  ///< a step began; duration 0
  kStep = 6,       ///< a step, begin to end
  kValue = 7,      ///< a number: `payload` holds the double's bits, `context` the string id of its name
  /// a counter's growth during a range: `payload`; start, duration and context are the range's, op = number of the
  /// counter
  kCounter = 9,
  /// a call that gave a GPU work, or waited for one; op = LaunchKind. The GPU's records refer to it by `payload`
  kLaunch = 8,
  /// a non-blocking call whose operation was complete when it returned: a kCall and a kRequest that lasted as long. The
  /// reader makes those two of it
  kCompleteCall = 10,
  /// how NCCL does a collective: payload = string id of "ALGORITHM PROTOCOL":32 | warps:8 | channels:8
  kNcclDetails = 12,
  kNcclTag = 11,  ///< the number by which a program tagged a collective of NCCL: `payload`, not 0
  /// a group of NCCL calls has more than one collective on `comm`: `payload` of them, the first is `sequence`
  kNcclGroup = 13,
  kThreadSample =
      /// how long the training thread has run so far, see ThreadTimes; op = the system call in which it was found
  /// asleep, a code of kBlockingCalls (names.h), 0: not asked; duration 0
  14,
  /// result of a bitwise AND of few words: `payload` = bits set here:32 | bits set in the result:32. Start, op, comm
  /// and sequence are the call's, duration 0
  kAgreement = 15,
};

/// The kind of work that a call launched.
enum class LaunchKind : uint32_t {
  kKernel = 1,
  kCopy = 2,
  kGraph = 3,
  kSynchronize = 4,
  kEvent = 5,  ///< cudaEventRecord; no record is written for it
  kQuery = 6,  ///< cudaEventQuery, which waits for nothing; no record is written for it, and CUPTI's of it is not kept
};

constexpr uint64_t kMaxDurationTicks = (1ull << 48) - 1;
constexpr uint64_t kMaxPayloadBytes = (1ull << 48) - 1;
constexpr uint32_t kNoComm = 0;      ///< Record::comm of operations without a communicator
constexpr uint32_t kNoSequence = 0;  ///< collectives count from 1
/// Bit of the numbers of those that python/ddl_hooks tells of (PyTorch's monitored barriers), which count for
/// themselves.
constexpr uint32_t kToldCollective = 1u << 30;
/// As people count, of a stored number.
constexpr int64_t shown_number(int64_t sequence) {
  return sequence > kToldCollective && sequence < int64_t{1} << 31 ? sequence - kToldCollective : sequence;
}

/// One event, 40 bytes. `word` is stored last (release), so a record is either whole or not there.
struct Record {
  uint64_t start_ticks;
  uint64_t word;  ///< duration_ticks:48 | kind:4 | op:12 - see record_word()
  /// calls, requests: bytes:48 | datatype:8 | reduction:8 (codes of names.h). ranges, steps: ticks inside MPI calls.
  /// values: double. launches: correlation id
  uint64_t payload;
  /// process-local index of the communicator, window or file (CommunicatorMeta::index); kNoComm. steps: high half
  /// of the step number. launches: the communicator whose collective the NCCL call that launches carries out.
  /// ranges: see RangeNumbers
  uint32_t comm;
  uint32_t context;  ///< ContextMeta::id: range stack and call site. values: string id
  /// collectives: number of this collective on its communicator, from 1, equal on all members. point to point: tag.
  /// steps: low half. launches: number of that collective
  uint32_t sequence;
  /// point to point: peer rank in comm (the actual source of a receive). rooted collectives: root in comm. else -1
  int32_t peer;
};
static_assert(sizeof(Record) == 40);

constexpr uint64_t record_word(RecordKind kind, uint32_t op, uint64_t duration_ticks) {
  const uint64_t duration = duration_ticks > kMaxDurationTicks ? kMaxDurationTicks : duration_ticks;
  return duration << 16 | static_cast<uint64_t>(kind) << 12 | (op & 0xfff);
}
constexpr RecordKind record_kind(uint64_t word) { return static_cast<RecordKind>((word >> 12) & 0xf); }
constexpr uint32_t record_op(uint64_t word) { return static_cast<uint32_t>(word & 0xfff); }
constexpr uint64_t record_duration_ticks(uint64_t word) { return word >> 16; }

constexpr uint64_t record_payload(uint64_t bytes, uint32_t datatype, uint32_t reduction) {
  return (bytes > kMaxPayloadBytes ? kMaxPayloadBytes : bytes) << 16 | (datatype & 0xff) << 8 | (reduction & 0xff);
}
constexpr uint64_t payload_bytes(uint64_t payload) { return payload >> 16; }
constexpr uint32_t payload_datatype(uint64_t payload) { return static_cast<uint32_t>(payload >> 8) & 0xff; }
constexpr uint32_t payload_reduction(uint64_t payload) { return static_cast<uint32_t>(payload) & 0xff; }

/// Numbers that the program gave with a range (torch's emit_nvtx: `seq`, `op_id`), in fields of a kRange record
/// that only calls need.
struct RangeNumbers {
  uint64_t seq, op_id;
  bool has_seq, has_op_id;
};
constexpr uint64_t kMaxRangeSeq = (1ull << 46) - 1;
constexpr uint64_t kMaxRangeOpId = (1ull << 47) - 1;
constexpr void put_range_numbers(Record& record, const RangeNumbers& numbers) {
  const uint64_t seq = numbers.has_seq ? numbers.seq & kMaxRangeSeq : 0;
  const uint64_t op_id = numbers.has_op_id ? numbers.op_id & kMaxRangeOpId : 0;
  record.comm = static_cast<uint32_t>(op_id);
  record.sequence = static_cast<uint32_t>(seq);
  record.peer = -1;
  if (numbers.has_seq || numbers.has_op_id)
    record.peer = static_cast<int32_t>((numbers.has_seq ? 1u : 0u) | (numbers.has_op_id ? 2u : 0u) | (seq >> 32) << 2 |
                                       (op_id >> 32) << 16);
}
constexpr RangeNumbers range_numbers(const Record& record) {
  if (record.peer < 0) return {0, 0, false, false};
  const uint64_t high = static_cast<uint32_t>(record.peer);
  return {record.sequence | (high >> 2 & 0x3fff) << 32, record.comm | (high >> 16) << 32, (high & 1) != 0,
          (high & 2) != 0};
}

constexpr uint64_t kUnknownTime = UINT64_MAX;

/// The training thread's times at a kThreadSample, in the fields of its record. Sums since the thread began.
struct ThreadTimes {
  uint64_t cpu_ns;      ///< on a CPU
  uint64_t ready_ns;    ///< ready to run, without a CPU; kUnknownTime
  uint64_t spun_ticks;  ///< of both, in sched_yield and between one and the next: it waited for another thread
};
inline void put_thread_times(Record& record, const ThreadTimes& times) {
  record.payload = times.cpu_ns;
  record.comm = static_cast<uint32_t>(times.ready_ns);
  record.context = static_cast<uint32_t>(times.ready_ns >> 32);
  record.sequence = static_cast<uint32_t>(times.spun_ticks);
  record.peer = static_cast<int32_t>(times.spun_ticks >> 32);
}
inline ThreadTimes thread_times(const Record& record) {
  return {record.payload, record.comm | static_cast<uint64_t>(record.context) << 32,
          record.sequence | static_cast<uint64_t>(static_cast<uint32_t>(record.peer)) << 32};
}

// ---------------------------------------------------------------------------------------------------------------- GPUs

enum class DeviceKind : uint32_t {
  kNone = 0,
  kKernel = 1,
  kMemcpy = 2,  ///< sub: DeviceCopy; source, destination: DeviceMemory
  kMemset = 3,  ///< destination: DeviceMemory
  /// host or stream waited for a device; sub: CUPTI's type (1 event, 2 stream for event, 3 stream, 4 context) name: the
  /// event that was waited for; graph_node: which recording of it, 0: not told
  kSynchronize = 4,
  /// time that tracing itself took; sub: CUPTI's kind >> 16 (0 compiler, 1 buffer flush, 2 instrumentation, 3 resource)
  kOverhead = 5,
  kGraph = 6,       ///< a whole launch of a CUDA graph
  kCollective = 7,  ///< a collective of NCCL as NCCL itself timed it; see kDevicePhases
  /// a CUDA event was recorded on a stream; name and graph_node as of kSynchronize. Only its place in the stream is
  /// known: start and end are when we heard of it
  kEvent = 8,
};

/// device_sub() of kSynchronize where a stream waits for an event, not the host.
constexpr uint32_t kStreamWaits = 2;

/// CUPTI's numbers, which have not changed since CUDA 8.
enum class DeviceCopy : uint32_t {
  kUnknown = 0,
  kHtoD = 1,
  kDtoH = 2,
  kHtoA = 3,
  kAtoH = 4,
  kAtoA = 5,
  kAtoD = 6,
  kDtoA = 7,
  kDtoD = 8,
  kHtoH = 9,
  kPtoP = 10
};
enum class DeviceMemory : uint32_t {
  kUnknown = 0,
  kPageable = 1,
  kPinned = 2,
  kDevice = 3,
  kArray = 4,
  kManaged = 5,
  kDeviceStatic = 6,
  kManagedStatic = 7
};

/// start and end are ns of the device clock, which DeviceClockMeta ties to ticks; without it they are ticks.
constexpr uint32_t kDeviceTime = 1;
/// For kCollective: NCCL told the phases of its kernel. `bytes` is how long initial_sync took, `graph_node` final_sync,
/// in ns: of the channel in which it took longest.
constexpr uint32_t kDevicePhases = 2;

constexpr uint32_t kContextOfLaunch = UINT32_MAX;

/// A GPU activity, 64 bytes. `what` is stored last (release). The layer is known at the launch and joined by
/// correlation when the spool is read, so host and device records are written independently, in any order.
struct DeviceRecord {
  uint64_t start;
  uint64_t end;
  uint64_t bytes;         ///< copies and memsets
  uint64_t graph_node;    ///< of a captured graph (GraphNodeMeta); 0: none
  uint32_t what;          ///< kind:8 | sub:8 | source:4 | destination:4 | flags:8 - see device_what()
  uint16_t device;        ///< the process's number for it
  uint16_t cuda_context;  ///< CUPTI's id
  uint32_t stream;        ///< CUPTI's id; of memsets, copies and kernels also the legacy default stream has one
  uint32_t correlation;   ///< of the launch; of all nodes of a graph that of cudaGraphLaunch
  uint32_t name;          ///< kernels: string id. peer copies: the other device
  uint32_t context;       ///< ContextMeta::id; kContextOfLaunch: where the launch with this correlation was made
  uint32_t comm;          ///< collectives: CommunicatorMeta::index. kNoComm: as the launch says
  uint32_t sequence;      ///< collectives: number on the communicator
};
static_assert(sizeof(DeviceRecord) == 64);

constexpr uint32_t device_what(DeviceKind kind, uint32_t sub, uint32_t source, uint32_t destination, uint32_t flags) {
  return static_cast<uint32_t>(kind) | (sub & 0xff) << 8 | (source & 0xf) << 16 | (destination & 0xf) << 20 |
         (flags & 0xff) << 24;
}
constexpr DeviceKind device_kind(uint32_t what) { return static_cast<DeviceKind>(what & 0xff); }
constexpr uint32_t device_sub(uint32_t what) { return what >> 8 & 0xff; }
constexpr uint32_t device_source(uint32_t what) { return what >> 16 & 0xf; }
constexpr uint32_t device_destination(uint32_t what) { return what >> 20 & 0xf; }
constexpr uint32_t device_flags(uint32_t what) { return what >> 24; }

// ------------------------------------------------------------------------------------------------------------- profile

constexpr int kHistogramBuckets = 16;

/// Totals of one (context, communicator, operation, size class). `op` is stored last when an entry is made; 0 =
/// free. Phase, layer and operator ranges are entries too: op = ContextKind (below kFirstCallOp), `bytes` = ticks
/// inside MPI calls.
struct ProfileEntry {
  uint32_t context;
  uint32_t comm;
  uint16_t op;
  uint8_t size_class;  ///< 0: no bytes; k: 2^(k-1) <= bytes < 2^k, capped at 63
  uint8_t bucket;      ///< the writer's: where in the histogram the last duration fell
  /// the writer's: durations of usual_ticks and up to this much more fall there, too, and are not new extremes
  uint32_t usual_span;
  uint64_t untimed_calls;  ///< beside those of the histogram; not in ticks and extremes. Any: the time is an estimate
  uint64_t bytes;          ///< send payload; received bytes for receives
  uint64_t ticks;          ///< sum of durations
  uint64_t min_ticks;
  uint64_t max_ticks;
  uint64_t usual_ticks;  ///< UINT64_MAX: no duration is usual
  /// of durations: bucket b holds [2^(b+8), 2^(b+9)) ticks, the ends take the rest
  uint64_t histogram[kHistogramBuckets];
};
static_assert(sizeof(ProfileEntry) == 192);

/// Calls in the histogram. UINT64_MAX: as many or more (damage).
inline uint64_t timed_calls(const ProfileEntry& entry) {
  uint64_t timed = 0;
  for (const uint64_t calls : entry.histogram) timed = calls <= UINT64_MAX - timed ? timed + calls : UINT64_MAX;
  return timed;
}
inline uint64_t all_calls(const ProfileEntry& entry) {
  const uint64_t timed = timed_calls(entry);
  return entry.untimed_calls <= UINT64_MAX - timed ? timed + entry.untimed_calls : UINT64_MAX;
}

/// Entries of a profile chunk sit at offset 128 (a whole number of cache lines), `profile_capacity` of them.
constexpr uint32_t kProfileOffset = 128;
constexpr uint32_t profile_capacity(uint32_t chunk_bytes) {
  return (chunk_bytes - kProfileOffset) / static_cast<uint32_t>(sizeof(ProfileEntry));
}

constexpr uint32_t kFirstCallOp = 16;    ///< op ids below are range kinds
constexpr uint32_t kFirstCounterOp = 6;  ///< and counters, as many as there is room for: `bytes` = what they grew by
constexpr uint32_t kMaxCounters = kFirstCallOp - kFirstCounterOp;
constexpr uint32_t kFirstNcclOp = 0x800;  ///< ids of MPI calls are below, so that neither table moves the other

constexpr uint8_t size_class_of(uint64_t bytes) {
  return static_cast<uint8_t>(63 - __builtin_clzll((bytes > kMaxPayloadBytes ? kMaxPayloadBytes : bytes) << 1 | 1));
}
constexpr uint8_t histogram_bucket(uint64_t ticks) {
  const int log = 63 - __builtin_clzll(ticks | 256);
  return static_cast<uint8_t>(log - 8 >= kHistogramBuckets ? kHistogramBuckets - 1 : log - 8);
}

// ---------------------------------------------------------------------------------------------------------------- meta

enum class MetaKind : uint32_t {
  kNone = 0,
  kString = 1,        ///< StringMeta + bytes
  kContext = 2,       ///< ContextMeta
  kCommunicator = 3,  ///< CommunicatorMeta + RankRun[runs]
  /// CommNameMeta: MPI_Comm_set_name, MPI_Win_set_name, the name of a file, commName of NCCL's configuration
  kCommName = 4,
  kOperation = 5,      ///< OperationMeta + name bytes
  kModule = 6,         ///< ModuleMeta + path bytes
  kClock = 7,          ///< ClockPair
  kThread = 8,         ///< ThreadMeta + name bytes
  kFact = 9,           ///< FactMeta + key bytes + value bytes
  kCommTopology = 10,  ///< CommNameMeta: "cart 4x2 periodic 1,0", "graph", "dist_graph"
  kClockSync = 11,     ///< ClockSyncMeta
  kDeviceClock = 12,   ///< DeviceClockMeta
  kGraphNode = 13,     ///< GraphNodeMeta
  kSample = 14,        ///< SampleMeta + SampleValue[count]
  kCommSplit = 15,     ///< CommSplitMeta
};

/// `word` = total bytes << 8 | kind, stored last (release); 0 = end of what was written. Total bytes: header + payload, padded to 8.
struct MetaHeader {
  uint64_t word;
};
constexpr uint64_t meta_word(MetaKind kind, uint64_t total_bytes) {
  return total_bytes << 8 | static_cast<uint64_t>(kind);
}
constexpr MetaKind meta_kind(uint64_t word) { return static_cast<MetaKind>(word & 0xff); }
constexpr uint64_t meta_total_bytes(uint64_t word) { return word >> 8; }

/// Strings are any bytes, not terminated. Ids count from 1; 0 is the empty string.
struct StringMeta {
  uint32_t id;
  uint32_t length;
};

enum class ContextKind : uint32_t {
  kStep = 1,  ///< 1..3 = ddl_range_kind
  kPhase = 2,
  kLayer = 3,
  kSite = 4,
  /// a function of a framework (aten::conv2d): where no layer is open, the outermost one stands for the layer
  kOperator = 5,
};
constexpr bool is_range_kind(uint32_t kind) {
  return (kind >= 1 && kind <= 3) || kind == static_cast<uint32_t>(ContextKind::kOperator);
}

/// A node of the tree of ranges; call sites are leaves. Id 0 is the root (no range); a parent has a smaller id
/// than its children.
struct ContextMeta {
  uint32_t id;
  uint32_t parent;
  uint32_t kind;  ///< ContextKind
  uint32_t name;  ///< string id; 0 for steps and sites
  uint64_t site;  ///< kSite: return address of the call in this process; resolved with ModuleMeta
};

enum CommunicatorFlag : uint32_t {
  kCommWorld = 1u << 0,  ///< MPI_COMM_WORLD: members are 0 .. size-1, no runs follow
  kCommSelf = 1u << 1,
  kCommInter = 1u << 2,   ///< intercommunicator: members are the local group
  kCommFound = 1u << 3,   ///< first seen in a call, its creation was not
  kCommWindow = 1u << 4,  ///< the group of a window (MPI_Win)
  kCommFile = 1u << 5,    ///< the group of a file (MPI_File)
  kCommNccl = 1u << 6,    ///< of NCCL. No runs: its members are known from what each of them says of itself
  kCommGloo = 1u << 7,    ///< of Gloo. No runs: its members are not known
};

/// The members' ranks in MPI_COMM_WORLD, in the order of the communicator: first, first+stride, ... (count of them).
/// -1: not in our world.
struct RankRun {
  int32_t first;
  int32_t stride;
  int32_t count;
};

struct CommunicatorMeta {
  uint32_t index;   ///< process-local, from 1
  uint32_t parent;  ///< index; 0 = none or unknown
  /// the same on all members without a message: hash of parent uid, creating call, members, count or tag
  uint64_t uid;
  int32_t size;
  int32_t rank;  ///< ours
  uint32_t op;   ///< operation that created it; 0 for the predefined ones
  uint32_t flags;
  uint32_t runs;
  uint32_t reserved;
};

struct CommNameMeta {
  uint32_t index;
  uint32_t name;  ///< string id
};

/// How a communicator came of a split of its parent. Those of one split have the same number, and colors
/// that tell them apart.
struct CommSplitMeta {
  uint32_t index;
  uint32_t number;  ///< of what was made from the parent, from 1
  int32_t color;
  uint32_t reserved;
};

/// An operation's class for the analyzer. Written to the spool, so that a reader needs no table of its own.
enum class OpClass : uint32_t {
  kOther = 0,
  kLifecycle = 1,  ///< Init, Finalize, Abort
  /// no member leaves before all have entered, all do the same: Allreduce, Allgather, Alltoall, Reduce_scatter
  kAllToAll = 2,
  kBarrier = 3,
  kRootToAll = 4,  ///< Bcast, Scatter
  kAllToRoot = 5,  ///< Reduce, Gather
  kScan = 6,       ///< Scan, Exscan
  kNeighbor = 7,
  kCommunicator = 8,  ///< makes communicators, collective over the parent
  kSend = 9,
  kReceive = 10,
  kSendReceive = 11,
  kProbe = 12,
  kCompletion = 13,      ///< Wait and Test families
  kRequestStart = 14,    ///< Start, Startall, and what makes, cancels or frees requests
  kOneSided = 15,        ///< Put, Get, Accumulate ...: peer is the target's rank in the window
  kRmaSync = 16,         ///< of windows: fence, post, start, complete, wait, lock, unlock, flush, free ...
  kFile = 17,            ///< MPI-IO that a rank does on its own
  kFileCollective = 18,  ///< MPI-IO that all ranks of the file do together
  kDeviceMessage = 19,   ///< ncclSend, ncclRecv: enqueued, and done by the device with others in one kernel
  kUnknown = 20,         ///< never written: the reader's, where a damaged spool does not say
};

struct OperationMeta {
  uint32_t op;
  uint32_t op_class;  ///< OpClass
  /// 1: posts a request, or work for a device; the collective's instance is that record, not the call
  uint32_t nonblocking;
  uint32_t name_length;
};

struct ModuleMeta {
  uint64_t begin;  ///< addresses in this process
  uint64_t end;
  uint64_t file_offset;
  uint32_t path_length;
  uint32_t reserved;
};

struct ThreadMeta {
  uint32_t thread;  ///< 0, 1, ...; a number is used again after its thread has ended
  uint32_t tid;
  uint32_t name_length;
  uint32_t reserved;
};

/// A message of our own to another process and its answer (DDL_CLOCK_SYNC): three moments in this order, the middle one
/// by the other's clock.
struct ClockSyncMeta {
  uint64_t send_ticks;
  uint64_t remote_ticks;
  uint64_t receive_ticks;
  int32_t remote_rank;  ///< in MPI_COMM_WORLD
  uint32_t reserved;
};

/// One moment on two clocks: that of DeviceRecords with kDeviceTime, and ours.
struct DeviceClockMeta {
  uint64_t ticks;
  uint64_t device_ns;
};

/// A node of a CUDA graph, described when it is captured (what runs later names only the node), and again for every
/// copy that is made of it.
struct GraphNodeMeta {
  uint64_t node;      ///< DeviceRecord::graph_node
  uint64_t original;  ///< the node that it is a copy of; 0: captured, and the rest counts
  uint32_t context;   ///< as in Record
  uint32_t comm;
  uint32_t sequence;
  uint32_t reserved;
};

/// A sample of a device of the node: a network interface, a GPU.
struct SampleMeta {
  uint64_t ticks;
  uint32_t device;  ///< string id
  uint32_t count;
};
struct SampleValue {
  double value;
  uint32_t name;  ///< string id
  uint32_t reserved;
};

/// Facts about the process: "exe", "command", "cwd", "mpi", "cpus", "env.OMPI_...", "note", ...
struct FactMeta {
  uint32_t key_length;
  uint32_t value_length;
};

}  // namespace ddl
