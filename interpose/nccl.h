// NCCL's communicators and the collectives that are under way, shared by the wrappers (nccl_wrappers.cpp,
// nccl_lifecycle.cpp) and by NCCL's profiler plugin (collectors/nccl_profiler.cpp). Injected code.
//
// The identity of a communicator is the same on all its members without a message: a hash of the unique id that they
// all pass and of their number; of a communicator made from another one, of the parent's identity, the colour (or who
// is left out) and how many were made from the parent before. A collective is known by its communicator and its number
// on it, counted from 1 when it is enqueued.
#pragma once

#include "interpose/nccl_abi.h"

namespace ddl {

struct alignas(64) NcclCommunicator {
  uint64_t key;  ///< the handle; 0: free slot; 1: was used
  uint64_t uid;
  uint32_t index;     ///< Record::comm; kNoComm: stands for one that is not known
  uint32_t sequence;  ///< collectives enqueued so far
  int32_t size;       ///< 0: not known yet (split, and not ready when it was)
  int32_t rank;
  uint32_t children;      ///< communicators made from it so far
  uint32_t parent;        ///< CommunicatorMeta::parent
  uint32_t op;            ///< CommunicatorMeta::op
  uint32_t profiled : 1;  ///< it is known which of the profiler's communicators this is
  uint32_t split : 31;    ///< CommSplitMeta::number; 0: it came of no split
  int32_t color;          ///< CommSplitMeta::color
  uint32_t name;          ///< string id of what the program calls it; 0: no name
};
static_assert(sizeof(NcclCommunicator) == 64);

/// The collective or message whose call this thread is in.
struct NcclCall {
  NcclCommunicator* communicator;  ///< null: in none
  uint32_t op;
  uint32_t sequence;
  uint32_t context;  ///< Record::context
  int32_t root;      ///< or peer
  uint64_t payload;  ///< record_payload()
};

/// The part of a group that is on one communicator.
struct NcclGroupPart {
  uint32_t comm;   ///< Record::comm
  uint32_t first;  ///< Record::sequence of its first collective; kNoSequence: it has only messages
  uint32_t count;  ///< collectives
};
/// So that whoever finds their common kernel knows whose it is.
void write_nccl_group(const NcclGroupPart& part, uint32_t context);
constexpr uint32_t kMaxGroupParts = 8;

/// A thread's state in NCCL.
struct NcclThread {
  uint32_t depth;        ///< calls being recorded; calls nested in them pass through
  uint32_t group_depth;  ///< ncclGroupStart without its end
  uint32_t group_parts;  ///< communicators that the group has work on; beyond kMaxGroupParts they are only counted
  NcclGroupPart group[kMaxGroupParts];
  NcclCall call;
};
extern __thread NcclThread t_nccl __attribute__((tls_model("initial-exec"), visibility("hidden")));

/// True: record this call; starts the recorder at the first.
bool start_nccl(const void* site);
extern bool g_nccl_recording __attribute__((visibility("hidden")));
inline bool records_nccl(const void* site) {
  const bool recording = __atomic_load_n(&g_nccl_recording, __ATOMIC_RELAXED);
  return t_nccl.depth == 0 && ((__builtin_expect(recording && g_process.active, 1)) || start_nccl(site));
}

/// Never NULL. Asks NCCL for what is not known of it yet: for calls whose communicator must be ready.
NcclCommunicator* use_nccl_communicator(ncclComm_t comm, const void* site);
/// NULL: not known.
NcclCommunicator* find_nccl_communicator(ncclComm_t comm);
/// Facts about a communicator beside its members.
struct NcclOrigin {
  uint32_t op;                     ///< that made it
  const NcclCommunicator* parent;  ///< NULL: none
  uint32_t split;                  ///< as in NcclCommunicator
  int32_t color;
  uint32_t name;
};
/// `size` 0: not known yet. A null handle is fine.
void add_nccl_communicator(ncclComm_t comm, uint64_t uid, int size, int rank, const NcclOrigin& origin);
/// The string id of the name that a program gave a communicator; 0: none. For calls that NCCL has accepted: it has
/// read the name itself.
uint32_t nccl_name_in(const ncclConfig_t* config);
uint32_t nccl_name(const char* name);
/// The name by NCCL's profiler, where no other is known.
void name_nccl_communicator(NcclCommunicator* communicator, uint32_t name);
NcclCommunicator* remove_nccl_communicator(ncclComm_t comm);
void restore_nccl_communicator(NcclCommunicator* removed, ncclComm_t comm);
/// No communicator is left that is known.
bool have_nccl_communicators_ended();
void reset_nccl_communicators();

/// Recently enqueued calls, for a profiler that is not told of them (version 4 and older).
struct NcclEnqueued {
  NcclCommunicator* communicator;
  uint32_t op;
  uint32_t sequence;
  uint32_t context;
  bool taken;
  const void* receive;
};
void keep_nccl_enqueued();
void add_nccl_enqueued(const NcclEnqueued& enqueued);
void forget_nccl_enqueued(const NcclCommunicator* communicator, uint32_t sequence);  ///< NCCL refused it
/// The oldest of that operation and buffer on the communicator, or, if it is not known which it is, on any with that
/// size and rank. NULL: none.
const NcclEnqueued* take_nccl_enqueued(const NcclCommunicator* communicator, int size, int rank, uint32_t op,
                                       const void* receive);
/// NCCL's profiler tells of calls too. A call on a communicator that we have not seen being made, as one that NCCL
/// itself makes when it was opened with dlopen, is left to it.
extern bool g_nccl_profiled __attribute__((visibility("hidden")));
/// Our wrappers see the program's calls.
extern bool g_nccl_wrapped __attribute__((visibility("hidden")));

uint64_t nccl_hash(uint64_t hash, uint64_t value);

/// The next ncclX after ours; where nobody has it, pncclX.
void* resolve_nccl(const char* name, const void* caller);

/// An ordinary call on the host: recorded as such, but not as time inside MPI.
class NcclHostCall {
 public:
  NcclHostCall(uint32_t op, const void* site, uint32_t comm, bool collective, uint32_t sequence, int32_t peer,
               uint64_t payload)
      : outer_ticks_(t_thread ? t_thread->call_ticks : 0),
        call_(begin_call(op, site, comm, collective, sequence, peer, payload)) {
    ++t_nccl.depth;
  }
  /// NCCL has not enqueued it: its number is that of the next one.
  void refused() {
    if (call_.thread && call_.record->start_ticks == call_.start_ticks) call_.record->sequence = kNoSequence;
  }
  void end() {
    --t_nccl.depth;
    if (!call_.thread) return;
    end_call(call_, call_.payload);
    call_.thread->call_ticks = outer_ticks_;
  }
  Thread* thread() const { return call_.thread; }
  uint32_t context() const { return call_.context; }

