// What a call sends, as Record::payload: bytes, datatype code, reduction code. Injected code; reads only arguments that MPI itself reads.
#pragma once

#include "interpose/communicators.h"
#include "interpose/mpi_abi.h"

namespace ddl {

struct DatatypeInfo {
  MPI_Datatype handle;
  uint32_t size;
  uint32_t code;
};
constexpr uint32_t kDatatypeSlots = 256;  // four times as many as predefined types
extern DatatypeInfo g_datatypes[kDatatypeSlots];

void learn_datatypes_and_reductions();
uint32_t reduction_code(MPI_Op op);
uint64_t derived_size(MPI_Datatype datatype);

inline uint32_t datatype_slot(MPI_Datatype datatype) {
  return static_cast<uint32_t>(reinterpret_cast<uintptr_t>(datatype) * 0x9e3779b97f4a7c15ull >> 56);
}

inline uint64_t payload(int64_t count, MPI_Datatype datatype) {
  if (count <= 0 || !datatype) return 0;
  for (uint32_t i = datatype_slot(datatype);; i = (i + 1) % kDatatypeSlots) {
    const DatatypeInfo& info = g_datatypes[i];
    if (info.handle == datatype) return record_payload(static_cast<uint64_t>(count) * info.size, info.code, 0);
    if (!info.handle) return record_payload(static_cast<uint64_t>(count) * derived_size(datatype), 0, 0);
  }
}

inline uint64_t payload(int64_t count, MPI_Datatype datatype, MPI_Op op) { return payload(count, datatype) | reduction_code(op); }

inline uint64_t payload(const int* counts, const MPI_Datatype* datatypes, int n) {
  uint64_t bytes = 0;
  for (int i = 0; counts && datatypes && i < n; ++i) bytes += payload_bytes(payload(counts[i], datatypes[i]));
  return record_payload(bytes, 0, 0);
}

inline int64_t sum(const int* counts, int n) {
  int64_t total = 0;
  for (int i = 0; counts && i < n; ++i) total += counts[i];
  return total;
}

inline int64_t at(const int* counts, int i) { return counts && i >= 0 ? counts[i] : 0; }

/// Does this rank hold the data of a rooted collective? In intercommunicators the root says MPI_ROOT.
inline bool is_root(const Communicator* c, int root) { return root == MPI_ROOT || (root == c->rank && !(c->flags & kCommInter)); }

/// Payload of a receive that has completed: the bytes that arrived.
inline uint64_t received(const MPI_Status& status, uint32_t datatype_code) {
  const uint64_t bytes = status._cancelled ? 0 : status._ucount;  // Open MPI's own fields: exact beyond 2 GiB, and no call into the library
  return record_payload(bytes, datatype_code, 0);
}

/// Whom a completed receive was from; a cancelled one was from nobody, whatever else its status says.
inline int32_t source_of(const MPI_Status& status) { return status._cancelled ? MPI_PROC_NULL : status.MPI_SOURCE; }

}  // namespace ddl
