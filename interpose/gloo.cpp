#include "interpose/gloo.h"

#include <errno.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "core/lock_and_pages.h"
#include "interpose/wrapper.h"

namespace ddl {
namespace {

constexpr uint32_t kSlots = 1u << 10;             // of which three quarters may be in use
constexpr uint32_t kFirstIndex = (1u << 17) + 1;  // MPI's and NCCL's are below
constexpr uint32_t kTags = 64;                    // collectives of a group that may run at a time, at the least
constexpr uint32_t kTagBits = 27;                 // of Record::sequence
constexpr uint32_t kUses = 8;                     // of one tag that are told apart beside it
constexpr uint64_t kMaxElementBytes = 16;

struct GlooContext {
  uint64_t key;  ///< its address; 0: free slot
  uint32_t index;
  int32_t size;
  int32_t rank;
  uint64_t tags[kTags];  ///< tag + 1:32 | how often it was seen:32
};
GlooContext g_contexts[kSlots];
uint32_t g_used = 0;
uint32_t g_count = 0;
uint32_t g_unnamed = 0;    // groups as large as the job that nobody named
int g_owner = 0;           // process id of who has told the spool of Gloo
uint64_t g_named[kSlots];  // hashes of names: a group's second context, or a second group of that name, is another one

struct Group {
  const char* name;
  const int* ranks;
  int count;
  uint32_t first;  ///< index of the first context made
};
__thread Group t_group __attribute__((tls_model("initial-exec"))) = {};

/// The call that python/ddl_hooks has begun on this thread.
struct Told {
  OpenCall call;
  uint32_t depth;  ///< those within it are not recorded
};
__thread Told t_told __attribute__((tls_model("initial-exec"))) = {};

struct OpRow {
  uint32_t op;
  OpClass op_class;
  const char* name;
  bool nonblocking;
};
constexpr OpRow kOps[] = {
#define DDL_GLOO_COLLECTIVE(name, op_class, ...) {kOp_gloo_##name, op_class, "gloo::" #name, false},
#define DDL_GLOO_TOLD(name, op_class, nonblocking) {kOp_gloo_##name, op_class, "gloo::" #name, nonblocking},
#include "interpose/gloo_calls.def"
};
constexpr size_t kPrefix = sizeof "gloo::" - 1;

uint64_t hash_in(uint64_t hash, uint64_t value) {
  hash = (hash ^ (value + 0x9e3779b97f4a7c15ull)) * 0xbf58476d1ce4e5b9ull;
  return hash ^ hash >> 29;
}

uint32_t slot_of(uint64_t key) {
  return static_cast<uint32_t>((key ^ key >> 17) * 0x9e3779b97f4a7c15ull >> 32) % kSlots;
}

GlooContext* find_context(const void* context) {
  const uint64_t key = reinterpret_cast<uintptr_t>(context);
  if (key == 0) return nullptr;
  for (uint32_t i = slot_of(key), probes = 0; probes < kSlots; i = (i + 1) % kSlots, ++probes) {
    const uint64_t there = __atomic_load_n(&g_contexts[i].key, __ATOMIC_ACQUIRE);
    if (there == key) return &g_contexts[i];
    if (there == 0) break;
  }
  return nullptr;
}

/// True: record. A forked child that makes contexts of its own is a process of its own.
bool start_gloo() {
  const int self = getpid();
  if (__atomic_load_n(&g_owner, __ATOMIC_ACQUIRE) == self) return g_process.active;
  if (!start_recorder_from_gloo()) return false;
  for (const OpRow& row : kOps) write_operation(row.op, row.op_class, row.nonblocking, row.name);
  write_fact("gloo.source", "calls");
  write_modules();
  __atomic_store_n(&g_owner, self, __ATOMIC_RELEASE);
  return true;
}
bool records_gloo() { return g_process.active && __atomic_load_n(&g_owner, __ATOMIC_ACQUIRE) == getpid(); }

/// How often a group of that hash was made here before. The caller holds the lock.
uint32_t times_named(uint64_t hash) {
  uint32_t before = 0;
  for (uint32_t i = 0; i < g_count && i < kSlots; ++i) before += g_named[i] == hash;
  if (g_count < kSlots) g_named[g_count] = hash;
  return before;
}

/// Enters it into the table and gives it its index and identity. The caller holds the lock. False: no room.
bool insert(void* context, const Group& group, bool is_job, CommunicatorMeta& meta) {
  GlooContext* slot = find_context(context);  // the address may be used again
  if (!slot) {
    if (g_used >= kSlots / 4 * 3) return false;
    uint32_t i = slot_of(reinterpret_cast<uintptr_t>(context));
    while (g_contexts[i].key != 0) i = (i + 1) % kSlots;
    slot = &g_contexts[i];
    ++g_used;
  }
  const FileHeader* header = spool_header();
  uint64_t hash = hash_in(0x676c6f6f, static_cast<uint32_t>(meta.size));
  if (group.name) {
    for (const char* at = group.name; *at; ++at) hash = hash_in(hash, static_cast<unsigned char>(*at));
    for (int i = 0; i < meta.size; ++i) hash = hash_in(hash, static_cast<uint32_t>(group.ranks[i]));
    hash = hash_in(hash, times_named(hash));
  } else if (is_job) {
    hash = hash_in(hash, g_unnamed++);
  } else {  // with whom it is shared nobody said: one of its own
    hash = hash_in(hash_in(hash_in(hash, header->process_start), header->pid), header->begin.realtime_ns + g_count);
  }
  meta.uid = hash;
  meta.index = kFirstIndex + g_count++;
  slot->index = meta.index;
  slot->size = meta.size;
  slot->rank = meta.rank;
  memset(slot->tags, 0, sizeof slot->tags);
  __atomic_store_n(&slot->key, reinterpret_cast<uintptr_t>(context), __ATOMIC_RELEASE);
  return true;
}

void describe(CommunicatorMeta meta, const Group& group, bool is_job) {
  constexpr int kMaxRuns = 4096;  // of a larger group the members are not known
  auto* runs = static_cast<RankRun*>(take_pages(kMaxRuns * sizeof(RankRun)));
  if (runs && is_job) {
    runs[meta.runs++] = {0, 1, meta.size};
  } else if (runs && group.name && meta.size <= kMaxRuns) {
    for (int i = 0; i < meta.size;) {
      const int stride = i + 1 < meta.size ? group.ranks[i + 1] - group.ranks[i] : 1;
      int length = 1;
      while (i + length < meta.size && group.ranks[i + length] - group.ranks[i + length - 1] == stride) ++length;
      runs[meta.runs++] = {group.ranks[i], stride, length};
      i += length;
    }
  }
  write_communicator(meta, runs);
  if (runs) give_back_pages(runs, kMaxRuns * sizeof(RankRun));
  const size_t length = group.name ? strnlen(group.name, 255) : 0;
  write_communicator_name({meta.index, length > 0 ? intern_name(group.name, length) : intern_name("gloo", 4)});
}

void add_context(void* context, int rank, int size) {
  if (size < 1 || rank < 0 || rank >= size) return;
  const FileHeader* header = spool_header();
  const Group group = t_group.name && t_group.count == size ? t_group : Group{};
  const bool is_job = !group.name && header->launch_size == size && header->launch_rank == rank;
  CommunicatorMeta meta = {0, kNoComm, 0, size, rank, 0, kCommGloo, 0, 0};
  {
    const Lock lock;
    if (!lock || !insert(context, group, is_job, meta)) return count_loss(kLossCommunicators);
  }
  if (t_group.first == 0) t_group.first = meta.index;
  describe(meta, group, is_job);
}

/// The options of a call: an object of Gloo's that its caller holds.
struct Options {
  const char* at;

