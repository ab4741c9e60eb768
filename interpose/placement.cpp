// Where the process runs: its CPUs, their NUMA nodes, its number on its host. Injected code. The CPUs are those of the
// main thread, which is the one that most programs compute on; launchers bind a process before it begins, so they are
// known at the first MPI call.
#include "interpose/process.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <initializer_list>

#include "core/recorder.h"

namespace ddl {

namespace {

constexpr size_t kListBytes = 4096;  // every second of CPU_SETSIZE CPUs fits

char g_list[kListBytes];  // stacks may be small; one thread starts and one ends the process
cpu_set_t g_cpus;         // as written
bool g_known = false;

/// "0-3,8"
void print_list(const cpu_set_t& set, char* text) {
  size_t used = 0;
  text[0] = 0;
  for (int i = 0; i < CPU_SETSIZE; ++i) {
    if (!CPU_ISSET(i, &set)) continue;
    int last = i;
    while (last + 1 < CPU_SETSIZE && CPU_ISSET(last + 1, &set)) ++last;
    used += static_cast<size_t>(
        snprintf(text + used, kListBytes - used, last > i ? "%s%d-%d" : "%s%d", used ? "," : "", i, last));
    i = last;
  }
}

void write_set(const char* key, const cpu_set_t& set) {
  print_list(set, g_list);
  if (g_list[0]) write_fact(key, g_list);
}

/// A list of the kernel's, as print_list() makes them. False if the file is not there or holds something else.
bool read_list(const char* path, cpu_set_t* set) {
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  const ssize_t got = fd >= 0 ? read(fd, g_list, sizeof g_list - 1) : -1;
  if (fd >= 0) close(fd);
  if (got <= 0) return false;
  g_list[got] = 0;
  CPU_ZERO(set);
  for (char* at = g_list; *at && *at != '\n';) {
    char* end = at;
    const long first = strtol(at, &end, 10);
    long last = first;
    if (end == at || first < 0) return false;
    if (*end == '-') last = strtol(end + 1, &end, 10);
    for (long i = first; i <= last && i < CPU_SETSIZE; ++i) CPU_SET(i, set);
    at = *end == ',' ? end + 1 : end;
    if (*end && *end != ',' && *end != '\n') return false;
  }
  return true;
}

void write_numa_nodes() {
  cpu_set_t online, nodes, here;
  if (!read_list("/sys/devices/system/node/has_cpu", &online)) return;
  CPU_ZERO(&nodes);
  for (int node = 0; node < CPU_SETSIZE; ++node) {
    if (!CPU_ISSET(node, &online)) continue;
    char path[64];
    snprintf(path, sizeof path, "/sys/devices/system/node/node%d/cpulist", node);
    if (!read_list(path, &here)) return;
    CPU_AND(&here, &here, &g_cpus);
    if (CPU_COUNT(&here) > 0) CPU_SET(node, &nodes);
  }
  write_set("numa", nodes);
}

}  // namespace

void write_placement() {
  for (const char* name : {"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID"}) {
    const char* value = getenv(name);
    if (!value || !value[0]) continue;
    write_fact("local_rank", value);
    break;
  }
  g_known = sched_getaffinity(getpid(), sizeof g_cpus, &g_cpus) == 0;
  if (!g_known) return;
  write_set("cpus", g_cpus);
  write_numa_nodes();
}

void write_placement_if_moved() {
  cpu_set_t now;
  if (!g_known || sched_getaffinity(getpid(), sizeof now, &now) != 0 || CPU_EQUAL(&now, &g_cpus)) return;
  write_set("cpus_at_end", now);
}

}  // namespace ddl
