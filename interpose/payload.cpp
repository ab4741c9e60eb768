#include "interpose/payload.h"

#include "core/names.h"

namespace ddl {

namespace {

struct DatatypeInfo {
  uint64_t key;
  uint16_t size;
  uint16_t code;
};
constexpr uint32_t kDatatypeSlots = 256;  // four times as many as predefined types
DatatypeInfo g_datatypes[kDatatypeSlots];

struct ReductionInfo {
  uint64_t key;
  uint64_t code;
};
constexpr uint32_t kReductionSlots = 64;
ReductionInfo g_reductions[kReductionSlots];

uint32_t datatype_slot(uint64_t key) { return static_cast<uint32_t>(key * 0x9e3779b97f4a7c15ull >> 56); }
uint32_t reduction_slot(uint64_t key) { return static_cast<uint32_t>(key * 0x9e3779b97f4a7c15ull >> 58); }

/// 0: not a predefined operation.
uint64_t reduction_code(uint64_t key) {
  for (uint32_t i = reduction_slot(key);; i = (i + 1) % kReductionSlots) {
    if (g_reductions[i].key == key || !g_reductions[i].key) return g_reductions[i].code;
  }
}

/// NULL: not a predefined type.
const DatatypeInfo* predefined(uint64_t key) {
  for (uint32_t i = datatype_slot(key); g_datatypes[i].key; i = (i + 1) % kDatatypeSlots) {
    if (g_datatypes[i].key == key) return &g_datatypes[i];
  }
  return nullptr;
}

uint64_t derived_size(MPI_Datatype datatype) {
  MPI_Count size = 0;
  // asking for its size would raise the job's error handler
  if (!key_of(datatype) || datatype == g_mpi.datatype_null) return 0;
  return g_mpi.p.Type_size_x(datatype, &size) == MPI_SUCCESS && size > 0 ? static_cast<uint64_t>(size) : 0;
}

void learn(MPI_Datatype handle, uint32_t code) {
  const uint64_t key = key_of(handle);
  if (!key || handle == g_mpi.datatype_null) return;
  uint32_t i = datatype_slot(key);
  while (g_datatypes[i].key && g_datatypes[i].key != key) i = (i + 1) % kDatatypeSlots;
  if (g_datatypes[i].key) return;  // two names for one type: the first stays
  g_datatypes[i] = {key, static_cast<uint16_t>(derived_size(handle)), static_cast<uint16_t>(code)};
}

void learn_reduction(MPI_Op handle, uint32_t code) {
  const uint64_t key = key_of(handle);
  if (!key) return;
  uint32_t i = reduction_slot(key);
  while (g_reductions[i].key && g_reductions[i].key != key) i = (i + 1) % kReductionSlots;
  g_reductions[i] = {key, code};
}

}  // namespace

uint64_t known_payload(PayloadKey key) {
  if (key.reduction == kIsPayload) return key.type;
  uint64_t payload = 0;
  if (key.count > 0) {
    const DatatypeInfo* type = predefined(key.type);
    if (!type) return kAskLater;
    payload = record_payload(static_cast<uint64_t>(key.count) * type->size, type->code, 0);
  }
  return payload | reduction_code(key.reduction);
}

uint64_t received_type(PayloadKey key) {
  const DatatypeInfo* type = predefined(key.type);
  return type ? record_payload(0, type->code, 0) : 0;
}

uint64_t AskedPayload::operator()(int64_t count, MPI_Datatype datatype) const {
  const uint64_t known = known_payload(PayloadArguments()(count, datatype));
  return known != kAskLater ? known : record_payload(static_cast<uint64_t>(count) * derived_size(datatype), 0, 0);
}
uint64_t AskedPayload::operator()(int64_t count, MPI_Datatype datatype, MPI_Op op) const {
  return (*this)(count, datatype) | reduction_code(key_of(op));
}

void learn_datatypes_and_reductions() {
#define DDL_LEARN(code, name, size) learn(name, code);
  DDL_DATATYPES(DDL_LEARN)
#undef DDL_LEARN
#define DDL_LEARN(code, name) learn_reduction(name, code);
  DDL_REDUCTIONS(DDL_LEARN)
#undef DDL_LEARN
}

}  // namespace ddl
