// From an MPI_Comm, MPI_Win or MPI_File to what we know about it. Injected code. Windows and files are groups of ranks
// with collective calls just as communicators are, so they are told like them; "communicator" means all three here.
//
// Look-ups take no lock: an open-addressing table whose slots are cache lines; the call that creates or frees a
// communicator inserts or removes under one. A handle may be used again by MPI after MPI_Comm_free, so it is removed
// before the real call.
//
// The identity of a communicator must be the same on all its members without a message: a hash of its parent's
// identity, the creating call, the members' world ranks and how often this combination occurred before (all members
// took part in the same ones).
#pragma once

#include "interpose/mpi_abi.h"

namespace ddl {

struct alignas(64) Communicator {
  uint64_t key;  ///< key_of(handle); 0: free slot; kRemovedKey: was used
  uint64_t uid;
  uint32_t index;     ///< Record::comm
  uint32_t sequence;  ///< collectives entered or posted so far
  uint32_t flags;     ///< CommunicatorFlag
  int32_t size;
  int32_t rank;
  int32_t peers;         ///< how many ranks a collective sends to: size, or the size of the remote group
  int32_t destinations;  ///< how many ranks a neighbourhood collective sends to
};
static_assert(sizeof(Communicator) == 64);

constexpr uint32_t kCommunicatorSlots = 1u << 15;  // of which three quarters may be in use at a time
constexpr uint64_t kRemovedKey = 1;
extern Communicator g_communicators[kCommunicatorSlots] __attribute__((visibility("hidden")));

inline uint32_t communicator_slot(uint64_t key) {
  return static_cast<uint32_t>(key * 0x9e3779b97f4a7c15ull >> (64 - 15));
}

/// Where another key lies in the slot of `key`.
Communicator* search_communicator(uint64_t key);

/// Is it found at first sight? Null handles are not.
DDL_HOT bool communicator_at_hand(uint64_t key, Communicator** found) {
  Communicator* first = kept_address(&g_communicators[communicator_slot(key)]);
  *found = first;
  return __builtin_expect(__atomic_load_n(&first->key, __ATOMIC_ACQUIRE) == key, 1);
}

/// Never NULL: for what is not known it is a stand-in with index kNoComm, size 1 and rank -1.
inline Communicator* find_communicator(uint64_t key) {
  Communicator* first;
  return communicator_at_hand(key, &first) ? first : search_communicator(key);
}

/// Number of the collective that is being entered or posted, on a communicator of the table. MPI forbids two threads to
/// do so on one communicator at a time.
inline uint32_t next_sequence_at_hand(Communicator* c) {
  const uint32_t sequence = __atomic_load_n(&c->sequence, __ATOMIC_RELAXED) + 1;
  __atomic_store_n(&c->sequence, sequence, __ATOMIC_RELAXED);
  return sequence;
}
/// The same on whatever find_communicator() returned.
inline uint32_t next_sequence(Communicator* c) {
  if (c->index == kNoComm) return kNoSequence;
  return next_sequence_at_hand(c);
}

/// Registers what `op` has just made from `parent`. A null handle is fine.
void add_communicator(MPI_Comm comm, const Communicator* parent, uint32_t op, const char* op_name, int tag);
void add_window(MPI_Win window, const Communicator* parent, uint32_t op, const char* op_name);
void add_file(MPI_File file, const Communicator* parent, uint32_t op, const char* op_name, const char* name);
/// NULL: not known.
Communicator* remove_communicator(uint64_t key);
/// It was not freed after all.
void restore_communicator(Communicator* removed, uint64_t key);

/// Registers a communicator whose creation was not seen; a call on it has just succeeded, so the handle is good.
/// Windows and files whose creation was not seen stay unknown.
Communicator* learn_communicator(MPI_Comm comm);

/// Before the first look-up: a key of 0, which is a null handle, must not find a free slot.
void reserve_null_slot();
void add_predefined_communicators();
void reset_communicators();

}  // namespace ddl
