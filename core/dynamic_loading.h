// dlopen and its kin under the version that any glibc has. Injected code: include this instead of calling them as
// <dlfcn.h> declares them.
//
// glibc 2.34 moved these into libc under a new version; asked for under their first version they are found in any
// glibc. Weak, because before 2.34 a process without libdl has none: such a process has no library of MPI or CUDA to
// look for either. Ask `&dlsym` first.
#pragma once

#include <dlfcn.h>

#if defined(__x86_64__)
#ifdef __cplusplus
#define DDL_C extern "C"
#else
#define DDL_C extern
#endif
#define DDL_OLDEST(function)                                  \
  __asm__(".symver " #function "," #function "@GLIBC_2.2.5"); \
  DDL_C __attribute__((weak)) __typeof__(function) function
DDL_OLDEST(dlopen);
DDL_OLDEST(dlclose);
DDL_OLDEST(dlsym);
DDL_OLDEST(dladdr);
#undef DDL_OLDEST
#undef DDL_C
#endif
