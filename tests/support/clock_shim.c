// LD_PRELOAD library for tests: the clocks of a host, as CLOCK_SHIM=MONOTONIC_NS:REALTIME_NS:DRIFT_PPM:ORIGIN_NS says.
// Both clocks are off by their ns, and gain DRIFT_PPM on the machine's since ORIGIN_NS of its CLOCK_MONOTONIC: the same
// in every process of the host.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

typedef int (*clock_gettime_t)(clockid_t, struct timespec*);

static clock_gettime_t real;
static int64_t offset_ns[2];
static double drift_ppm;
static int64_t origin_ns;

__attribute__((constructor)) static void read_settings(void) {
  real = (clock_gettime_t)dlsym(RTLD_NEXT, "clock_gettime");
  const char* text = getenv("CLOCK_SHIM");
  if (text &&
      sscanf(text, "%" SCNd64 ":%" SCNd64 ":%lf:%" SCNd64, &offset_ns[0], &offset_ns[1], &drift_ppm, &origin_ns) != 4)
    abort();
}

static int64_t ns_of(const struct timespec* t) { return (int64_t)t->tv_sec * 1000000000 + t->tv_nsec; }

int clock_gettime(clockid_t clock, struct timespec* now) {
  if (!real) read_settings();
  const int result = real(clock, now);
  if (result != 0 || (clock != CLOCK_MONOTONIC && clock != CLOCK_REALTIME)) return result;
  int64_t monotonic_ns = ns_of(now);
  if (clock == CLOCK_REALTIME) {
    struct timespec monotonic;
    real(CLOCK_MONOTONIC, &monotonic);
    monotonic_ns = ns_of(&monotonic);
  }
  const int64_t ns = ns_of(now) + offset_ns[clock == CLOCK_REALTIME] +
                     (int64_t)((double)(monotonic_ns - origin_ns) * drift_ppm * 1e-6);
  now->tv_sec = ns / 1000000000;
  now->tv_nsec = ns % 1000000000;
  return 0;
}
