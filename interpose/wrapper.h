// The parts of every MPI wrapper. Injected code.
//
// Each intercepted call is exported under both its names. MPI_X is what C programs call; it forwards to the next
// MPI_X, so that other tools in the chain see the call too. PMPI_X is what the MPI library's own Fortran layers
// call (Open MPI's bypass MPI_X) and what PMPI tools between the program and us call; it forwards to the next
// PMPI_X. Called from inside a call that is being recorded, PMPI_X is a tool or the library at work for that call,
// and passes through; MPI_X from there is a callback of the program and is recorded, unless the MPI library itself
// is the caller (its MPI-IO does so).
//
// Fortran entries (fortran_entries.cpp) leave their caller's address here on their way to the real Fortran function, so
// that call sites are those of the program and a Fortran callback's calls are known from the library's own.
#pragma once

#include "core/repeated_call.h"
#include "interpose/mpi_abi.h"

// Head of an exported function. Where entries guard it, the name that the job calls is the entry's
// (guarded_entries.cpp).
#ifdef DDL_GUARDED_ENTRIES
#define DDL_EXPORT(NAME) extern "C" __attribute__((visibility("hidden"))) int ddl_body_##NAME
#else
#define DDL_EXPORT(NAME) extern "C" __attribute__((visibility("default"))) int NAME
#endif
#define DDL_INLINE __attribute__((always_inline)) inline

