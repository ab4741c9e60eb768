// Groups of NCCL calls, and how its communicators begin and end.
//
// A communicator that does not block answers ncclInProgress and gives its handle out at once: it is known from then on.
// What is not told by the arguments of the call that made it (the rank after a split) is asked when it is first used,
// when it must be ready.
#include <stdio.h>
#include <string.h>

#include "collectors/collectors.h"
#include "core/dynamic_loading.h"
#include "interpose/mpi_abi.h"
#include "interpose/nccl.h"
#include "interpose/process.h"

namespace ddl {

NcclFunction g_nccl_functions[kNcclOpEnd - kFirstNcclOp];
bool g_nccl_recording = false;

namespace {

enum class State : uint32_t { kUnknown, kOn, kOff };
State g_state = State::kUnknown;

struct OpRow {
  uint32_t op;
  OpClass op_class;
  bool collective;
  const char* name;
};
constexpr OpRow kOps[] = {
#define DDL_NCCL_ROW(name, op_class, collective) {kOp_##name, op_class, collective, #name},
#include "interpose/nccl_calls.def"
};

bool is_done(ncclResult_t result) { return result == kNcclSuccess || result == kNcclInProgress; }

/// "2.28.9 from /usr/lib/libnccl.so.2"
void write_version(const void* caller) {
  const auto get_version = reinterpret_cast<ncclResult_t (*)(int*)>(resolve("ncclGetVersion", caller));
  int code = 0;
  if (!get_version || get_version(&code) != kNcclSuccess) return;
  const int major = code >= 10000 ? 10000 : 1000;  // 2.9 changed how the number is made
  Dl_info info = {};
  char text[512];
  snprintf(text, sizeof text, "%d.%d.%d from %.400s", code / major, code % major / 100, code % 100,
           &dladdr && dladdr(reinterpret_cast<void*>(get_version), &info) && info.dli_fname ? info.dli_fname : "?");
  write_fact("nccl", text);
}

uint64_t hash_ids(const ncclUniqueId* ids, int count, int ranks) {
  uint64_t hash = static_cast<uint32_t>(ranks);
  for (int i = 0; i < count; ++i) {
    for (size_t at = 0; at < sizeof ids[i].internal; at += sizeof(uint64_t)) {
      uint64_t word;
      memcpy(&word, ids[i].internal + at, sizeof word);
      hash = nccl_hash(hash, word);
    }
  }
  return hash;
}

/// For communicators that are all in this process.
uint64_t hash_process(uint32_t occurrence) {
  const FileHeader* header = spool_header();
  return nccl_hash(nccl_hash(nccl_hash(header->process_start, header->pid), header->begin.realtime_ns), occurrence);
}

void mark_entered() { __atomic_fetch_or(&spool_header()->flags, kNcclEntered, __ATOMIC_RELAXED); }

/// A communicator made from another one by all that will be its members. `which` tells the new ones of one call apart:
/// of a split the color.
void add_child(ncclComm_t comm, NcclCommunicator* parent, uint64_t which, uint32_t op, const ncclConfig_t* config,
               const void* site, ncclResult_t result) {
  if (!parent || !is_done(result)) return;
  const uint32_t number = __atomic_fetch_add(&parent->children, 1, __ATOMIC_RELAXED);
  const bool split = op == kOp_ncclCommSplit;
  add_nccl_communicator(
      comm, nccl_hash(nccl_hash(nccl_hash(parent->uid, op), number), which), 0, -1,
      {op, parent, split ? number + 1 : 0, split ? static_cast<int32_t>(which) : 0, nccl_name_in(config)});
  if (comm && result == kNcclSuccess && t_nccl.group_depth == 0) use_nccl_communicator(comm, site);
}

template <class CallReal>
ncclResult_t host_call(uint32_t op, const void* site, ncclComm_t comm, CallReal call_real) {
  const NcclCommunicator* c = find_nccl_communicator(comm);
  NcclHostCall host(op, site, c ? c->index : kNoComm, false, kNoSequence, -1, 0);
  const ncclResult_t result = call_real();
  host.end();
  return result;
}

template <class CallReal>
ncclResult_t initialize(uint32_t op, const void* site, ncclComm_t* comm, const ncclUniqueId* ids, int id_count,
                        int ranks, int rank, const ncclConfig_t* config, CallReal call_real) {
  mark_entered();
  const uint64_t uid = ranks > 0 && id_count > 0 ? hash_ids(ids, id_count, ranks) : 0;
  const ncclResult_t result = host_call(op, site, nullptr, call_real);
  if (is_done(result) && comm)
    add_nccl_communicator(*comm, uid, ranks, rank, {op, nullptr, 0, 0, nccl_name_in(config)});
  return result;
}

template <class Real>
ncclResult_t end_communicator(uint32_t op, Real real, const void* site, ncclComm_t comm) {
  NcclCommunicator* removed = remove_nccl_communicator(comm);
  NcclHostCall host(op, site, removed ? removed->index : kNoComm, false, kNoSequence, -1, 0);
  const ncclResult_t result = real(comm);
  host.end();
  if (!is_done(result)) restore_nccl_communicator(removed, comm);
  if (removed && have_nccl_communicators_ended()) flush_devices();  // many jobs of Python then leave by os._exit
  return result;
}

// ------------------------------------------------------------------------------------------------------------ by hand

template <class Real>
ncclResult_t ncclGroupStart_recorded(Real real, const void* site) {
  const ncclResult_t result = host_call(kOp_ncclGroupStart, site, nullptr, [&] { return real(); });
  if (result == kNcclSuccess && t_nccl.group_depth++ == 0) t_nccl.group_parts = 0;
  return result;
}

/// The outermost end launches what the group has collected. Among several communicators NCCL's profiler tells which
/// is being launched.
template <class Real>
ncclResult_t ncclGroupEnd_recorded(Real real, const void* site) {
  Thread* thread = this_thread();
  for (uint32_t i = 0; t_nccl.group_depth == 1 && i < t_nccl.group_parts && i < kMaxGroupParts; ++i) {
    if (t_nccl.group[i].count > 1) write_nccl_group(t_nccl.group[i], thread ? thread->context : 0);
  }
  if (thread && t_nccl.group_depth == 1 && t_nccl.group_parts == 1)
    thread->nccl_call = {t_nccl.group[0].comm, t_nccl.group[0].first};
  const ncclResult_t result = host_call(kOp_ncclGroupEnd, site, nullptr, [&] { return real(); });
  if (thread) thread->nccl_call = {};
  if (t_nccl.group_depth > 0) --t_nccl.group_depth;
  return result;
}

template <class Real>
ncclResult_t ncclCommInitRank_recorded(Real real, const void* site, ncclComm_t* comm, int ranks, ncclUniqueId id,
                                       int rank) {
  return initialize(kOp_ncclCommInitRank, site, comm, &id, 1, ranks, rank, nullptr,
                    [&] { return real(comm, ranks, id, rank); });
}

template <class Real>
ncclResult_t ncclCommInitRankConfig_recorded(Real real, const void* site, ncclComm_t* comm, int ranks, ncclUniqueId id,
                                             int rank, ncclConfig_t* config) {
  return initialize(kOp_ncclCommInitRankConfig, site, comm, &id, 1, ranks, rank, config,
                    [&] { return real(comm, ranks, id, rank, config); });
}

template <class Real>
ncclResult_t ncclCommInitRankScalable_recorded(Real real, const void* site, ncclComm_t* comm, int ranks, int rank,
                                               int id_count, ncclUniqueId* ids, ncclConfig_t* config) {
  return initialize(kOp_ncclCommInitRankScalable, site, comm, ids, ids ? id_count : 0, ranks, rank, config,
                    [&] { return real(comm, ranks, rank, id_count, ids, config); });
}

template <class Real>
ncclResult_t ncclCommInitAll_recorded(Real real, const void* site, ncclComm_t* comms, int count, const int* devices) {
  static uint32_t occurrences = 0;
  mark_entered();
  const ncclResult_t result =
      host_call(kOp_ncclCommInitAll, site, nullptr, [&] { return real(comms, count, devices); });
  if (!is_done(result)) return result;
  const uint64_t uid = hash_process(__atomic_fetch_add(&occurrences, 1, __ATOMIC_RELAXED));
  for (int i = 0; i < count; ++i)
    add_nccl_communicator(comms[i], uid, count, i, {kOp_ncclCommInitAll, nullptr, 0, 0, 0});
  return result;
}

template <class Real>
ncclResult_t ncclCommSplit_recorded(Real real, const void* site, ncclComm_t comm, int color, int key, ncclComm_t* child,
                                    ncclConfig_t* config) {
  const ncclResult_t result =
      host_call(kOp_ncclCommSplit, site, comm, [&] { return real(comm, color, key, child, config); });
  add_child(child ? *child : nullptr, find_nccl_communicator(comm), static_cast<uint32_t>(color), kOp_ncclCommSplit,
            config, site, result);
  return result;
}

template <class Real>
ncclResult_t ncclCommShrink_recorded(Real real, const void* site, ncclComm_t comm, int* excluded, int excluded_count,
                                     ncclComm_t* child, ncclConfig_t* config, int flags) {
  uint64_t left_out = 0;  // in any order: the list need not be the same on all ranks
  for (int i = 0; i < excluded_count; ++i) left_out += nccl_hash(1, static_cast<uint32_t>(excluded[i]));
  const ncclResult_t result = host_call(kOp_ncclCommShrink, site, comm,
                                        [&] { return real(comm, excluded, excluded_count, child, config, flags); });
  add_child(child ? *child : nullptr, find_nccl_communicator(comm), left_out, kOp_ncclCommShrink, config, site, result);
  return result;
}

template <class Real>
ncclResult_t ncclCommDestroy_recorded(Real real, const void* site, ncclComm_t comm) {
  return end_communicator(kOp_ncclCommDestroy, real, site, comm);
}

template <class Real>
ncclResult_t ncclCommAbort_recorded(Real real, const void* site, ncclComm_t comm) {
  return end_communicator(kOp_ncclCommAbort, real, site, comm);
}

}  // namespace

bool start_nccl(const void* site) {
  State state;
  __atomic_load(&g_state, &state, __ATOMIC_RELAXED);
  if (state == State::kOff) return false;
  state = start_recorder_from_nccl() ? State::kOn : State::kOff;
  if (state == State::kOn) {
    for (const OpRow& row : kOps) write_operation(row.op, row.op_class, row.collective, row.name);
    write_fact("nccl.source", "calls");
    ++t_nccl.depth;
    write_version(site);
    --t_nccl.depth;
    write_modules();
  }
  __atomic_store(&g_state, &state, __ATOMIC_RELEASE);
  __atomic_store_n(&g_nccl_recording, state == State::kOn, __ATOMIC_RELEASE);
  return state == State::kOn;
}

void* resolve_nccl(const char* name, const void* caller) {
  if (void* found = resolve(name, caller)) return found;
  char strong_name[64] = "p";
  strncat(strong_name, name, sizeof strong_name - 2);
  return resolve(strong_name, caller);
}

}  // namespace ddl

using namespace ddl;

// clang-format off
#define DDL_NCCL_BY_HAND(NAME, CLASS, PARAMETERS, ARGUMENTS) DDL_NCCL_EXPORT(NAME) PARAMETERS; DDL_NCCL_EXPORTS(NAME, PARAMETERS, ARGUMENTS)
#include "interpose/nccl_calls.def"
// clang-format on
