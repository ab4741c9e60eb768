// NCCL's profiler plugin: NCCL itself tells what it does. It knows what nobody else does: algorithm, protocol and
// channels of a collective, which communicator a kernel is being launched for, and, where CUPTI is not there, when the
// collective's kernel began and ended on the device. It also sees the calls of an NCCL that our wrappers cannot
// intercept (linked statically, opened with dlopen) and then stands in for them.
//
// Order of events of one launch, on the launching thread: the call (CollApi, version 5 on), KernelLaunch around the
// launch, then a Coll per collective in it, whose parent is its call; later, on NCCL's proxy thread, a KernelCh per
// channel and collective with the device's own timer. Version 4 has no calls and launches: there a Coll is matched with
// the oldest call of the same function, size and buffer. From version 6 on a CeColl stands for a collective that copy
// engines carry out. Version 7 adds, of kernels on symmetric memory, the phases of each channel: initial_sync, in which
// it waits for the other ranks, compute, final_sync.
//
// Handles are numbers of slots with a generation, not addresses: NCCL may use one after we have forgotten what it was.
#include "collectors/nccl_profiler_abi.h"

#include <stdio.h>
#include <string.h>

#include "collectors/collectors.h"
#include "core/lock_and_pages.h"
#include "core/names.h"
#include "interpose/nccl.h"

