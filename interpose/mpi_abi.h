// mpi.h of the MPI library that this flavour of the wrappers is for, without a reference to any of its symbols. Injected code.
//
// Open MPI's handles (MPI_COMM_WORLD, MPI_FLOAT, ...) are addresses of objects inside libmpi. Using the macros as they are would make
// libddl.so need libmpi in every process it is preloaded into, and would bind too early where libmpi is loaded later (mpi4py). So the macro
// behind them is redirected to a look-up by name in the library that the job really uses; it works once mpi_objects_found() has said so.
#pragma once

#define OMPI_SKIP_MPICXX 1
#include <mpi.h>

#include <stdint.h>

#ifndef OPEN_MPI
#error "these wrappers are for Open MPI's ABI"
#endif
#undef OMPI_PREDEFINED_GLOBAL
#define OMPI_PREDEFINED_GLOBAL(type, global) (static_cast<type>(::ddl::mpi_object(#global)))

#include "core/recorder.h"

#define DDL_EXPORT extern "C" __attribute__((visibility("default")))

namespace ddl {

/// Operation ids of Record::word, from the table.
enum MpiOp : uint32_t {
  kMpiOpBeforeFirst = kFirstCallOp - 1,
#define DDL_MPI_ROW(name, op_class, nonblocking) kOp_##name,
#include "interpose/mpi_calls.def"
  kMpiOpEnd
};

/// Address of an object of the MPI library, by name; NULL if it has none. Slow; used while starting.
void* mpi_object(const char* name);

/// The next MPI_X after ours: RTLD_NEXT, else the scope of the caller, else whatever loaded object defines it. NULL: there is none.
void* resolve(const char* name, const void* caller);

extern void* g_real[kMpiOpEnd];

inline void* real_function(uint32_t op, const char* name, const void* caller) {
  void* function = __atomic_load_n(&g_real[op], __ATOMIC_RELAXED);
  if (__builtin_expect(!function, 0)) {
    function = resolve(name, caller);
    __atomic_store_n(&g_real[op], function, __ATOMIC_RELAXED);
  }
  return function;
}

/// The function that `NAME` calls forward to, typed. A caller that found us but no MPI library gets an error code, never a crash.
#define DDL_REAL(NAME)                                                                                       \
  const void* const site = __builtin_extract_return_addr(__builtin_return_address(0));                       \
  const auto real = reinterpret_cast<decltype(&NAME)>(::ddl::real_function(::ddl::kOp_##NAME, #NAME, site)); \
  if (__builtin_expect(!real, 0)) return MPI_ERR_INTERN

/// The MPI functions that we call ourselves, always as PMPI_X: nobody else's wrapper sees them.
// clang-format off
#define DDL_PMPI_FUNCTIONS(X)                                                                           \
  X(Query_thread) X(Get_library_version) X(Comm_rank) X(Comm_size) X(Comm_group) X(Comm_remote_group)   \
  X(Comm_remote_size) X(Comm_test_inter) X(Group_translate_ranks) X(Group_free) X(Type_size_x)
// clang-format on

struct PmpiTable {
#define DDL_PMPI_POINTER(name) decltype(&PMPI_##name) name;
  DDL_PMPI_FUNCTIONS(DDL_PMPI_POINTER)
#undef DDL_PMPI_POINTER
};

enum class MpiState : uint32_t {
  kUnknown,  ///< MPI_Init was not seen to return
  kRunning,  ///< calls are recorded
  kOff,      ///< finalized, not wanted, or not our flavour of MPI: pass everything through
};

struct Mpi {
  MpiState state;
  bool multiple;  ///< MPI_THREAD_MULTIPLE
  PmpiTable p;
  MPI_Comm comm_null;
  MPI_Comm comm_world;
  MPI_Request request_null;
  MPI_Request request_empty;  ///< Open MPI hands this out for operations that are complete when posted
  MPI_Datatype datatype_null;
};
extern Mpi g_mpi;

bool start_late(const void* caller);
/// True: record this call. A wrapper that is reached without MPI_Init having been seen starts the recording itself.
inline bool mpi_recording(const void* caller) {
  MpiState state;
  __atomic_load(&g_mpi.state, &state, __ATOMIC_RELAXED);
  return __builtin_expect(state == MpiState::kRunning, 1) || (state == MpiState::kUnknown && start_late(caller));
}

/// Starts the recorder from the environment, once per process. False: it is off, and why was said if it was worth saying.
bool start_recorder(bool from_mpi);
/// One line on stderr from one process of the job.
void say(const char* format, ...) __attribute__((format(printf, 1, 2)));
bool collector_wanted(const char* name);
/// A child of a recorded process that has not become a process of MPI itself.
bool is_forked_child();

}  // namespace ddl
