// Who samples: one process per node, the one that its launcher calls the first there. In it, whoever comes by: the
// reading of the clocks that is due about once a second anyway, on a thread of the job (network counters only, some 50
// us), and CUPTI's reader thread where there is one (all, NVML may take tens of ms). No thread is started for it:
// docs/decisions/0010.
#include "collectors/node_health.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <initializer_list>

#include "collectors/collectors.h"
#include "core/recorder.h"
#include "interpose/process.h"

namespace ddl {

namespace {

bool g_samples = false;  // this process is the one
uint64_t g_next_ticks[2];
bool g_linked = false;  // what NVLinks lead to is written
int g_busy = 0;

/// Ranks on a host as launchers number them; without a launcher every process is the first.
bool is_first_of_node() {
  for (const char* name : {"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID", "LOCAL_RANK"}) {
    if (const char* value = setting(name)) return strcmp(value, "0") == 0;
  }
  return true;
}

void write(const char* device, const HealthValue* values, size_t count) {
  SampleMeta meta = {ticks(), intern_name(device, strnlen(device, 64)), static_cast<uint32_t>(count)};
  SampleValue written[kMaxHealthValues];
  for (size_t i = 0; i < count; ++i)
    written[i] = {values[i].value, intern_name(values[i].name, strlen(values[i].name)), 0};
  write_sample(meta, written);
}

void write_nvlinks(const Nvlinks& links) {
  char key[64], value[96];
  snprintf(key, sizeof key, "nvlink.%.40s", links.bus);
  snprintf(value, sizeof value, "%.40s x%u version %u %u MB/s", links.peer, links.links, links.version, links.mbps);
  write_fact(key, value);
}

/// From the clocks' reading, on a thread of the job.
void on_clock() { sample_node(false); }

}  // namespace

void sample_node(bool gpus) {
  if (!g_samples || !g_process.active) return;
  int free = 0;
  if (!__atomic_compare_exchange_n(&g_busy, &free, 1, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) return;
  const int saved_errno = errno;
  const uint64_t now = ticks();
  if (now >= g_next_ticks[gpus]) {
    // Every second at first, then every 1/4096 of the run's age: a bounded number of samples.
    const uint64_t age = now - spool_header()->begin.ticks;
    const uint64_t second = second_ticks();
    g_next_ticks[gpus] = now + (age / 4096 > second ? age / 4096 : second) * 9 / 10;
    if (gpus) {
      read_gpus(write);
      if (!g_linked) read_nvlinks(write_nvlinks);
      g_linked = true;
    } else {
      read_network("/sys", write);
    }
  }
  __atomic_store_n(&g_busy, 0, __ATOMIC_RELEASE);
  errno = saved_errno;
}

void start_node_health() {
  g_samples = collector_wanted("node") && is_first_of_node();
  g_next_ticks[0] = g_next_ticks[1] = 0;
  g_linked = false;
  g_busy = 0;
  if (!g_samples) return;
  each_clock(on_clock);
  sample_node(false);
}

void end_node_health() {
  g_next_ticks[0] = 0;
  sample_node(false);
}

}  // namespace ddl
