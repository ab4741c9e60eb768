// MPI_X and PMPI_X of libddl-mpich.so. MPICH's handles are 32 bits wide, Open MPI's 64: a wrapper compiled for the one
// would cut the other's arguments in half on their way through. So in this flavour the names that the job calls are
// entries (WriteEntries.cmake) that look, before they touch an argument, whether the process's MPI library is ours, and
// jump past us if it is not. (libddl.so needs none: what it passes on is wide enough for either.)
#include "interpose/save_arguments.h"
#include "interpose/wrapper.h"

extern "C" {

extern const int32_t ddl_guard_names[] __attribute__((visibility("hidden")));
extern const int32_t ddl_guard_bodies[] __attribute__((visibility("hidden")));
extern void* ddl_guard_real[] __attribute__((visibility("hidden")));

/// 0: not known yet; 1: ours; 2: another library's.
__attribute__((visibility("hidden"))) int ddl_flavour = 0;

__attribute__((visibility("hidden"))) int ddl_no_mpi() { return MPI_ERR_INTERN; }

/// Where entry `entry` has to go.
__attribute__((visibility("hidden"))) const void* ddl_guarded(uint64_t entry, const void* caller) {
  if (__atomic_load_n(&ddl_flavour, __ATOMIC_RELAXED) == 0) {
    __atomic_store_n(&ddl_flavour, ddl::is_our_flavour(caller) ? 1 : 2, __ATOMIC_RELAXED);
    if (ddl_flavour == 2) ddl::say_other_flavour();
  }
  if (ddl_flavour == 1) return reinterpret_cast<const char*>(ddl_guard_bodies) + ddl_guard_bodies[entry];
  void* real = __atomic_load_n(&ddl_guard_real[entry], __ATOMIC_RELAXED);
  if (!real) {
    real = ddl::resolve_mpi(reinterpret_cast<const char*>(ddl_guard_names) + ddl_guard_names[entry], caller);
    if (!real) real = reinterpret_cast<void*>(&ddl_no_mpi);
    __atomic_store_n(&ddl_guard_real[entry], real, __ATOMIC_RELAXED);
  }
  return real;
}
}

// eax: entry. The caller's address is on top of the stack.
__asm__(
    ".text\n .globl ddl_guard_entry\n .hidden ddl_guard_entry\n .type ddl_guard_entry,@function\n"
    "ddl_guard_entry:\n movq (%rsp), %r10\n" DDL_SAVE_ARGUMENTS
    "movq %rax, %rdi\n movq %r10, %rsi\n call ddl_guarded\n" DDL_RESTORE_ARGUMENTS
    "jmp *%rax\n .size ddl_guard_entry,.-ddl_guard_entry\n");
