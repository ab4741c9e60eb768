#include "collectors/cupti.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/decimal.h"
#include "core/dynamic_loading.h"
#include "core/recorder.h"

namespace ddl {

namespace {

constexpr int kMaxDevices = 64;

bool read_line(const char* folder, const char* file, char* text, size_t bytes) {
  char path[PATH_MAX + 32];
  snprintf(path, sizeof path, "%s/%s", folder, file);
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const ssize_t got = read(fd, text, bytes - 1);
  close(fd);
  text[got > 0 ? got : 0] = 0;
  text[strcspn(text, "\n")] = 0;
  return got > 0;
}

/// The slowest hop from the device up to the root: a fast card in a slow slot. What it can do, not what it does: an
/// idle GPU slows its link down. False: unknown.
bool slowest_link(const char* bus, char* text, size_t bytes) {
  static char place[PATH_MAX];
  char link[96];
  snprintf(link, sizeof link, "/sys/bus/pci/devices/%s", bus);
  if (!realpath(link, place)) return false;
  double speed = 0;
  int width = 0;
  char value[64];
  while (read_line(place, "max_link_speed", value, sizeof value)) {
    const double hop_speed = decimal(value);
    const int hop_width = read_line(place, "max_link_width", value, sizeof value) ? atoi(value) : 0;
    if (hop_speed > 0 && (speed == 0 || hop_speed < speed)) speed = hop_speed;
    if (hop_width > 0 && (width == 0 || hop_width < width)) width = hop_width;
    char* slash = strrchr(place, '/');
    if (!slash) break;
    *slash = 0;
  }
  const int tenths = static_cast<int>(speed * 10 + 0.5);  // not %f: whatever the job's locale puts for a point
  snprintf(text, bytes, "%d.%d GT/s x%d", tenths / 10, tenths % 10, width);
  return speed > 0 && width > 0;
}

void write_gpu_fact(int device, const char* what, const char* value) {
  char key[32];
  snprintf(key, sizeof key, "gpu.%d.%s", device, what);
  write_fact(key, value);
}

}  // namespace

void write_gpu_facts() {
  void* driver = &dlsym ? dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD) : nullptr;
  if (!driver) return;
  const auto count_devices = reinterpret_cast<int (*)(int*)>(dlsym(driver, "cuDeviceGetCount"));
  const auto get = reinterpret_cast<int (*)(int*, int)>(dlsym(driver, "cuDeviceGet"));
  const auto name_of = reinterpret_cast<int (*)(char*, int, int)>(dlsym(driver, "cuDeviceGetName"));
  const auto bus_of = reinterpret_cast<int (*)(char*, int, int)>(dlsym(driver, "cuDeviceGetPCIBusId"));
  int count = 0, handle = 0;
  if (count_devices && get && name_of && bus_of && count_devices(&count) == 0) {
    for (int device = 0; device < count && device < kMaxDevices; ++device) {
      if (get(&handle, device) != 0) continue;
      char name[128] = {}, bus[32] = {}, link[48];
      if (name_of(name, sizeof name - 1, handle) == 0) write_gpu_fact(device, "name", name);
      if (bus_of(bus, sizeof bus - 1, handle) != 0) continue;
      for (char* c = bus; *c; ++c) {
        if (*c >= 'A' && *c <= 'F') *c = static_cast<char>(*c - 'A' + 'a');  // as in /sys
      }
      write_gpu_fact(device, "bus", bus);
      if (slowest_link(bus, link, sizeof link)) write_gpu_fact(device, "link", link);
    }
  }
  dlclose(driver);
}

}  // namespace ddl
