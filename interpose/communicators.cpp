#include "interpose/communicators.h"

#include <string.h>
#include <sys/mman.h>

#include "core/recorder_internal.h"

namespace ddl {

namespace {

constexpr uint32_t kSlots = 1u << 15;             // of which three quarters may be in use at a time
constexpr uint32_t kMaxCommunicators = 1u << 16;  // ever described in the spool
constexpr uint32_t kOccurrenceSlots = 2 * kMaxCommunicators;

MPI_Comm removed_mark() { return reinterpret_cast<MPI_Comm>(uintptr_t{1}); }

Communicator g_table[kSlots];
Communicator g_none = {nullptr, 0, kNoComm, 0, 0, 1, -1, 1};
uint32_t g_used = 0;   // slots that are not free, removed ones included
uint32_t g_count = 0;  // indices given out

struct Occurrence {
  uint64_t hash;
  uint64_t count;
};
Occurrence g_occurrences[kOccurrenceSlots];

uint64_t mix(uint64_t hash, uint64_t value) {
  // Small numbers meet small numbers here (sizes and ranks): without the constant equal ones would cancel out.
  hash = (hash ^ (value + 0x9e3779b97f4a7c15ull)) * 0xbf58476d1ce4e5b9ull;
  return hash ^ hash >> 29;
}

uint32_t slot_of(MPI_Comm comm) {
  const uint64_t key = reinterpret_cast<uintptr_t>(comm);
  return static_cast<uint32_t>((key ^ key >> 17) * 0x9e3779b97f4a7c15ull >> 32) % kSlots;
}

/// How often `hash` was seen before, and counts this time. The caller holds the lock.
uint64_t occurrences_so_far(uint64_t hash) {
  uint32_t i = static_cast<uint32_t>(hash) % kOccurrenceSlots;
  for (uint32_t probes = 0; probes < kOccurrenceSlots / 2; ++probes, i = (i + 1) % kOccurrenceSlots) {
    if (g_occurrences[i].count != 0 && g_occurrences[i].hash != hash) continue;
    g_occurrences[i].hash = hash;
    return g_occurrences[i].count++;
  }
  return 0;
}

/// World ranks of a group's members, in the group's order, as anonymous memory of `size` ints; NULL if it cannot be told.
int* world_ranks(MPI_Group group, int size) {
  const size_t bytes = 2 * sizeof(int) * static_cast<size_t>(size);
  int* ranks = static_cast<int*>(internal::take_pages(bytes));
  if (!ranks) return nullptr;
  int* own = ranks + size;
  for (int i = 0; i < size; ++i) own[i] = i;
  MPI_Group world;
  if (g_mpi.p.Comm_group(g_mpi.comm_world, &world) != MPI_SUCCESS ||
      g_mpi.p.Group_translate_ranks(group, size, own, world, ranks) != MPI_SUCCESS) {
    munmap(ranks, bytes);
    return nullptr;
  }
  g_mpi.p.Group_free(&world);
  for (int i = 0; i < size; ++i) {
    if (ranks[i] == MPI_UNDEFINED) ranks[i] = -1;
  }
  return ranks;
}

void free_ranks(int* ranks, int size) {
  if (ranks) munmap(ranks, 2 * sizeof(int) * static_cast<size_t>(size));
}

uint64_t hash_of(const int* ranks, int size) {
  uint64_t hash = static_cast<uint64_t>(size);
  for (int i = 0; i < size; ++i) hash = mix(hash, static_cast<uint32_t>(ranks[i]));
  return hash;
}

/// Ranks as runs: 0 .. n-1 is one, any list needs at most one per member. Returns 0 when they do not fit.
uint32_t make_runs(const int* ranks, int size, RankRun* runs, uint32_t capacity) {
  uint32_t count = 0;
  for (int i = 0; i < size;) {
    if (count == capacity) return 0;
    const int stride = i + 1 < size ? ranks[i + 1] - ranks[i] : 1;
    int length = 1;
    while (i + length < size && ranks[i + length] - ranks[i + length - 1] == stride) ++length;
    runs[count++] = {ranks[i], stride, length};
    i += length;
  }
  return count;
}

struct Members {
  uint64_t hash = 0;
  RankRun* runs = nullptr;
  uint32_t run_count = 0;
  size_t run_bytes = 0;
};

Members describe_group(MPI_Group group, int size) {
  Members members;
  int* ranks = world_ranks(group, size);
  if (!ranks) return members;
  members.hash = hash_of(ranks, size);
  const uint32_t capacity = static_cast<uint32_t>(size);
  members.run_bytes = capacity * sizeof(RankRun);
  members.runs = static_cast<RankRun*>(internal::take_pages(members.run_bytes));
  if (members.runs) members.run_count = make_runs(ranks, size, members.runs, capacity);
  free_ranks(ranks, size);
  return members;
}

Communicator* insert(const Communicator& value) {
  if (g_used >= kSlots / 4 * 3) return nullptr;
  uint32_t i = slot_of(value.handle);
  while (g_table[i].handle && g_table[i].handle != removed_mark()) i = (i + 1) % kSlots;
  if (!g_table[i].handle) ++g_used;
  Communicator* slot = &g_table[i];
  slot->uid = value.uid;
  slot->index = value.index;
  slot->sequence = 0;
  slot->flags = value.flags;
  slot->size = value.size;
  slot->rank = value.rank;
  slot->peers = value.peers;
  __atomic_store_n(&slot->handle, value.handle, __ATOMIC_RELEASE);
  return slot;
}

Communicator* look_up(MPI_Comm comm) {
  for (uint32_t i = slot_of(comm);; i = (i + 1) % kSlots) {
    const MPI_Comm handle = __atomic_load_n(&g_table[i].handle, __ATOMIC_ACQUIRE);
    if (handle == comm) return &g_table[i];
    if (!handle) return nullptr;
  }
}

/// Asks MPI about `comm`, gives it an identity, writes it down and makes it known.
Communicator* describe(MPI_Comm comm, const Communicator* parent, uint32_t op, const char* op_name, int tag, uint32_t flags) {
  Communicator value = {comm, 0, 0, 0, flags, 0, -1, 0};
  int inter = 0;
  MPI_Group group;
  if (g_mpi.p.Comm_size(comm, &value.size) != MPI_SUCCESS || g_mpi.p.Comm_rank(comm, &value.rank) != MPI_SUCCESS ||
      g_mpi.p.Comm_test_inter(comm, &inter) != MPI_SUCCESS) {
    return &g_none;
  }
  value.peers = value.size;
  uint64_t remote_hash = 0;
  if (inter) {
    value.flags |= kCommInter;
    if (g_mpi.p.Comm_remote_size(comm, &value.peers) == MPI_SUCCESS && g_mpi.p.Comm_remote_group(comm, &group) == MPI_SUCCESS) {
      Members remote = describe_group(group, value.peers);
      remote_hash = remote.hash;
      if (remote.runs) munmap(remote.runs, remote.run_bytes);
      g_mpi.p.Group_free(&group);
    }
  }
  Members members;
  if (!(flags & (kCommWorld | kCommSelf)) && g_mpi.p.Comm_group(comm, &group) == MPI_SUCCESS) {
    members = describe_group(group, value.size);
    g_mpi.p.Group_free(&group);
  }
  CommunicatorMeta meta = {};
  {
    const internal::Lock lock;
    if (!lock) return &g_none;
    if (Communicator* known = look_up(comm)) {  // another thread was faster
      value.index = known->index;
    } else if (g_count < kMaxCommunicators) {
      if (flags & (kCommWorld | kCommSelf)) {
        value.uid = flags & kCommWorld ? 1 : 2;
      } else {
        uint64_t hash = 14695981039346656037ull;
        for (const char* c = op_name; *c; ++c) hash = mix(hash, static_cast<unsigned char>(*c));
        // The two sides of a new intercommunicator have different parents and see each other's group as the remote one: neither may count.
        const bool joins_two = inter && parent && !(parent->flags & kCommInter);
        hash = mix(hash, parent && !joins_two ? parent->uid : 0);
        hash = mix(mix(hash, static_cast<uint32_t>(tag)), members.hash + remote_hash);
        value.uid = mix(hash, occurrences_so_far(hash)) | 1ull << 63;  // never a predefined one's
      }
      value.index = ++g_count;
      if (!insert(value)) value.index = 0;
    }
  }
  Communicator* made = value.index ? look_up(comm) : nullptr;
  if (!made) {
    count_loss(kLossCommunicators);
  } else if (made->sequence == 0) {
    meta.index = made->index;
    meta.parent = parent ? parent->index : 0;
    meta.uid = made->uid;
    meta.size = value.size;
    meta.rank = value.rank;
    meta.op = op;
    meta.flags = value.flags;
    meta.runs = members.run_count;
    write_communicator(meta, members.runs);
  }
  if (members.runs) munmap(members.runs, members.run_bytes);
  return made ? made : &g_none;
}

}  // namespace

Communicator* find_communicator(MPI_Comm comm) {
  if (__builtin_expect(!comm || comm == g_mpi.comm_null || comm == removed_mark(), 0)) return &g_none;
  if (Communicator* known = look_up(comm)) return known;
  if (g_count >= kMaxCommunicators || g_used >= kSlots / 4 * 3) return &g_none;
  return describe(comm, nullptr, 0, "found", 0, kCommFound);
}

void add_communicator(MPI_Comm comm, const Communicator* parent, uint32_t op, const char* op_name, int tag) {
  if (!comm || comm == g_mpi.comm_null) return;
  describe(comm, parent->index == kNoComm ? nullptr : parent, op, op_name, tag, 0);
}

void remove_communicator(MPI_Comm comm) {
  const internal::Lock lock;
  if (!lock || !comm) return;
  Communicator* known = look_up(comm);
  if (known) __atomic_store_n(&known->handle, removed_mark(), __ATOMIC_RELEASE);
}

void add_predefined_communicators() {
  describe(g_mpi.comm_world, nullptr, 0, "", 0, kCommWorld);
  describe(MPI_COMM_SELF, nullptr, 0, "", 0, kCommSelf);
}

void reset_communicators() {
  memset(static_cast<void*>(g_table), 0, sizeof g_table);
  memset(g_occurrences, 0, sizeof g_occurrences);
  g_used = g_count = 0;
}

}  // namespace ddl
