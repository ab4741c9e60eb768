#include "interpose/payload.h"

#include "core/names.h"

namespace ddl {

DatatypeInfo g_datatypes[kDatatypeSlots];

ReductionInfo g_reductions[kReductionSlots];

namespace {

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

uint64_t derived_size(MPI_Datatype datatype) {
  MPI_Count size = 0;
  if (!key_of(datatype) || datatype == g_mpi.datatype_null) return 0;  // asking for its size would raise the job's error handler
  return g_mpi.p.Type_size_x(datatype, &size) == MPI_SUCCESS && size > 0 ? static_cast<uint64_t>(size) : 0;
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
