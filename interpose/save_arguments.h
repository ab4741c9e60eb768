// Assembler around a C++ function that an entry point calls before it jumps on: all argument registers of the
// System V ABI but those of floating point (no MPI call has any) are as before. The stack pointer must be as at the
// entry of a function.
#pragma once

#define DDL_SAVE_ARGUMENTS "pushq %rdi\n pushq %rsi\n pushq %rdx\n pushq %rcx\n pushq %r8\n pushq %r9\n subq $8, %rsp\n"
#define DDL_RESTORE_ARGUMENTS "addq $8, %rsp\n popq %r9\n popq %r8\n popq %rcx\n popq %rdx\n popq %rsi\n popq %rdi\n"
