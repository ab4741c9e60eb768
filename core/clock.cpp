#include "core/clock.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

namespace ddl {

bool g_clock_is_tsc = false;

namespace {

/// Reads the head of a small file, terminated; false if there is none.
bool read_head(const char* path, char* buffer, size_t bytes) {
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  size_t used = 0;
  ssize_t got = 0;
  while (used + 1 < bytes && (got = read(fd, buffer + used, bytes - 1 - used)) > 0) used += static_cast<size_t>(got);
  close(fd);
  buffer[used] = 0;
  return used > 0;
}

bool tsc_is_steady() {
#if defined(__x86_64__)
  static char text[8192];  // the first processor's paragraph fits; not on the stack, which may be small
  if (!read_head("/proc/cpuinfo", text, sizeof text)) return false;
  if (!strstr(text, " constant_tsc") || !strstr(text, " nonstop_tsc")) return false;
  // A kernel that caught the TSC misbehaving has moved to one of these.
  if (!read_head("/sys/devices/system/clocksource/clocksource0/current_clocksource", text, sizeof text)) return true;
  return !strstr(text, "hpet") && !strstr(text, "acpi_pm");
#else
  return false;
#endif
}

}  // namespace

ClockKind choose_clock(const char* wish) {
  g_clock_is_tsc = !(wish && strcmp(wish, "monotonic") == 0) && tsc_is_steady();
  return g_clock_is_tsc ? ClockKind::kTsc : ClockKind::kMonotonic;
}

double estimate_ticks_per_ns() {
  const ClockPair first = read_clock_pair();
  ClockPair last = first;
  while (last.monotonic_ns - first.monotonic_ns < 100000) last = read_clock_pair();
  return static_cast<double>(last.ticks - first.ticks) / static_cast<double>(last.monotonic_ns - first.monotonic_ns);
}

ClockPair read_clock_pair() {
  ClockPair best = {};
  uint64_t narrowest = UINT64_MAX;
  for (int i = 0; i < 4; ++i) {
    const uint64_t before = ticks();
    const uint64_t monotonic_ns = clock_ns(CLOCK_MONOTONIC);
    const uint64_t realtime_ns = clock_ns(CLOCK_REALTIME);
    const uint64_t after = ticks();
    if (after - before < narrowest) {
      narrowest = after - before;
      // CLOCK_MONOTONIC was read in the first half: a quarter of the way is its best guess.
      best = {before + (after - before) / 4, monotonic_ns, realtime_ns};
    }
  }
  return best;
}

}  // namespace ddl
