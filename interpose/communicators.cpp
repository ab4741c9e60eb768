#include "interpose/communicators.h"

#include <stdio.h>
#include <string.h>

#include "core/lock_and_pages.h"
#include "core/scratch.h"

namespace ddl {

Communicator g_communicators[kCommunicatorSlots];

namespace {

constexpr uint32_t kMaxCommunicators = 1u << 16;  // ever described in the spool
constexpr uint32_t kOccurrenceSlots = 2 * kMaxCommunicators;

Communicator g_none = {0, 0, kNoComm, 0, 0, 1, -1, 1, 0};
uint32_t g_used = 0;     // slots that are not free, removed ones included
uint32_t g_count = 0;    // indices given out
bool g_removed = false;  // some since places of removed ones were made free

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

/// Memory for the members of a group: what the last one needed is kept for the next, for a job that makes
/// many communicators.
constexpr size_t kMaxKeptScratchBytes = 64 * 1024;
ScratchPages* g_kept_scratch = nullptr;
void give_back(ScratchPages* scratch) { give_back_scratch(&g_kept_scratch, scratch, kMaxKeptScratchBytes); }

/// World ranks of a group's members, in the group's order, into `ranks`; `own` is as long. False: it cannot be told.
bool world_ranks(MPI_Group group, int size, int* ranks, int* own) {
  for (int i = 0; i < size; ++i) own[i] = i;
  if (g_mpi.p.Group_translate_ranks(group, size, own, g_mpi.world_group, ranks) != MPI_SUCCESS) return false;
  for (int i = 0; i < size; ++i) {
    if (ranks[i] == MPI_UNDEFINED) ranks[i] = -1;
  }
  return true;
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
  ScratchPages* scratch = nullptr;  ///< holds the runs; to be given back
};

Members describe_group(MPI_Group group, int size) {
  Members members;
  const WorldGroupLock lock;
  if (!lock || g_mpi.world_group == g_mpi.group_null) return members;  // MPI is about to end
  const size_t count = static_cast<size_t>(size);
  members.scratch = take_scratch(&g_kept_scratch, count * (sizeof(RankRun) + 2 * sizeof(int)));
  if (!members.scratch) return members;
  members.runs = reinterpret_cast<RankRun*>(members.scratch + 1);
  int* const ranks = reinterpret_cast<int*>(members.runs + count);
  if (!world_ranks(group, size, ranks, ranks + count)) return members;
  members.hash = hash_of(ranks, size);
  members.run_count = make_runs(ranks, size, members.runs, static_cast<uint32_t>(size));
  return members;
}

constexpr uint32_t kMostUsed = kCommunicatorSlots / 4 * 3;

/// Makes places of removed ones free where no search goes on behind them. A search that is under way meanwhile
/// loses nothing by that.
void clear_removed() {
  __atomic_store_n(&g_removed, false, __ATOMIC_RELAXED);
  uint32_t free = 0;
  while (g_communicators[free].key) ++free;
  for (uint32_t n = 1; n < kCommunicatorSlots; ++n) {
    const uint32_t i = (free + kCommunicatorSlots - n) % kCommunicatorSlots;
    if (g_communicators[i].key != kRemovedKey || g_communicators[(i + 1) % kCommunicatorSlots].key ||
        i == communicator_slot(0))
      continue;
    __atomic_store_n(&g_communicators[i].key, 0, __ATOMIC_RELEASE);
    __atomic_store_n(&g_used, g_used - 1, __ATOMIC_RELAXED);
  }
}

/// No other communicator can be added, as things are.
bool is_full() {
  return __atomic_load_n(&g_count, __ATOMIC_RELAXED) >= kMaxCommunicators ||
         (__atomic_load_n(&g_used, __ATOMIC_RELAXED) >= kMostUsed && !__atomic_load_n(&g_removed, __ATOMIC_RELAXED));
}

/// NULL: the table is full. It is only the living who fill it: places of removed ones are taken first, or made free
/// when they are many.
Communicator* insert(const Communicator& value) {
  __atomic_fetch_add(&g_process.handles, 1, __ATOMIC_RELAXED);
  if (g_used >= kMostUsed && g_removed) clear_removed();
  uint32_t i = communicator_slot(value.key);
  while (g_communicators[i].key > kRemovedKey) i = (i + 1) % kCommunicatorSlots;
  if (!g_communicators[i].key) {
    if (g_used >= kMostUsed) return nullptr;
    __atomic_store_n(&g_used, g_used + 1, __ATOMIC_RELAXED);
  }
  Communicator* slot = &g_communicators[i];
  slot->uid = value.uid;
  slot->index = value.index;
  slot->sequence = 0;
  slot->flags = value.flags;
  slot->size = value.size;
  slot->rank = value.rank;
  slot->peers = value.peers;
  slot->destinations = value.destinations;
  __atomic_store_n(&slot->key, value.key, __ATOMIC_RELEASE);
  return slot;
}

Communicator* look_up(uint64_t key) {
  if (__builtin_expect(key <= kRemovedKey, 0)) return nullptr;
  for (uint32_t i = communicator_slot(key), probes = 0; probes < kCommunicatorSlots;
       i = (i + 1) % kCommunicatorSlots, ++probes) {
    const uint64_t there = __atomic_load_n(&g_communicators[i].key, __ATOMIC_ACQUIRE);
    if (there == key) return &g_communicators[i];
    if (!there) return nullptr;
  }
  return nullptr;
}

/// What MPI says about a new communicator.
struct Description {
  Communicator value = {};
  Members members;
  uint64_t remote_hash = 0;
  char topology[96] = "";
};

bool describe_members(MPI_Group group, Description& d) {
  const bool good = g_mpi.p.Group_size(group, &d.value.size) == MPI_SUCCESS &&
                    g_mpi.p.Group_rank(group, &d.value.rank) == MPI_SUCCESS;
  if (good && !(d.value.flags & (kCommWorld | kCommSelf))) d.members = describe_group(group, d.value.size);
  d.value.peers = d.value.size;
  g_mpi.p.Group_free(&group);
  return good;
}

/// Dimensions of a Cartesian topology, "4x2 periodic 1,0".
void describe_grid(MPI_Comm comm, Description& d) {
  int dimensions = 0, sizes[16], periodic[16], own[16];
  if (g_mpi.p.Cartdim_get(comm, &dimensions) != MPI_SUCCESS) return;
  d.value.destinations = 2 * dimensions;
  if (dimensions > 16 || g_mpi.p.Cart_get(comm, dimensions, sizes, periodic, own) != MPI_SUCCESS) return;
  size_t used = static_cast<size_t>(snprintf(d.topology, sizeof d.topology, "cart"));
  for (int i = 0; i < 2 * dimensions && used + 16 < sizeof d.topology; ++i) {
    const char* before = i == 0 ? " " : i < dimensions ? "x" : i == dimensions ? " periodic " : ",";
    used += static_cast<size_t>(snprintf(d.topology + used, sizeof d.topology - used, "%s%d", before,
                                         i < dimensions ? sizes[i] : periodic[i - dimensions]));
  }
}

void describe_topology(MPI_Comm comm, Description& d) {
  int topology = MPI_UNDEFINED, sources, weighted;
  if (g_mpi.p.Topo_test(comm, &topology) != MPI_SUCCESS) return;
  if (topology == MPI_CART) {
    describe_grid(comm, d);
  } else if (topology == MPI_GRAPH) {
    g_mpi.p.Graph_neighbors_count(comm, d.value.rank, &d.value.destinations);
    snprintf(d.topology, sizeof d.topology, "graph");
  } else if (topology == MPI_DIST_GRAPH) {
    g_mpi.p.Dist_graph_neighbors_count(comm, &sources, &d.value.destinations, &weighted);
    snprintf(d.topology, sizeof d.topology, "dist_graph");
  }
}

bool ask(MPI_Comm comm, Description& d) {
  MPI_Group group;
  int inter = 0;
  if (g_mpi.p.Comm_test_inter(comm, &inter) != MPI_SUCCESS || g_mpi.p.Comm_group(comm, &group) != MPI_SUCCESS)
    return false;
  if (!describe_members(group, d)) return false;
  if (!inter) {
    describe_topology(comm, d);
    return true;
  }
  d.value.flags |= kCommInter;
  if (g_mpi.p.Comm_remote_size(comm, &d.value.peers) == MPI_SUCCESS &&
      g_mpi.p.Comm_remote_group(comm, &group) == MPI_SUCCESS) {
    const Members remote = describe_group(group, d.value.peers);
    d.remote_hash = remote.hash;
    give_back(remote.scratch);
    g_mpi.p.Group_free(&group);
  }
  return true;
}

/// The caller holds the lock.
uint64_t identity(const Description& d, const Communicator* parent, const char* op_name, int tag) {
  if (d.value.flags & kCommWorld) return 1;
  if (d.value.flags & kCommSelf) return 2;
  uint64_t hash = 14695981039346656037ull;
  for (const char* c = op_name; *c; ++c) hash = mix(hash, static_cast<unsigned char>(*c));
  // The two sides of a new intercommunicator have different parents and see each other's group as the remote one:
  // neither may count.
  const bool joins_two = d.value.flags & kCommInter && parent && !(parent->flags & kCommInter);
  hash = mix(hash, parent && !joins_two ? parent->uid : 0);
  hash = mix(mix(hash, static_cast<uint32_t>(tag)), d.members.hash + d.remote_hash);
  return mix(hash, occurrences_so_far(hash)) | 1ull << 63;  // never a predefined one's
}

/// Gives a new communicator its identity, writes it down and makes it known.
Communicator* add(uint64_t key, Description& d, const Communicator* parent, uint32_t op, const char* op_name, int tag) {
  bool is_new = false;
  d.value.key = key;
  Communicator* made;
  {
    const Lock lock;
    if (!lock) {
      give_back(d.members.scratch);
      return &g_none;
    }
    made = look_up(key);
    if (!made && g_count < kMaxCommunicators) {
      d.value.uid = identity(d, parent, op_name, tag);
      d.value.index = g_count + 1;
      made = insert(d.value);
      is_new = made != nullptr;
      if (is_new) __atomic_store_n(&g_count, g_count + 1, __ATOMIC_RELAXED);
    }
  }
  if (is_new) {
    CommunicatorMeta meta = {};
    meta.index = made->index;
    meta.parent = parent ? parent->index : 0;
    meta.uid = made->uid;
    meta.size = d.value.size;
    meta.rank = d.value.rank;
    meta.op = op;
    meta.flags = d.value.flags;
    meta.runs = d.members.run_count;
    write_communicator(meta, d.members.runs);
    if (d.topology[0]) write_communicator_topology(made->index, d.topology);
  }
  if (!made) count_loss(kLossCommunicators);
  give_back(d.members.scratch);
  return made ? made : &g_none;
}

const Communicator* known_parent(const Communicator* parent) { return parent->index == kNoComm ? nullptr : parent; }

void add_group(uint64_t key, MPI_Group group, uint32_t flags, const Communicator* parent, uint32_t op,
               const char* op_name, const char* name) {
  Description d;
  d.value.flags = flags;
  if (!describe_members(group, d)) return;
  const Communicator* made = add(key, d, known_parent(parent), op, op_name, 0);
  if (name && made->index != kNoComm) write_communicator_name(made->index, name);
}

}  // namespace

Communicator* search_communicator(uint64_t key) {
  Communicator* known = look_up(key);
  return __builtin_expect(known != nullptr, 1) ? known : &g_none;
}

Communicator* learn_communicator(MPI_Comm comm) {
  if (is_full()) return &g_none;  // each call on it comes here
  Description d;
  d.value.flags = kCommFound;
  if (comm == g_mpi.comm_null || !ask(comm, d)) return &g_none;
  return add(key_of(comm), d, nullptr, 0, "found", 0);
}

void add_communicator(MPI_Comm comm, const Communicator* parent, uint32_t op, const char* op_name, int tag) {
  Description d;
  if (comm != g_mpi.comm_null && ask(comm, d)) add(key_of(comm), d, known_parent(parent), op, op_name, tag);
}

void add_window(MPI_Win window, const Communicator* parent, uint32_t op, const char* op_name) {
  MPI_Group group;
  if (g_mpi.p.Win_get_group(window, &group) == MPI_SUCCESS)
    add_group(key_of(window), group, kCommWindow, parent, op, op_name, nullptr);
}

void add_file(MPI_File file, const Communicator* parent, uint32_t op, const char* op_name, const char* name) {
  MPI_Group group;
  if (g_mpi.p.File_get_group(file, &group) == MPI_SUCCESS)
    add_group(key_of(file), group, kCommFile, parent, op, op_name, name);
}

Communicator* remove_communicator(uint64_t key) {
  const Lock lock;
  Communicator* known = lock ? look_up(key) : nullptr;
  if (known) {
    __atomic_store_n(&known->key, kRemovedKey, __ATOMIC_RELEASE);
    __atomic_store_n(&g_removed, true, __ATOMIC_RELAXED);
  }
  return known;
}

void restore_communicator(Communicator* removed, uint64_t key) {
  const Lock lock;
  if (lock && removed && removed->key == kRemovedKey) __atomic_store_n(&removed->key, key, __ATOMIC_RELEASE);
}

void add_predefined_communicators() {
  Description world, self;
  world.value.flags = kCommWorld;
  self.value.flags = kCommSelf;
  if (ask(g_mpi.comm_world, world)) add(key_of(g_mpi.comm_world), world, nullptr, 0, "", 0);
  if (ask(MPI_COMM_SELF, self)) add(key_of(MPI_COMM_SELF), self, nullptr, 0, "", 0);
}

void reserve_null_slot() {
  Communicator& slot = g_communicators[communicator_slot(0)];
  if (slot.key == 0) slot.key = kRemovedKey, ++g_used;
}

void reset_communicators() {
  memset(static_cast<void*>(g_communicators), 0, sizeof g_communicators);
  memset(g_occurrences, 0, sizeof g_occurrences);
  g_used = g_count = 0;
  g_removed = false;
}

}  // namespace ddl
