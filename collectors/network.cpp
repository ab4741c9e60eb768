// Counters that the kernel keeps of each network interface and InfiniBand port, as files. Directories are read by the
// system call: opendir allocates.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "collectors/node_health.h"
#include "core/decimal.h"

namespace ddl {

namespace {

constexpr size_t kPathBytes = 320;
constexpr int kMaxInterfaces = 16;  // a rank pays for each: some 20 us a sample

/// Inner ends of containers' and virtual machines' networks: a node may have hundreds, and their bytes are counted by
/// the real one, too.
constexpr const char* kVirtual[] = {"veth",    "docker", "br-", "virbr", "cali", "cni",
                                    "flannel", "vxlan",  "tap", "tun",   "lxc"};
bool is_virtual(const char* interface) {
  for (const char* prefix : kVirtual) {
    if (strncmp(interface, prefix, strlen(prefix)) == 0) return true;
  }
  return strcmp(interface, "lo") == 0;
}

/// As the kernel lays out what getdents64 returns.
struct Entry {
  uint64_t inode;
  int64_t next;
  uint16_t bytes;
  uint8_t type;
  char name[1];
};

/// Not on the stack, which may be a small thread's: only one reads at a time.
struct alignas(8) Entries {
  char bytes[2048];
};
Entries g_adapters, g_ports;

/// Calls `use(name)` for everything in a folder but what begins with a dot.
template <class Use>
void for_each_entry(const char* folder, Entries& entries, Use use) {
  const int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  long got = 0;
  while ((got = syscall(SYS_getdents64, fd, entries.bytes, sizeof entries.bytes)) > 0) {
    for (long at = 0; at < got;) {
      const Entry* entry = reinterpret_cast<const Entry*>(entries.bytes + at);
      if (entry->name[0] != '.') use(entry->name);
      at += entry->bytes;
    }
  }
  close(fd);
}

bool read_text(const char* path, char* text, size_t bytes) {
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const ssize_t got = read(fd, text, bytes - 1);
  close(fd);
  if (got <= 0) return false;
  text[got] = 0;
  text[strcspn(text, "\n")] = 0;
  return true;
}

struct File {
  const char* file;
  const char* name;
  double unit;
};
constexpr File kInterface[] = {{"rx_bytes", "rx_bytes", 1},     {"tx_bytes", "tx_bytes", 1},
                               {"rx_errors", "rx_errors", 1},   {"tx_errors", "tx_errors", 1},
                               {"rx_dropped", "rx_dropped", 1}, {"tx_dropped", "tx_dropped", 1}};
constexpr File kPort[] = {{"port_rcv_data", "rx_bytes", 4},  // words
                          {"port_xmit_data", "tx_bytes", 4},       {"port_rcv_errors", "rx_errors", 1},
                          {"port_xmit_discards", "tx_dropped", 1}, {"port_xmit_wait", "tx_wait", 1},
                          {"symbol_error", "symbol_errors", 1},    {"link_downed", "link_downed", 1}};

template <size_t N>
void read_counters(const char* folder, const File (&files)[N], const char* device, HealthSink sink) {
  HealthValue values[N];
  size_t count = 0;
  for (const File& file : files) {
    char path[kPathBytes], text[32];
    if (static_cast<size_t>(snprintf(path, sizeof path, "%s/%s", folder, file.file)) >= sizeof path ||
        !read_text(path, text, sizeof text))
      continue;
    values[count++] = {file.name, decimal(text) * file.unit};
  }
  if (count > 0) sink(device, values, count);
}

}  // namespace

void read_network(const char* sys, HealthSink sink) {
  char folder[kPathBytes / 2];
  int left = kMaxInterfaces;
  snprintf(folder, sizeof folder, "%s/class/net", sys);
  for_each_entry(folder, g_adapters, [&](const char* name) {
    char path[kPathBytes], state[16];
    if (is_virtual(name) || left == 0) return;
    snprintf(path, sizeof path, "%s/%.60s/operstate", folder, name);
    if (read_text(path, state, sizeof state) && strcmp(state, "down") == 0) return;
    snprintf(path, sizeof path, "%s/%.60s/statistics", folder, name);
    --left;
    read_counters(path, kInterface, name, sink);
  });
  snprintf(folder, sizeof folder, "%s/class/infiniband", sys);
  for_each_entry(folder, g_adapters, [&](const char* adapter) {
    char ports[kPathBytes / 2];
    snprintf(ports, sizeof ports, "%.70s/%.60s/ports", folder, adapter);
    for_each_entry(ports, g_ports, [&](const char* port) {
      char path[kPathBytes], device[80];
      snprintf(path, sizeof path, "%s/%.8s/counters", ports, port);
      snprintf(device, sizeof device, "%.60s/%.8s", adapter, port);
      read_counters(path, kPort, device, sink);
    });
  });
}

}  // namespace ddl