  const void* context() const {
    const void* value;
    memcpy(&value, at, sizeof value);
    return value;
  }
  uint64_t word(size_t offset) const {
    uint64_t value;
    memcpy(&value, at + offset, sizeof value);
    return value;
  }
  int32_t number(size_t offset) const {
    int32_t value;
    memcpy(&value, at + offset, sizeof value);
    return value;
  }
  /// Elements times their size.
  uint64_t product(size_t elements, size_t element_bytes) const {
    uint64_t bytes = 0;
    if (word(element_bytes) > kMaxElementBytes || __builtin_mul_overflow(word(elements), word(element_bytes), &bytes))
      return 0;
    return bytes;
  }
  /// Bytes of a buffer (an UnboundBuffer: table, address, size). Read by way of the kernel: what does not lie there
  /// must not end the job.
  uint64_t buffer(size_t offset) const {
    const int saved_errno = errno;
    uint64_t bytes = 0;
    const iovec to = {&bytes, sizeof bytes}, from = {reinterpret_cast<void*>(word(offset) + 16), sizeof bytes};
    if (word(offset) == 0 || process_vm_readv(getpid(), &to, 1, &from, 1, 0) != static_cast<ssize_t>(sizeof bytes))
      bytes = 0;
    errno = saved_errno;
    return bytes;
  }
};

/// The number of a collective: its tag, counted from 1, and how often its group has used it before: PyTorch makes some
/// of two, and other programs give no tags at all.
uint32_t sequence_of(GlooContext* c, uint32_t tag) {
  uint64_t* entry = &c->tags[tag % kTags];
  const uint64_t first = (static_cast<uint64_t>(tag) + 1) << 32;
  uint64_t seen = __atomic_load_n(entry, __ATOMIC_RELAXED), now;
  do {
    now = seen >> 32 == first >> 32 ? seen + 1 : first;
  } while (!__atomic_compare_exchange_n(entry, &seen, now, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
  const uint32_t before = static_cast<uint32_t>(now);
  if (before < kUses) return ((tag + 1) & ((1u << kTagBits) - 1)) | before << kTagBits;
  return 1u << 31 | (before * kTags + tag % kTags);
}

}  // namespace

void reset_gloo() {
  memset(static_cast<void*>(g_contexts), 0, sizeof g_contexts);
  g_used = g_count = g_unnamed = 0;
  g_owner = 0;
}

}  // namespace ddl

using namespace ddl;

// clang-format off
/// An exception of Gloo's (a timeout, a rank that went away) passes through: the call stays open, which is where the rank was when that happened.
#define DDL_GLOO_COLLECTIVE(NAME, CLASS, SYMBOL, PAYLOAD, ROOT_AT, TAG_AT)                                                        \
  extern "C" __attribute__((visibility("default"))) void SYMBOL(void* options) {                                                  \
    static void* known = nullptr;                                                                                                 \
    const void* const site = DDL_CALLER;                                                                                          \
    auto real = reinterpret_cast<void (*)(void*)>(__atomic_load_n(&known, __ATOMIC_RELAXED));                                     \
    if (__builtin_expect(!real, 0)) {                                                                                             \
      real = reinterpret_cast<void (*)(void*)>(resolve(#SYMBOL, site));                                                           \
      if (!real) __builtin_trap();  /* it was there when the job was linked */                                                    \
      __atomic_store_n(&known, reinterpret_cast<void*>(real), __ATOMIC_RELAXED);                                                  \
    }                                                                                                                             \
    const Options o = {static_cast<const char*>(options)};                                                                        \
    GlooContext* const c = records_gloo() ? find_context(o.context()) : nullptr;                                                  \
    if (!c) return real(options);                                                                                                 \
    is_inside_call(__builtin_dwarf_cfa());                                                                                        \
    const uint64_t payload = record_payload(PAYLOAD, 0, 0);                                                                       \
    before_collective();                                                                                                          \
    const OpenCall call = begin_call(kOp_gloo_##NAME, site, c->index, true, sequence_of(c, static_cast<uint32_t>(o.number(TAG_AT))), \
                                     (ROOT_AT) < 0 ? -1 : o.number((ROOT_AT) < 0 ? 0 : (ROOT_AT)), payload);                      \
    real(options);                                                                                                                \
    if (call.thread) end_call(call, payload);                                                                                     \
  }
#define DDL_GLOO_TOLD(...)
#include "interpose/gloo_calls.def"
// clang-format on

/// gloo::rendezvous::Context::Context(int rank, int size, int base)
extern "C" __attribute__((visibility("default"))) void _ZN4gloo10rendezvous7ContextC1Eiii(void* self, int rank,
                                                                                          int size, int base) {
  static void* known = nullptr;
  auto real = reinterpret_cast<void (*)(void*, int, int, int)>(__atomic_load_n(&known, __ATOMIC_RELAXED));
  if (!real) {
    real = reinterpret_cast<void (*)(void*, int, int, int)>(resolve("_ZN4gloo10rendezvous7ContextC1Eiii", DDL_CALLER));
    if (!real) __builtin_trap();
    __atomic_store_n(&known, reinterpret_cast<void*>(real), __ATOMIC_RELAXED);
  }
  real(self, rank, size, base);
  const int saved_errno = errno;
  if (start_gloo()) add_context(self, rank, size);
  errno = saved_errno;
}

extern "C" void ddl_group_begin(const char* name, const int* ranks, int count) { t_group = {name, ranks, count, 0}; }
extern "C" uint32_t ddl_group_end(void) {
  const uint32_t first = t_group.first;
  t_group = {};
  return first;
}

extern "C" void ddl_told_begin(const char* name, uint32_t group, int peer, uint32_t number, uint64_t bytes) {
  Told& told = t_told;
  if (told.depth++ > 0) return;
  told.call.thread = nullptr;
  const OpRow* row = kOps;
  while (row < kOps + sizeof kOps / sizeof *kOps && strcmp(row->name + kPrefix, name) != 0) ++row;
  if (row == kOps + sizeof kOps / sizeof *kOps || !records_gloo()) return;
  const bool collective = row->op_class == OpClass::kBarrier;
  is_inside_call(__builtin_dwarf_cfa());
  told.call = begin_call(row->op, nullptr, group, collective, collective ? number | kToldCollective : number, peer,
                         record_payload(bytes, 0, 0));
  // What is called until it ends is called from inside it: this frame, which says so elsewhere, will be gone.
  if (told.call.thread && told.call.outermost) set_call(told.call.thread, call_of(told.call.thread) | ~uint64_t{15});
}

extern "C" void ddl_told_end(int peer, struct ddl_posted* posted) {
  Told& told = t_told;
  if (told.depth == 0 || --told.depth > 0 || !told.call.thread) return;
  OpenCall call = told.call;
  const bool outermost = call.outermost;
  call.outermost = false;  // left below
  told.call.thread = nullptr;
  const bool waits = call.op == kOp_gloo_wait;
  const bool intact = call.record->start_ticks == call.start_ticks;  // else the ring went round
  if (peer >= 0 && !waits) set_source(call, peer, call.record->sequence);
  if (posted && !waits && intact) {
    *posted = {call.start_ticks,      call.payload,      call.comm, call.context,
               call.record->sequence, call.record->peer, call.op,   call.keep};
  }
  const uint64_t now = end_call(call, call.payload);
  if (outermost) leave_told_call(call.thread, now - call.start_ticks);
  if (!posted || !waits || posted->start_ticks == 0) return;
  write_record(call.thread, posted->kept != 0,
               {.start_ticks = posted->start_ticks,
                .word = record_word(RecordKind::kRequest, posted->op, now - posted->start_ticks),
                .payload = posted->payload,
                .comm = posted->comm,
                .context = posted->context,
                .sequence = posted->sequence,
                .peer = peer >= 0 ? peer : posted->peer});
}
