// The process's clock: TSC where it is constant and never stops, else CLOCK_MONOTONIC. Injected code.
#pragma once

#include <stdint.h>
#include <time.h>

#include "core/format.h"

namespace ddl {

/// Decided once by choose_clock(), before the first ticks().
extern bool g_clock_is_tsc __attribute__((visibility("hidden")));

inline uint64_t clock_ns(clockid_t clock) {
  timespec now;
  clock_gettime(clock, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1000000000u + static_cast<uint64_t>(now.tv_nsec);
}

/// Not serialised on purpose: a fence costs as much as the read, and what it orders is below the noise of a call. A
/// builtin, because x86intrin.h would be most of what the compiler reads for every file of the library.
inline uint64_t ticks() {
#if defined(__x86_64__)
  if (__builtin_expect(g_clock_is_tsc, 1)) return __builtin_ia32_rdtsc();
#endif
  return clock_ns(CLOCK_MONOTONIC);
}

/// `wish` is DDL_CLOCK: "monotonic" forces CLOCK_MONOTONIC, anything else (also NULL) lets the machine decide.
ClockKind choose_clock(const char* wish);

/// Ticks per nanosecond within about 1 %, from a wait of 100 us. Only for windows given in seconds; ingest
/// fits the real rate.
double estimate_ticks_per_ns();

/// Three clocks as close together as a few tries can make them.
ClockPair read_clock_pair();

}  // namespace ddl
