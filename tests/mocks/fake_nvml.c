/* NVML with two GPUs whose health is known. The second lets nobody see its power, as in a container, and is throttled
 * by heat. Four NVLinks of version 2 join them, two more of the first lead to the host, as on POWER9.
 * FAKE_NVML_FABRIC=switch: six each of version 4 lead to a switch, and the driver calls them 5; none: there are no
 * NVLinks. FAKE_NVML_CUDA_BUS=1: the GPUs are those of the mock of libcuda. */
#include <stdlib.h>
#include <string.h>

#define PUBLIC __attribute__((visibility("default")))
enum { kOk = 0, kInvalid = 2, kNotSupported = 3 };
static int g_initialized;
static char g_devices[2];
static int number(void* device) { return (int)((char*)device - g_devices); }

PUBLIC int nvmlInit_v2(void) {
  g_initialized = 1;
  return kOk;
}
PUBLIC int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = 2;
  return g_initialized ? kOk : 1;
}
PUBLIC int nvmlDeviceGetHandleByIndex_v2(unsigned i, void** device) {
  if (i > 1) return kInvalid;
  *device = &g_devices[i];
  return kOk;
}
struct pci {
  char legacy[16];
  unsigned numbers[5];
  char bus[32];
};
static void put_bus(int i, struct pci* info) {
  if (getenv("FAKE_NVML_CUDA_BUS"))
    strcpy(info->bus, i ? "0000FFFF:AB:00.1" : "0000FFFF:AB:00.0");
  else
    strcpy(info->bus, i ? "00000000:5E:00.0" : "00000000:3B:00.0");
}
PUBLIC int nvmlDeviceGetPciInfo_v3(void* device, struct pci* info) { return put_bus(number(device), info), kOk; }

static int fabric_is(const char* what) {
  const char* fabric = getenv("FAKE_NVML_FABRIC");
  return fabric && strcmp(fabric, what) == 0;
}
PUBLIC int nvmlDeviceGetNvLinkState(void* device, unsigned link, int* up) {
  if (link >= 6 || fabric_is("none")) return kInvalid;
  *up = fabric_is("switch") || link < 4 || number(device) == 0;
  return kOk;
}
PUBLIC int nvmlDeviceGetNvLinkVersion(void* device, unsigned link, unsigned* version) {
  (void)device, (void)link;
  *version = fabric_is("switch") ? 7 : 2;
  return kOk;
}
PUBLIC int nvmlDeviceGetNvLinkRemoteDeviceType(void* device, unsigned link, int* type) {
  (void)device;
  *type = fabric_is("switch") ? 2 : link < 4 ? 0 : 1;
  return kOk;
}
PUBLIC int nvmlDeviceGetNvLinkRemotePciInfo_v2(void* device, unsigned link, struct pci* info) {
  (void)link;
  return put_bus(!number(device), info), kOk;
}
PUBLIC int nvmlDeviceGetClockInfo(void* device, int type, unsigned* mhz) {
  *mhz = type == 1 ? (number(device) ? 1005 : 1980) : 2619;
  return type == 1 || type == 2 ? kOk : kInvalid;
}
PUBLIC int nvmlDeviceGetCurrentClocksThrottleReasons(void* device, unsigned long long* reasons) {
  *reasons = number(device) ? 0x40 | 0x8 : 0x1;
  return kOk;
}
PUBLIC int nvmlDeviceGetPowerUsage(void* device, unsigned* milliwatts) {
  *milliwatts = 612500;
  return number(device) ? kNotSupported : kOk;
}
PUBLIC int nvmlDeviceGetTemperature(void* device, int sensor, unsigned* celsius) {
  *celsius = number(device) ? 93 : 41;
  return sensor == 0 ? kOk : kInvalid;
}
struct memory {
  unsigned long long total, free, used;
};
PUBLIC int nvmlDeviceGetMemoryInfo(void* device, struct memory* memory) {
  (void)device;
  *memory = (struct memory){150ull << 30, 100ull << 30, 50ull << 30};
  return kOk;
}
struct utilization {
  unsigned gpu, memory;
};
PUBLIC int nvmlDeviceGetUtilizationRates(void* device, struct utilization* utilization) {
  utilization->gpu = number(device) ? 100 : 25;
  return kOk;
}
PUBLIC int nvmlDeviceGetPcieThroughput(void* device, int way, unsigned* kilobytes) {
  (void)device;
  *kilobytes = way == 0 ? 1000 : 2000;
  return kOk;
}
struct field {
  unsigned id, scope;
  long long times[2];
  int type, result;
  unsigned long long value;
};
PUBLIC int nvmlDeviceGetFieldValues(void* device, int count, struct field* fields) {
  for (int i = 0; i < count; ++i) {
    if (fields[i].id == 164 && fields[i].scope < 6 && !fabric_is("none")) {
      fields[i].result = kOk;
      fields[i].value = fabric_is("switch") ? 26562 : 25781;
      continue;
    }
    fields[i].result = number(device) == 0 && (fields[i].id == 138 || fields[i].id == 139) && fields[i].scope == ~0u
                           ? kOk
                           : kNotSupported;
    fields[i].value = fields[i].id == 138 ? 3 : 5;
  }
  return kOk;
}