namespace ddl {

namespace {

constexpr uint32_t kContexts = 1u << 12;
// calls and collectives: whoever takes a slot forgets the one this long ago
constexpr uint32_t kRecent = 1u << 13;
constexpr uint32_t kCaptured = 1u << 15;        // calls of graphs, each kept for good
constexpr uint32_t kPhases = 1u << 10;          // begun at a time: one of each channel
constexpr uint64_t kClockEveryTicksShift = 30;  // about a second of a TSC; of a clock in ns, a second

/// A communicator as NCCL introduced it.
struct Context {
  uint64_t id;
  int ranks;
  int rank;
  int version;
  NcclCommunicator* communicator;  ///< NULL: not known yet which of ours it is
  uint32_t first, count;           ///< collectives since the last launch
  uint32_t name;                   ///< string id of commName; 0: none
  bool launched;
};

/// A call, or a collective that came of it.
struct Slot {
  uint32_t generation;
  Context* context;
  NcclCommunicator* communicator;
  uint32_t op;
  uint32_t sequence;
  uint32_t ddl_context;
  uint32_t channels, channels_done;
  uint64_t begin_ns, end_ns;  ///< by the device's timer
  uint64_t sync_ns[2];        ///< initial_sync, final_sync: the longest of any channel
  uint32_t phases_told;       ///< of both
};

/// A phase of a channel that has begun.
struct OpenPhase {
  uint32_t generation;
  uint32_t which;  ///< Slot::sync_ns
  const void* collective;
  uint64_t begin_ns;
};

Context g_contexts[kContexts];
uint32_t g_context_count = 0;
Slot g_slots[kRecent + kCaptured];
OpenPhase g_phases[kPhases];
uint32_t g_next_phase = 0;
uint32_t g_next_slot = 0;
uint32_t g_captured = 0;
uint64_t g_clock_read_ticks = 0;
bool g_device_lock = false;
uint32_t g_said_versions = 0;

/// A call that we stand in for, on this thread.
struct StandIn {
  OpenCall call;
  uint64_t outer_ticks;
  bool open;
};
__thread StandIn t_stand_in __attribute__((tls_model("initial-exec"))) = {};

struct Function {
  const char* name;  ///< as NCCL tells it
  uint32_t op;
  bool times_ranks;  ///< sends its count to, or for, every rank
  bool root_only;    ///< only the root sends
};
constexpr Function kFunctions[] = {
    {"AllReduce", kOp_ncclAllReduce, false, false}, {"Broadcast", kOp_ncclBroadcast, false, true},
    {"Reduce", kOp_ncclReduce, false, false},       {"ReduceScatter", kOp_ncclReduceScatter, true, false},
    {"AllGather", kOp_ncclAllGather, false, false}, {"AlltoAll", kOp_ncclAlltoAll, true, false},
    {"Gather", kOp_ncclGather, false, false},       {"Scatter", kOp_ncclScatter, true, true},
    {"Send", kOp_ncclSend, false, false},           {"Recv", kOp_ncclRecv, false, false}};

const Function* find_function(const char* name) {
  for (const Function& function : kFunctions) {
    if (name && strcmp(function.name, name) == 0) return &function;
  }
  return nullptr;
}

struct DataType {
  const char* name;
  uint32_t code, bytes;
};
constexpr DataType kDataTypes[] = {
#define DDL_DATA_TYPE(code, name, bytes) {#name, code, bytes},
    DDL_NCCL_DATATYPES(DDL_DATA_TYPE)
#undef DDL_DATA_TYPE
};

uint64_t payload_of(const Function& function, size_t count, const char* datatype, int root, const Context& context) {
  for (const DataType& type : kDataTypes) {
    if (!datatype || strcmp(type.name, datatype) != 0) continue;
    uint64_t bytes = function.root_only && root != context.rank ? 0 : count * type.bytes;
    if (function.times_ranks) bytes *= static_cast<uint64_t>(context.ranks);
    return record_payload(bytes, type.code, 0);
  }
  return 0;
}

// ------------------------------------------------------------------------------------------------------------ handles

// 1 | what:4 | generation:32 | slot:16
enum class Handle : uint64_t { kCall = 0, kColl = 1, kChannel = 2, kLaunch = 3, kPhase = 4 };

static_assert(kRecent + kCaptured <= 1u << 16);
void* handle_of(Handle what, const Slot* slot) {
  const uint64_t index = slot ? static_cast<uint64_t>(slot - g_slots) : 0;
  return reinterpret_cast<void*>(1ull << 62 | static_cast<uint64_t>(what) << 48 |
                                 (slot ? slot->generation & 0xffffffff : 0ull) << 16 | index);
}
Handle what_of(const void* handle) { return static_cast<Handle>(reinterpret_cast<uintptr_t>(handle) >> 48 & 15); }
bool is_ours(const void* handle) { return reinterpret_cast<uintptr_t>(handle) >> 62 == 1; }
/// NULL: forgotten, or never one of ours.
Slot* slot_of(const void* handle) {
  const uint64_t bits = reinterpret_cast<uintptr_t>(handle);
  const uint32_t index = bits & 0xffff;
  if (!is_ours(handle) || index >= kRecent + kCaptured) return nullptr;
  Slot* slot = &g_slots[index];
  return __atomic_load_n(&slot->generation, __ATOMIC_ACQUIRE) == static_cast<uint32_t>(bits >> 16) ? slot : nullptr;
}

/// It was `handle` of an event that has been forgotten. Counts what belongs to it as lost.
bool is_forgotten(const void* handle, const Slot* found) {
  if (found || !is_ours(handle)) return false;
  count_loss(kLossNcclEvents);
  return true;
}

/// `captured`: the graph may be launched, and name this call, at any time later. When there are too many of those, the
/// next ones are forgotten as other calls are, and what the launches of their graphs tell is lost.
Slot* take_slot(bool captured) {
  const bool kept = captured && __atomic_load_n(&g_captured, __ATOMIC_RELAXED) < kCaptured;
  const uint32_t number = kept ? __atomic_fetch_add(&g_captured, 1, __ATOMIC_RELAXED) : kCaptured;
  Slot* slot =
      &g_slots[number < kCaptured ? kRecent + number : __atomic_fetch_add(&g_next_slot, 1, __ATOMIC_RELAXED) % kRecent];
  const uint32_t generation = slot->generation + 1;
  *slot = {};
  __atomic_store_n(&slot->generation, generation, __ATOMIC_RELEASE);
  return slot;
}

// ------------------------------------------------------------------------------------------------------- communicators

NcclCommunicator* tie(Context* context, NcclCommunicator* communicator) {
  communicator->profiled = 1;
  name_nccl_communicator(communicator, context->name);
  return context->communicator = communicator;
}

/// Ties NCCL's context to the communicator whose call the thread is in; without wrappers it becomes one of its own.
NcclCommunicator* communicator_of(Context* context) {
  if (context->communicator) return context->communicator;
  if (t_nccl.depth > 0) {
    NcclCommunicator* c = t_nccl.call.communicator;
    if (!c || c->index == kNoComm) return nullptr;
    return tie(context, c);
  }
  // The address of the context is as good a key as a handle, and cannot be one.
  const auto key = reinterpret_cast<ncclComm_t>(context);
  const uint64_t uid = nccl_hash(nccl_hash(0x70726f66, context->id), static_cast<uint64_t>(context->ranks));
  __atomic_fetch_or(&spool_header()->flags, kNcclEntered, __ATOMIC_RELAXED);
  add_nccl_communicator(key, uid, context->ranks, context->rank, {kOp_ncclCommInitRank, nullptr, 0, 0, context->name});
  return context->communicator = find_nccl_communicator(key);
}

void note_call(Context* context, uint32_t sequence) {
  if (context->launched || context->first == kNoSequence) {
    context->first = sequence;
    context->count = 0;
  }
  ++context->count;
  context->launched = false;
}

// ------------------------------------------------------------------------------------------------------------ events

void begin_stand_in(Slot* slot, const Function& function, uint64_t payload, int root, bool collective) {
  NcclCommunicator* c = slot->communicator;
  slot->sequence = collective && c ? __atomic_add_fetch(&c->sequence, 1, __ATOMIC_RELAXED) : kNoSequence;
  const uint64_t outer_ticks = t_thread ? t_thread->call_ticks : 0;
  const OpenCall call =
      begin_call(function.op, nullptr, c ? c->index : kNoComm, collective, slot->sequence, root, payload);
  slot->ddl_context = call.context;
  t_stand_in = {call, outer_ticks, call.thread != nullptr};
}

void end_stand_in() {
  if (!t_stand_in.open) return;
  t_stand_in.open = false;
  end_call(t_stand_in.call, t_stand_in.call.payload);
  t_stand_in.call.thread->call_ticks = t_stand_in.outer_ticks;
}

/// For the call that is `slot`: the number by which the program told it from others.
void write_tag(const Slot& slot, uint64_t tag) {
  Thread* thread = tag != 0 ? this_thread() : nullptr;
  if (!thread || !slot.communicator || slot.sequence == kNoSequence) return;
  Record record = {};
  record.start_ticks = ticks();
  record.word = record_word(RecordKind::kNcclTag, slot.op, 0);
  record.payload = tag;
  record.comm = slot.communicator->index;
  record.context = slot.ddl_context;
  record.sequence = slot.sequence;
  record.peer = -1;
  write_record(thread, keep(true, slot.sequence, record.start_ticks), record);
}

void* start_call(Context* context, const char* name, size_t count, const char* datatype, int root, bool captured,
                 bool collective, uint64_t tag) {
  const Function* function = find_function(name);
  if (!function) return nullptr;
  Slot* slot = take_slot(captured);
  slot->context = context;
  slot->communicator = communicator_of(context);
  slot->op = function->op;
  if (t_nccl.depth > 0) {
    slot->sequence = t_nccl.call.sequence;
    slot->ddl_context = t_nccl.call.context;
    if (t_nccl.call.communicator) slot->op = t_nccl.call.op;  // ncclBcast is what the program called
  } else {
    begin_stand_in(slot, *function, payload_of(*function, count, datatype, root, *context),
                   collective && (function->root_only || root > 0) ? root : -1, collective);
  }
  if (collective) {
    note_call(context, slot->sequence);
    write_tag(*slot, tag);
  }
  return handle_of(Handle::kCall, slot);
}

/// How NCCL does it: kept with the collective in the log.
void write_details(const Slot& slot, const NcclColl& coll) {
  Thread* thread = this_thread();
  if (!thread || !slot.communicator || slot.sequence == kNoSequence) return;
  char text[64];
  const int length = snprintf(text, sizeof text, "%.20s %.20s", coll.algorithm ? coll.algorithm : "?",
                              coll.protocol ? coll.protocol : "?");
  Record record = {};
  record.start_ticks = ticks();
  record.word = record_word(RecordKind::kNcclDetails, slot.op, 0);
  record.payload = static_cast<uint64_t>(intern_name(text, static_cast<size_t>(length))) << 32 |
                   static_cast<uint64_t>(coll.warps) << 8 | coll.channels;
  record.comm = slot.communicator->index;
  record.context = slot.ddl_context;
  record.sequence = slot.sequence;
  record.peer = -1;
  write_record(thread, keep(true, slot.sequence, record.start_ticks), record);
}

void* start_collective(Context* context, const void* parent, const NcclColl& coll) {
  const Function* function = find_function(coll.function);
  if (!function) return nullptr;
  const Slot* call = slot_of(parent);
  if (is_forgotten(parent, call)) return nullptr;  // and not one to stand in for
  Slot* slot = take_slot(false);
  slot->context = context;
  slot->op = function->op;
  slot->channels = coll.channels;
  if (call) {
    slot->communicator = call->communicator;
    slot->op = call->op;
    slot->sequence = call->sequence;
    slot->ddl_context = call->ddl_context;
  } else if (const NcclEnqueued* enqueued =
                 take_nccl_enqueued(context->communicator, context->ranks, context->rank, function->op, coll.receive)) {
    slot->communicator = tie(context, enqueued->communicator);
    slot->op = enqueued->op;
    slot->sequence = enqueued->sequence;
    slot->ddl_context = enqueued->context;
  } else if (!g_nccl_wrapped) {
    slot->communicator = communicator_of(context);
    begin_stand_in(slot, *function, payload_of(*function, coll.count, coll.datatype, coll.root, *context),
                   function->root_only ? coll.root : -1, true);
    end_stand_in();
  } else {
    count_loss(kLossNcclEvents);
    return nullptr;
  }
  write_details(*slot, coll);
  return handle_of(Handle::kColl, slot);
}

/// Copy engines carry it out: there is no kernel, and the copies are CUPTI's to tell.
void* start_copies(const void* parent, const NcclCeColl& copies) {
  const Slot* call = slot_of(parent);
  if (is_forgotten(parent, call) || !call || what_of(parent) != Handle::kCall) return nullptr;
  NcclColl coll = {};
  coll.algorithm = "CE";
  coll.protocol = copies.strategy;
  write_details(*call, coll);
  return nullptr;
}

void* start_message(Context* context, const NcclP2p& message) {
  const Function* function = find_function(message.function);
  if (!function || g_nccl_wrapped) return nullptr;
  Slot slot = {};
  slot.communicator = communicator_of(context);
  begin_stand_in(&slot, *function, payload_of(*function, message.count, message.datatype, -1, *context), message.peer,
                 false);
  end_stand_in();
  return nullptr;
}

/// All channels of a collective are done: its time on the device is known. On NCCL's proxy thread.
void write_times(const Slot& slot) {
  if (!slot.communicator || slot.sequence == kNoSequence) return;
  DeviceRecord record = {};
  record.start = slot.begin_ns;
  record.end = slot.end_ns;
  const bool phases = slot.phases_told == 3;
  record.what = device_what(DeviceKind::kCollective, 0, 0, 0, kDeviceTime | (phases ? kDevicePhases : 0));
  if (phases) {
    record.bytes = slot.sync_ns[0];
    record.graph_node = slot.sync_ns[1];
  }
  record.stream = UINT32_MAX;
  record.context = slot.ddl_context;
  record.comm = slot.communicator->index;
  record.sequence = slot.sequence;
  for (const Function& function : kFunctions) {
    if (function.op == slot.op) record.name = intern_name(function.name, strlen(function.name));
  }
  const uint64_t now = ticks();
  while (__atomic_test_and_set(&g_device_lock, __ATOMIC_ACQUIRE)) {
  }
  if (keep(true, slot.sequence, now)) write_device_record(record);
  if (now - g_clock_read_ticks > 1ull << kClockEveryTicksShift) {
    g_clock_read_ticks = now;
    write_device_clock({now, slot.end_ns});
  }
  __atomic_clear(&g_device_lock, __ATOMIC_RELEASE);
}

void* start_channel(const void* parent, uint64_t timer_ns) {
  Slot* slot = slot_of(parent);
  if (is_forgotten(parent, slot) || !slot || what_of(parent) != Handle::kColl || timer_ns == 0) return nullptr;
  if (slot->begin_ns == 0 || timer_ns < slot->begin_ns) slot->begin_ns = timer_ns;
  return handle_of(Handle::kChannel, slot);
}

void* start_phase(const void* parent, const NcclKernelPhase& phase) {
  const Slot* slot = slot_of(parent);
  const bool initial = phase.phase == static_cast<uint8_t>(NcclPhase::kInitialSync);
  const bool final = phase.phase == static_cast<uint8_t>(NcclPhase::kFinalSync);
  if (!slot || what_of(parent) != Handle::kChannel || phase.timer_ns == 0 || (!initial && !final)) return nullptr;
  const uint32_t index = __atomic_fetch_add(&g_next_phase, 1, __ATOMIC_RELAXED) % kPhases;
  OpenPhase& open = g_phases[index];
  open = {open.generation + 1, initial ? 0u : 1u, parent, phase.timer_ns};
  return reinterpret_cast<void*>(1ull << 62 | static_cast<uint64_t>(Handle::kPhase) << 48 |
                                 static_cast<uint64_t>(open.generation) << 16 | index);
}

void stop_phase(const void* handle, uint64_t timer_ns) {
  const uint64_t bits = reinterpret_cast<uintptr_t>(handle);
  const OpenPhase& open = g_phases[bits & (kPhases - 1)];
  Slot* slot = open.generation == static_cast<uint32_t>(bits >> 16) ? slot_of(open.collective) : nullptr;
  if (!slot || timer_ns < open.begin_ns) return;
  slot->phases_told |= 1u << open.which;
  if (timer_ns - open.begin_ns > slot->sync_ns[open.which]) slot->sync_ns[open.which] = timer_ns - open.begin_ns;
}

void stop_channel(const void* handle, uint64_t timer_ns) {
  Slot* slot = slot_of(handle);
  if (!slot) return;
  if (timer_ns > slot->end_ns) slot->end_ns = timer_ns;
  if (++slot->channels_done == slot->channels && slot->end_ns >= slot->begin_ns) write_times(*slot);
}

void* start_launch(Context* context) {
  Thread* thread = this_thread();
  const NcclCommunicator* c = context->communicator;
  if (!thread || !c) return nullptr;
  if (!context->launched && context->count > 1 && !g_nccl_wrapped)
    write_nccl_group({c->index, context->first, context->count}, thread->context);
  thread->nccl_call = {c->index, context->first};
  context->launched = true;
  return handle_of(Handle::kLaunch, nullptr);
}

void* start_event(Context* context, uint64_t type, const void* parent, const NcclEventDetails& d) {
  const uint64_t tag = context->version >= 7 && type == kNcclCollApi ? d.coll_api.tag : 0;
  switch (type) {
    case kNcclCollApi:
      return start_call(context, d.coll_api.function, d.coll_api.count, d.coll_api.datatype, d.coll_api.root,
                        d.coll_api.captured, true, tag);
    case kNcclP2pApi:
      return start_call(context, d.p2p_api.function, d.p2p_api.count, d.p2p_api.datatype, -1, d.p2p_api.captured, false,
                        0);
    case kNcclColl:
      return start_collective(context, parent, d.coll);
    case kNcclP2p:
      return start_message(context, d.p2p);
    case kNcclKernelLaunch:
      return start_launch(context);
    case kNcclKernelCh:
      return start_channel(parent, d.kernel_ch.timer_ns);
    case kNcclCeColl:
      return start_copies(parent, d.ce_coll);
    case kNcclKernelPhase:
      return start_phase(parent, d.phase);
    default:
      return nullptr;
  }
}

// ----------------------------------------------------------------------------------------------------- what NCCL calls

void write_source(int version) {
  if (__atomic_fetch_or(&g_said_versions, 1u << version, __ATOMIC_RELAXED) & 1u << version) return;
  char text[32];
  snprintf(text, sizeof text, "profiler v%d", version);
  write_fact("nccl.source", text);
}

int init(void** context, int* mask, uint64_t id, const char* name, int ranks, int rank, int version) {
  *mask = 0;
  *context = g_contexts;
  const bool recording =
      (__atomic_load_n(&g_nccl_recording, __ATOMIC_RELAXED) && g_process.active) || start_nccl(nullptr);
  const uint32_t number = __atomic_fetch_add(&g_context_count, 1, __ATOMIC_RELAXED);
  if (!recording) return kNcclSuccess;
  if (number >= kContexts) {
    count_loss(kLossNcclEvents);
    return kNcclSuccess;
  }
  g_contexts[number] = {id, ranks, rank, version, nullptr, kNoSequence, 0, nccl_name(name), false};
  *context = &g_contexts[number];
  const uint64_t by_version = version >= 5 ? kNcclCollApi | kNcclP2pApi | kNcclKernelLaunch : kNcclP2p;
  // Where CUPTI tells of kernels nobody pays for this: with some versions of NCCL it is dear (ddl doctor).
  const uint64_t times = are_devices_traced() ? 0 : version >= 7 ? kNcclKernelCh | kNcclKernelPhase : kNcclKernelCh;
  const uint64_t copies = version >= 6 ? kNcclCeColl : 0;
  *mask = static_cast<int>(kNcclColl | by_version | times | copies);
  __atomic_store_n(&g_nccl_profiled, true, __ATOMIC_RELAXED);
  if (version < 5) keep_nccl_enqueued();
  write_source(version);
  return kNcclSuccess;
}

int init_v4(void** context, int* mask, const char* name, uint64_t id, int, int ranks, int rank, void*) {
  return init(context, mask, id, name, ranks, rank, 4);
}
int init_v5(void** context, uint64_t id, int* mask, const char* name, int, int ranks, int rank, void*) {
  return init(context, mask, id, name, ranks, rank, 5);
}
int init_v6(void** context, uint64_t id, int* mask, const char* name, int, int ranks, int rank, void*) {
  return init(context, mask, id, name, ranks, rank, 6);
}
int init_v7(void** context, uint64_t id, int* mask, const char* name, int, int ranks, int rank, void*) {
  return init(context, mask, id, name, ranks, rank, 7);
}

template <class Descriptor>
int start_event_of(void* context, void** handle, void* descriptor) {
  const Descriptor* d = static_cast<const Descriptor*>(descriptor);
  *handle = g_process.active ? start_event(static_cast<Context*>(context), d->type, d->parent, d->details) : nullptr;
  return kNcclSuccess;
}

int stop_event(void* handle) {
  if (!handle) return kNcclSuccess;
  if (what_of(handle) == Handle::kCall) {
    end_stand_in();
  } else if (what_of(handle) == Handle::kLaunch && t_thread) {
    t_thread->nccl_call = {};
  }
  return kNcclSuccess;
}

int record_event_state(void* handle, int state, NcclStateDetails* details) {
  if (handle && details && state == kNcclKernelChStop && what_of(handle) == Handle::kChannel)
    stop_channel(handle, details->kernel_ch.timer_ns);
  if (handle && details && state == kNcclKernelPhaseStop && what_of(handle) == Handle::kPhase)
    stop_phase(handle, details->kernel_ch.timer_ns);
  return kNcclSuccess;
}

int finalize(void*) { return kNcclSuccess; }

}  // namespace

}  // namespace ddl

#define DDL_NCCL_PROFILER(VERSION, INIT, DESCRIPTOR)                                                               \
  extern "C" __attribute__((visibility("default"))) const ddl::NcclPlugin<decltype(ddl::INIT)>                     \
      ncclProfiler_v##VERSION = {                                                                                  \
          "ddl",        ddl::INIT, ddl::start_event_of<ddl::DESCRIPTOR>, ddl::stop_event, ddl::record_event_state, \
          ddl::finalize};
DDL_NCCL_PROFILER(4, init_v4, NcclDescriptorV4)
DDL_NCCL_PROFILER(5, init_v5, NcclDescriptor)
DDL_NCCL_PROFILER(6, init_v6, NcclDescriptor)
DDL_NCCL_PROFILER(7, init_v7, NcclDescriptor)
