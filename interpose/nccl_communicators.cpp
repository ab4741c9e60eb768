#include <string.h>

#include <initializer_list>

#include "core/lock_and_pages.h"
#include "interpose/mpi_abi.h"
#include "interpose/nccl.h"

namespace ddl {

__thread NcclThread t_nccl __attribute__((tls_model("initial-exec"))) = {};

namespace {

constexpr uint32_t kSlots = 1u << 12;             // of which three quarters may be in use at a time
constexpr uint32_t kFirstIndex = (1u << 16) + 1;  // MPI's are below
constexpr uint32_t kMaxCommunicators = 1u << 16;  // ever described in the spool
constexpr uint64_t kRemoved = 1;

NcclCommunicator g_table[kSlots];
NcclCommunicator g_none = {0, 0, kNoComm, 0, 1, -1, 0, 0, 0, 0, 0, 0, 0};
uint32_t g_used = 0;
uint32_t g_count = 0;

uint64_t key_of(ncclComm_t comm) { return reinterpret_cast<uintptr_t>(comm); }
uint32_t slot_of(uint64_t key) {
  return static_cast<uint32_t>((key ^ key >> 17) * 0x9e3779b97f4a7c15ull >> 32) % kSlots;
}

constexpr uint32_t kMostUsed = kSlots / 4 * 3;

/// Makes places of removed ones free where no search goes on behind them, as in communicators.cpp. The
/// caller holds the lock.
void clear_removed() {
  uint32_t free = 0;
  while (g_table[free].key) ++free;
  for (uint32_t n = 1; n < kSlots; ++n) {
    const uint32_t i = (free + kSlots - n) % kSlots;
    if (g_table[i].key != kRemoved || g_table[(i + 1) % kSlots].key) continue;
    __atomic_store_n(&g_table[i].key, 0, __ATOMIC_RELEASE);
    --g_used;
  }
}

/// NULL: the table is full.
NcclCommunicator* insert(const NcclCommunicator& value) {
  const Lock lock;
  if (!lock || g_count >= kMaxCommunicators) return nullptr;
  if (g_used >= kMostUsed) clear_removed();
  uint32_t i = slot_of(value.key);
  while (g_table[i].key > kRemoved) i = (i + 1) % kSlots;
  if (!g_table[i].key) {
    if (g_used >= kMostUsed) return nullptr;
    ++g_used;
  }
  NcclCommunicator* slot = &g_table[i];
  const uint64_t key = value.key;
  *slot = value;
  slot->key = kRemoved;
  slot->index = kFirstIndex + g_count++;
  __atomic_store_n(&slot->key, key, __ATOMIC_RELEASE);
  return slot;
}

constexpr size_t kMaxNameBytes = 255;

void describe(const NcclCommunicator& c) {
  write_communicator({c.index, c.parent, c.uid, c.size, c.rank, c.op, kCommNccl, 0, 0}, nullptr);
  if (c.name != 0) write_communicator_name({c.index, c.name});
  if (c.split != 0) write_communicator_split({c.index, c.split, c.color, 0});
}

bool ask(ncclComm_t comm, const void* site, int* size, int* rank) {
  using Ask = ncclResult_t (*)(ncclComm_t, int*);
  const auto count = reinterpret_cast<Ask>(resolve("ncclCommCount", site));
  const auto user_rank = reinterpret_cast<Ask>(resolve("ncclCommUserRank", site));
  return count && user_rank && count(comm, size) == kNcclSuccess && user_rank(comm, rank) == kNcclSuccess;
}

}  // namespace

namespace {

constexpr uint32_t kEnqueued = 1024;
NcclEnqueued g_enqueued[kEnqueued];
uint32_t g_enqueued_count = 0;
bool g_keeps_enqueued = false;

/// NCCL knows ncclBcast as what it calls.
uint32_t done_by(uint32_t op) { return op == kOp_ncclBcast ? static_cast<uint32_t>(kOp_ncclBroadcast) : op; }

}  // namespace

bool g_nccl_profiled = false;
bool g_nccl_wrapped = false;

void keep_nccl_enqueued() { __atomic_store_n(&g_keeps_enqueued, true, __ATOMIC_RELAXED); }

void add_nccl_enqueued(const NcclEnqueued& enqueued) {
  if (!__atomic_load_n(&g_keeps_enqueued, __ATOMIC_RELAXED)) return;
  const Lock lock;
  if (lock) g_enqueued[g_enqueued_count++ % kEnqueued] = enqueued;
}

void forget_nccl_enqueued(const NcclCommunicator* communicator, uint32_t sequence) {
  const Lock lock;
  for (uint32_t i = 0; lock && i < kEnqueued && i < g_enqueued_count; ++i) {
    if (g_enqueued[i].communicator == communicator && g_enqueued[i].sequence == sequence) g_enqueued[i].op = 0;
  }
}

const NcclEnqueued* take_nccl_enqueued(const NcclCommunicator* communicator, int size, int rank, uint32_t op,
                                       const void* receive) {
  const Lock lock;
  if (!lock) return nullptr;
  const uint32_t oldest = g_enqueued_count > kEnqueued ? g_enqueued_count - kEnqueued : 0;
  for (const bool again : {false, true}) {  // of a captured graph the same call comes once per launch
    for (uint32_t i = oldest; i < g_enqueued_count; ++i) {
      NcclEnqueued& e = g_enqueued[i % kEnqueued];
      const bool here = communicator
                            ? e.communicator == communicator
                            : !e.communicator->profiled && e.communicator->size == size && e.communicator->rank == rank;
      if (e.taken != again || !here || done_by(e.op) != op || e.receive != receive) continue;
      e.taken = true;
      return &e;
    }
  }
  return nullptr;
}

uint64_t nccl_hash(uint64_t hash, uint64_t value) {
  hash = (hash ^ (value + 0x9e3779b97f4a7c15ull)) * 0xbf58476d1ce4e5b9ull;
  return hash ^ hash >> 29;
}

NcclCommunicator* find_nccl_communicator(ncclComm_t comm) {
  const uint64_t key = key_of(comm);
  if (key <= kRemoved) return nullptr;
  for (uint32_t i = slot_of(key), probes = 0; probes < kSlots; i = (i + 1) % kSlots, ++probes) {
    const uint64_t there = __atomic_load_n(&g_table[i].key, __ATOMIC_ACQUIRE);
    if (there == key) return &g_table[i];
    if (!there) break;
  }
  return nullptr;
}

NcclCommunicator* use_nccl_communicator(ncclComm_t comm, const void* site) {
  NcclCommunicator* c = find_nccl_communicator(comm);
  if (!c) return &g_none;
  if (__builtin_expect(c->size == 0, 0)) {
    int size = 0, rank = -1;
    ++t_nccl.depth;
    if (ask(comm, site, &size, &rank)) {
      c->rank = rank;
      c->size = size;
      describe(*c);
    }
    --t_nccl.depth;
  }
  return c;
}

uint32_t nccl_name(const char* name) {
  const size_t length = name ? strnlen(name, kMaxNameBytes) : 0;
  return length > 0 ? intern_name(name, length) : 0;
}

uint32_t nccl_name_in(const ncclConfig_t* opaque) {
  const auto* config = reinterpret_cast<const NcclConfig*>(opaque);
  const bool has_name = config && config->size >= sizeof(NcclConfig) && config->magic == kNcclConfigMagic &&
                        config->version >= kNcclCommName;
  return has_name ? nccl_name(config->comm_name) : 0;
}

void name_nccl_communicator(NcclCommunicator* c, uint32_t name) {
  if (name == 0 || c->name != 0 || c->index == kNoComm) return;
  c->name = name;
  if (c->size > 0) write_communicator_name({c->index, name});
}

void add_nccl_communicator(ncclComm_t comm, uint64_t uid, int size, int rank, const NcclOrigin& origin) {
  if (!comm || find_nccl_communicator(comm)) return;
  NcclCommunicator value = {};
  value.key = key_of(comm);
  value.uid = uid;
  value.size = size;
  value.rank = rank;
  value.parent = origin.parent ? origin.parent->index : kNoComm;
  value.op = origin.op;
  value.split = origin.split & 0x7fffffff;
  value.color = origin.color;
  value.name = origin.name;
  const NcclCommunicator* c = insert(value);
  if (!c) {
    count_loss(kLossCommunicators);
  } else if (size > 0) {
    describe(*c);
  }
}

NcclCommunicator* remove_nccl_communicator(ncclComm_t comm) {
  NcclCommunicator* known = find_nccl_communicator(comm);
  if (known) __atomic_store_n(&known->key, kRemoved, __ATOMIC_RELEASE);
  return known;
}

bool have_nccl_communicators_ended() {
  for (const NcclCommunicator& c : g_table) {
    if (__atomic_load_n(&c.key, __ATOMIC_RELAXED) > kRemoved) return false;
  }
  return true;
}

void restore_nccl_communicator(NcclCommunicator* removed, ncclComm_t comm) {
  const Lock lock;
  if (lock && removed && removed->key == kRemoved) __atomic_store_n(&removed->key, key_of(comm), __ATOMIC_RELEASE);
}

void write_nccl_group(const NcclGroupPart& part, uint32_t context) {
  Thread* thread = this_thread();
  if (!thread) return;
  Record record = {};
  record.start_ticks = ticks();
  record.word = record_word(RecordKind::kNcclGroup, kOp_ncclGroupEnd, 0);
  record.payload = part.count;
  record.comm = part.comm;
  record.context = context;
  record.sequence = part.first;
  record.peer = -1;
  write_record(thread, keep(true, part.first, record.start_ticks), record);
}

void reset_nccl_communicators() {
  memset(static_cast<void*>(g_table), 0, sizeof g_table);
  g_used = g_count = 0;
}

}  // namespace ddl
