/* NVML with two GPUs whose health is known. The second lets nobody see its power, as in a container, and is throttled by heat. */
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
PUBLIC int nvmlDeviceGetPciInfo_v3(void* device, struct pci* info) {
  strcpy(info->bus, number(device) ? "00000000:5E:00.0" : "00000000:3B:00.0");
  return kOk;
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
    fields[i].result = number(device) == 0 && (fields[i].id == 138 || fields[i].id == 139) && fields[i].scope == ~0u ? kOk : kNotSupported;
    fields[i].value = fields[i].id == 138 ? 3 : 5;
  }
  return kOk;
}