namespace ddl {

struct Function {
  void* mpi;   ///< next MPI_X
  void* pmpi;  ///< next PMPI_X
};
extern Function g_functions[kMpiOpEnd] __attribute__((visibility("hidden")));
/// MPI has ended: its library may be closed, and another one, or the same elsewhere, be opened.
void forget_functions();

/// Left by a Fortran entry for the C function that the real Fortran function will call.
struct FortranCall {
  const void* site;
  uint64_t op;
};
extern "C" {
/// What the Fortran entries have found. Weak: unit tests have no entries.
extern void* ddl_fortran_real[] __attribute__((weak, visibility("hidden")));
extern void* ddl_fortran_real_end[] __attribute__((weak, visibility("hidden")));
extern __thread FortranCall ddl_fortran_call __attribute__((tls_model("initial-exec"), visibility("hidden")));
}

inline const void* take_fortran_site(uint32_t op) {
  if (__builtin_expect(ddl_fortran_call.op != op, 1)) return nullptr;
  ddl_fortran_call.op = 0;
  return ddl_fortran_call.site;
}

/// Does `site` lie in the MPI library or one of its plugins?
bool is_in_mpi_library(const void* site);

/// Is this thread inside a call that is being recorded, in which the code at `frame` was called? A call that was left
/// by longjmp or an exception of an error handler does not count: its frame is gone.
inline bool is_inside_call(const void* frame) {
  Thread* thread = t_thread;
  if (__builtin_expect(!thread || !is_in_call(thread), 1)) return false;
  if (reinterpret_cast<uintptr_t>(frame) < (call_of(thread) & ~kLongWay)) return true;
  leave_all_calls(thread);
  return false;
}

inline bool is_off() {
  MpiState state;
  __atomic_load(&g_mpi.state, &state, __ATOMIC_RELAXED);
  return state == MpiState::kOff;
}
/// The thread, if its present call may take the short way (core/repeated_call.h); else NULL.
DDL_HOT Thread* idle_thread() {
  Thread* thread = t_thread;
  return __builtin_expect(thread != nullptr, 1) && __builtin_expect(may_repeat(thread), 1) ? thread : nullptr;
}

/// True: record this call. A wrapper that is reached without MPI_Init having been seen starts the recording itself.
inline bool mpi_running(const void* site) {
  MpiState state;
  __atomic_load(&g_mpi.state, &state, __ATOMIC_RELAXED);
  return __builtin_expect(state == MpiState::kRunning, 1) || (state == MpiState::kUnknown && start_late(site));
}
inline bool records_mpi(const void* site, bool fortran, const void* frame) {
  return mpi_running(site) && (__builtin_expect(!is_inside_call(frame), 1) || fortran || !is_in_mpi_library(site));
}
inline bool records_pmpi(const void* site, bool fortran, const void* frame) {
  return mpi_running(site) && (fortran || !is_inside_call(frame));
}

/// Defines MPI_X and PMPI_X. NAME_recorded(real, site, arguments...) does the work. A caller that found us but no MPI
/// library gets an error code, never a crash.
// clang-format off
#define DDL_EXPORTS(NAME, PARAMETERS, ARGUMENTS) DDL_EXPORTS_IF(NAME, PARAMETERS, ARGUMENTS, records_mpi, records_pmpi)
#define DDL_EXPORTS_IF(NAME, PARAMETERS, ARGUMENTS, RECORDS, PRECORDS)                                        \
  DDL_EXPORT(NAME) PARAMETERS { DDL_ENTER(NAME, mpi, resolve_mpi(#NAME, site), ARGUMENTS, RECORDS) }          \
  DDL_EXPORT(P##NAME) PARAMETERS { DDL_ENTER(NAME, pmpi, resolve("P" #NAME, site), ARGUMENTS, PRECORDS) }
/// The same for calls that are made again and again: SHORT comes first, and returns or has done nothing.
#define DDL_SHORT_EXPORTS(NAME, PARAMETERS, ARGUMENTS, SHORT)                                                 \
  __attribute__((noinline)) static int NAME##_long(const void* site, const void* frame, DDL_UNLIST PARAMETERS) { \
    DDL_ENTER_FROM(NAME, mpi, resolve_mpi(#NAME, site), ARGUMENTS, records_mpi, frame)                        \
  }                                                                                                           \
  DDL_EXPORT(NAME) PARAMETERS {                                                                               \
    const void* const site = DDL_CALLER;                                                                      \
    const auto real = reinterpret_cast<decltype(&NAME)>(__atomic_load_n(&g_functions[kOp_##NAME].mpi, __ATOMIC_RELAXED)); \
    Thread* const thread = idle_thread();                                                                     \
    if (__builtin_expect(real && thread && ddl_fortran_call.op != kOp_##NAME, 1)) { SHORT }                   \
    if (real && is_off()) return real ARGUMENTS;                                                              \
    return NAME##_long(site, __builtin_dwarf_cfa() DDL_MORE ARGUMENTS);                                       \
  }                                                                                                           \
  DDL_EXPORT(P##NAME) PARAMETERS { DDL_ENTER(NAME, pmpi, resolve("P" #NAME, site), ARGUMENTS, records_pmpi) }
#define DDL_CALLER __builtin_extract_return_addr(__builtin_return_address(0))
#define DDL_ENTER(NAME, KIND, RESOLVE, ARGUMENTS, RECORDS)                                                    \
  const void* site = DDL_CALLER;                                                                              \
  DDL_ENTER_FROM(NAME, KIND, RESOLVE, ARGUMENTS, RECORDS, __builtin_dwarf_cfa())
#define DDL_ENTER_FROM(NAME, KIND, RESOLVE, ARGUMENTS, RECORDS, FRAME)                                        \
  const void* const fortran = take_fortran_site(kOp_##NAME);                                                  \
  if (fortran) site = fortran;                                                                                \
  void*& known = g_functions[kOp_##NAME].KIND;                                                                \
  auto real = reinterpret_cast<decltype(&NAME)>(__atomic_load_n(&known, __ATOMIC_RELAXED));                   \
  if (__builtin_expect(!real, 0)) {                                                                           \
    real = reinterpret_cast<decltype(&NAME)>(RESOLVE);                                                        \
    if (!real) return MPI_ERR_INTERN;                                                                         \
    __atomic_store_n(&known, reinterpret_cast<void*>(real), __ATOMIC_RELAXED);                                \
  }                                                                                                           \
  if (!RECORDS(site, fortran != nullptr, FRAME)) return real ARGUMENTS;                                       \
  return NAME##_recorded(real, site DDL_MORE ARGUMENTS);
#define DDL_UNLIST(...) __VA_ARGS__
#define DDL_MORE(...) __VA_OPT__(, ) __VA_ARGS__
// clang-format on

}  // namespace ddl
