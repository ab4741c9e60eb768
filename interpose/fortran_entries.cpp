// Fortran entries: mpi_allreduce_, mpi_allreduce_f08_, ... for every row of the table (the symbols themselves:
// WriteEntries.cmake).
//
// A Fortran call reaches us as the C call that the MPI library's Fortran layer makes for it (PMPI_X in Open MPI,
// MPI_X in MPICH): handles, counts, ierror, MPI_IN_PLACE, MPI_BOTTOM and MPI_STATUS_IGNORE are converted by those
// who know how. What is lost on that way is the caller: all of a program's calls would come from one place in
// libmpi_mpifh. So these entries note the return address and the operation (wrapper.h, FortranCall), touch no
// argument, and jump to the real function.
//
// Rejected: wrappers with converted arguments. They would have to know each compiler's conventions for logicals and
// characters, and each MPI library's for its sentinels, to gain nothing.
#include "interpose/save_arguments.h"
#include "interpose/wrapper.h"

extern "C" {

/// Where each entry's own name is, counted from here: addresses would have to be relocated in every process.
extern const int32_t ddl_fortran_names[] __attribute__((visibility("hidden")));

__attribute__((visibility("hidden"))) void ddl_no_fortran() {}

/// Finds the function behind entry `entry`. Without one the call does nothing: somebody linked with our symbol but
/// without an MPI library.
__attribute__((visibility("hidden"))) void* ddl_resolve_fortran(uint64_t entry, const void* caller) {
  void* real = ddl::resolve(reinterpret_cast<const char*>(ddl_fortran_names) + ddl_fortran_names[entry], caller);
  if (!real) real = reinterpret_cast<void*>(&ddl_no_fortran);
  __atomic_store_n(&ddl::ddl_fortran_real[entry], real, __ATOMIC_RELAXED);
  return real;
}
}

// eax: entry, r11d: operation.
__asm__(
    ".text\n .globl ddl_fortran_entry\n .hidden ddl_fortran_entry\n .type ddl_fortran_entry,@function\n"
    "ddl_fortran_entry:\n"
    "pushq %rbx\n movq ddl_fortran_call@gottpoff(%rip), %rbx\n movq 8(%rsp), %r10\n"
    "movq %r10, %fs:(%rbx)\n movq %r11, %fs:8(%rbx)\n popq %rbx\n"
    "leaq ddl_fortran_real(%rip), %r11\n movq (%r11,%rax,8), %r11\n testq %r11, %r11\n je 1f\n jmp *%r11\n"
    "1:\n" DDL_SAVE_ARGUMENTS "movq %rax, %rdi\n movq %r10, %rsi\n call ddl_resolve_fortran\n" DDL_RESTORE_ARGUMENTS
    "jmp *%rax\n .size ddl_fortran_entry,.-ddl_fortran_entry\n");
