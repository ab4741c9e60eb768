// What a call sends, as Record::payload: bytes, datatype code, reduction code. Injected code; reads only arguments that MPI itself reads.
//
// Predefined datatypes are known by heart. The size of any other one is a question to MPI, and asking about a datatype that is none would
// raise the job's error handler a second time: so rows are evaluated before the call with KnownPayload, which never asks, and once more
// after a call that succeeded with AskedPayload where the first answered kAskLater.
#pragma once

#include "interpose/communicators.h"
#include "interpose/mpi_abi.h"

namespace ddl {

struct DatatypeInfo {
  uint64_t key;
  uint16_t size;  ///< small enough for the compiler to see that no int of them exceeds a record's bytes
  uint16_t code;
};
constexpr uint32_t kDatatypeSlots = 256;  // four times as many as predefined types
extern DatatypeInfo g_datatypes[kDatatypeSlots] __attribute__((visibility("hidden")));

struct ReductionInfo {
  uint64_t key;
  uint64_t code;
};
constexpr uint32_t kReductionSlots = 64;
extern ReductionInfo g_reductions[kReductionSlots] __attribute__((visibility("hidden")));

void learn_datatypes_and_reductions();
uint64_t derived_size(MPI_Datatype datatype);

inline uint32_t datatype_slot(uint64_t key) { return static_cast<uint32_t>(key * 0x9e3779b97f4a7c15ull >> 56); }
inline uint32_t reduction_slot(uint64_t key) { return static_cast<uint32_t>(key * 0x9e3779b97f4a7c15ull >> 58); }

/// 0: not a predefined operation.
inline uint64_t reduction_code(MPI_Op op) {
  const uint64_t key = key_of(op);
  for (uint32_t i = reduction_slot(key);; i = (i + 1) % kReductionSlots) {
    if (g_reductions[i].key == key || !g_reductions[i].key) return g_reductions[i].code;
  }
}

/// NULL: not a predefined type.
inline const DatatypeInfo* predefined(MPI_Datatype datatype) {
  const uint64_t key = key_of(datatype);
  for (uint32_t i = datatype_slot(key);; i = (i + 1) % kDatatypeSlots) {
    if (g_datatypes[i].key == key) return key ? &g_datatypes[i] : nullptr;
    if (!g_datatypes[i].key) return nullptr;
  }
}

inline uint32_t datatype_code(MPI_Datatype datatype) {
  const DatatypeInfo* info = predefined(datatype);
  return info ? info->code : 0;
}

constexpr uint64_t kAskLater = UINT64_MAX;

/// The function `payload` of the table's rows.
template <bool kMayAsk>
struct Payload {
  uint64_t operator()(int64_t count, MPI_Datatype datatype) const {
    if (count <= 0) return 0;
    if (const DatatypeInfo* info = predefined(datatype); __builtin_expect(info != nullptr, 1)) {
      return record_payload(static_cast<uint64_t>(count) * info->size, info->code, 0);
    }
    return kMayAsk ? record_payload(static_cast<uint64_t>(count) * derived_size(datatype), 0, 0) : kAskLater;
  }
  uint64_t operator()(int64_t count, MPI_Datatype datatype, MPI_Op op) const {
    const uint64_t result = (*this)(count, datatype);
    return __builtin_expect(result == kAskLater, 0) ? result : result | reduction_code(op);
  }
  template <class Count>
  uint64_t operator()(const Count* counts, const MPI_Datatype* datatypes, int n) const {
    uint64_t bytes = 0;
    for (int i = 0; counts && datatypes && i < n; ++i) {
      const uint64_t one = (*this)(counts[i], datatypes[i]);
      if (one == kAskLater) return one;
      bytes += payload_bytes(one);
    }
    return record_payload(bytes, 0, 0);
  }
};
using KnownPayload = Payload<false>;
using AskedPayload = Payload<true>;

/// A product that cannot overflow into a small number.
inline int64_t times(int64_t count, int64_t n) {
  int64_t product;
  return __builtin_mul_overflow(count, n, &product) ? INT64_MAX : product;
}

template <class Count>
inline int64_t sum(const Count* counts, int n) {
  int64_t total = 0;
  for (int i = 0; counts && i < n; ++i) total += counts[i];
  return total;
}

template <class Count>
inline int64_t at(const Count* counts, int i) {
  return counts && i >= 0 ? counts[i] : 0;
}

/// Does this rank hold the data of a rooted collective? In intercommunicators the root says MPI_ROOT.
inline bool is_root(const Communicator* c, int root) { return root == MPI_ROOT || (root == c->rank && !(c->flags & kCommInter)); }

/// Does this rank send to the root? In intercommunicators neither the root does nor those beside it, whose other arguments mean nothing.
inline bool sends_to(int root) { return root != MPI_ROOT && root != MPI_PROC_NULL; }

/// Payload of what has arrived: the bytes of the status.
inline uint64_t received(const MPI_Status& status, uint32_t datatype_code) {
  return record_payload(is_cancelled(status) ? 0 : status_bytes(status), datatype_code, 0);
}
/// The same for what was read from a file: there MPI leaves in the status's `cancelled` whatever was in it.
inline uint64_t was_read(const MPI_Status& status, uint32_t datatype_code) {
  return record_payload(status_bytes(status), datatype_code, 0);
}

/// Whom a completed receive was from; a cancelled one was from nobody, whatever else its status says.
inline int32_t source_of(const MPI_Status& status) { return is_cancelled(status) ? MPI_PROC_NULL : status.MPI_SOURCE; }

}  // namespace ddl