 private:
  uint64_t outer_ticks_;
  OpenCall call_;
};

}  // namespace ddl

// Defines ncclX and pncclX, as DDL_EXPORTS does for MPI (wrapper.h). NAME_recorded(real, site, arguments...) does the
// work. clang-format off
#define DDL_NCCL_EXPORT(NAME) extern "C" __attribute__((visibility("default"))) ncclResult_t NAME
#define DDL_NCCL_EXPORTS(NAME, PARAMETERS, ARGUMENTS)                                                            \
  DDL_NCCL_EXPORT(NAME)                                                                                          \
  PARAMETERS{DDL_NCCL_ENTER(NAME, NAME##_recorded, nccl, resolve_nccl(#NAME, site), ARGUMENTS)} DDL_NCCL_EXPORT( \
      p##NAME) PARAMETERS {                                                                                      \
    DDL_NCCL_ENTER(NAME, NAME##_recorded, pnccl, resolve("p" #NAME, site), ARGUMENTS)                            \
  }
#define DDL_NCCL_ENTER(NAME, RECORDED, KIND, RESOLVE, ARGUMENTS)                            \
  const void* const site = __builtin_extract_return_addr(__builtin_return_address(0));      \
  void*& known = g_nccl_functions[kOp_##NAME - kFirstNcclOp].KIND;                          \
  auto real = reinterpret_cast<decltype(&NAME)>(__atomic_load_n(&known, __ATOMIC_RELAXED)); \
  if (__builtin_expect(!real, 0)) {                                                         \
    real = reinterpret_cast<decltype(&NAME)>(RESOLVE);                                      \
    if (!real) return kNcclInternalError;                                                   \
    __atomic_store_n(&known, reinterpret_cast<void*>(real), __ATOMIC_RELAXED);              \
  }                                                                                         \
  if (!records_nccl(site)) return real ARGUMENTS;                                           \
  return RECORDED(real, site DDL_NCCL_MORE ARGUMENTS);
#define DDL_NCCL_MORE(...) __VA_OPT__(, ) __VA_ARGS__
#define DDL_NCCL_UNLIST(...) __VA_ARGS__
// clang-format on

namespace ddl {
struct NcclFunction {
  void* nccl;   ///< next ncclX
  void* pnccl;  ///< next pncclX
};
extern NcclFunction g_nccl_functions[kNcclOpEnd - kFirstNcclOp] __attribute__((visibility("hidden")));
}  // namespace ddl
