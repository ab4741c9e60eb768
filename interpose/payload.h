// The payload of a call, as Record::payload: bytes, datatype code, reduction code. Injected code; reads only arguments
// that MPI itself reads.
//
// Sizes of predefined datatypes are known. MPI is asked for others, but asking about an invalid datatype would raise
// the job's error handler a second time: so rows are evaluated before the call with PayloadArguments, which never asks,
// and, where that did not suffice, once more with AskedPayload after a call that succeeded.
#pragma once

#include "interpose/communicators.h"
#include "interpose/mpi_abi.h"

namespace ddl {

void learn_datatypes_and_reductions();

constexpr uint64_t kIsPayload = 1;  ///< PayloadKey::reduction of a key whose type is the payload itself
constexpr PayloadKey kUnknownPayload = {0, kAskLater, kIsPayload};

/// The payload by the arguments; kAskLater: not known before the call.
uint64_t known_payload(PayloadKey key);
/// For receives: the datatype's code; the bytes come with the status.
uint64_t received_type(PayloadKey key);

/// The function `payload` of the table's rows before the call; not evaluated where the call site has sent the same
/// before.
struct PayloadArguments {
  PayloadKey operator()(int64_t count, MPI_Datatype datatype) const { return {count, key_of(datatype)}; }
  PayloadKey operator()(int64_t count, MPI_Datatype datatype, MPI_Op op) const {
    return {count, key_of(datatype), key_of(op)};
  }
  template <class Count>
  PayloadKey operator()(const Count* counts, const MPI_Datatype* datatypes, int n) const {
    uint64_t bytes = 0;
    for (int i = 0; counts && datatypes && i < n; ++i) {
      const uint64_t one = known_payload((*this)(counts[i], datatypes[i]));
      if (one == kAskLater) return kUnknownPayload;
      bytes += payload_bytes(one);
    }
    return {0, record_payload(bytes, 0, 0), kIsPayload};
  }
};

/// The same function after the call, which has succeeded: datatypes are good, and MPI is asked for their size.
struct AskedPayload {
  uint64_t operator()(int64_t count, MPI_Datatype datatype) const;
  uint64_t operator()(int64_t count, MPI_Datatype datatype, MPI_Op op) const;
  template <class Count>
  uint64_t operator()(const Count* counts, const MPI_Datatype* datatypes, int n) const {
    uint64_t bytes = 0;
    for (int i = 0; counts && datatypes && i < n; ++i) bytes += payload_bytes((*this)(counts[i], datatypes[i]));
    return record_payload(bytes, 0, 0);
  }
};

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
inline bool is_root(const Communicator* c, int root) {
  return root == MPI_ROOT || (root == c->rank && !(c->flags & kCommInter));
}

/// Does this rank send to the root? In intercommunicators neither the root does nor those beside it, whose other
/// arguments mean nothing.
inline bool sends_to(int root) { return root != MPI_ROOT && root != MPI_PROC_NULL; }

/// Payload of a received message: the bytes of the status.
inline uint64_t received(const MPI_Status& status, uint32_t datatype_code) {
  return record_payload(is_cancelled(status) ? 0 : status_bytes(status), datatype_code, 0);
}
/// The same for data read from a file: there MPI leaves the status's `cancelled` as it was.
inline uint64_t was_read(const MPI_Status& status, uint32_t datatype_code) {
  return record_payload(status_bytes(status), datatype_code, 0);
}

/// The source of a completed receive; a cancelled one has none, whatever else its status says.
inline int32_t source_of(const MPI_Status& status) { return is_cancelled(status) ? MPI_PROC_NULL : status.MPI_SOURCE; }

}  // namespace ddl
