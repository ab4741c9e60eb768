// NVML, opened at run time: what the driver knows of each GPU's health. Layouts and numbers as in nvml.h of CUDA 11 to
// 13; not verified on a GPU.
#include <stdio.h>
#include <string.h>

#include "collectors/node_health.h"
#include "core/dynamic_loading.h"

namespace ddl {

namespace {

using Device = struct DeviceHandle*;

struct PciInfo {
  char legacy_bus_id[16];
  unsigned domain, bus, device, device_id, subsystem_id;
  char bus_id[32];
  unsigned beyond[8];  // older versions were longer
};
static_assert(offsetof(PciInfo, bus_id) == 36);
struct Memory {
  unsigned long long total, free, used;
};
struct Utilization {
  unsigned gpu, memory;
};
struct FieldValue {
  unsigned field, scope;
  long long timestamp, latency_us;
  int type, result;
  union {
    double d;
    unsigned long long u;
  } value;
};
static_assert(sizeof(FieldValue) == 40);

constexpr int kClockSm = 1, kClockMemory = 2, kTemperatureGpu = 0, kPcieSent = 0, kPcieReceived = 1;
constexpr unsigned kNvlinkSent = 138, kNvlinkReceived = 139;  // KiB since the driver was loaded
constexpr unsigned kAllLinks = ~0u;
constexpr unsigned kNvlinkSpeed = 164, kNvlinkCommonSpeed = 90;  // MB/s: of the link that is asked for, of all
constexpr unsigned kMaxLinks = 32;                               // 18 so far
constexpr unsigned kPeers = 16;
enum RemoteType : int { kRemoteGpu = 0, kRemoteCpu = 1, kRemoteSwitch = 2 };
constexpr unsigned kMaxDevices = 32;

struct Nvml {
  bool tried;
  int (*init)();
  int (*count)(unsigned*);
  int (*handle)(unsigned, Device*);
  int (*pci_info)(Device, PciInfo*);
  int (*clock)(Device, int, unsigned*);
  int (*reasons)(Device, unsigned long long*);
  int (*power)(Device, unsigned*);
  int (*temperature)(Device, int, unsigned*);
  int (*memory)(Device, Memory*);
  int (*utilization)(Device, Utilization*);
  int (*pcie)(Device, int, unsigned*);
  int (*fields)(Device, int, FieldValue*);
  int (*link_state)(Device, unsigned, int*);
  int (*link_version)(Device, unsigned, unsigned*);
  int (*link_remote_type)(Device, unsigned, int*);
  int (*link_remote)(Device, unsigned, PciInfo*);
  unsigned devices;
  Device device[kMaxDevices];
  char name[kMaxDevices][40];
};
Nvml g_nvml = {};

template <class F>
void find(void* library, const char* name, F*& function) {
  function = reinterpret_cast<F*>(dlsym(library, name));
}

void open_nvml() {
  Nvml& n = g_nvml;
  n.tried = true;
  if (!&dlopen || !&dlsym) return;
  void* library = dlopen("libnvidia-ml.so.1", RTLD_LAZY | RTLD_LOCAL);
  if (!library) return;
  find(library, "nvmlInit_v2", n.init);
  find(library, "nvmlDeviceGetCount_v2", n.count);
  find(library, "nvmlDeviceGetHandleByIndex_v2", n.handle);
  find(library, "nvmlDeviceGetPciInfo_v3", n.pci_info);
  find(library, "nvmlDeviceGetClockInfo", n.clock);
  find(library, "nvmlDeviceGetCurrentClocksThrottleReasons", n.reasons);
  find(library, "nvmlDeviceGetPowerUsage", n.power);
  find(library, "nvmlDeviceGetTemperature", n.temperature);
  find(library, "nvmlDeviceGetMemoryInfo", n.memory);
  find(library, "nvmlDeviceGetUtilizationRates", n.utilization);
  find(library, "nvmlDeviceGetPcieThroughput", n.pcie);
  find(library, "nvmlDeviceGetFieldValues", n.fields);
  find(library, "nvmlDeviceGetNvLinkState", n.link_state);
  find(library, "nvmlDeviceGetNvLinkVersion", n.link_version);
  find(library, "nvmlDeviceGetNvLinkRemoteDeviceType", n.link_remote_type);
  find(library, "nvmlDeviceGetNvLinkRemotePciInfo_v2", n.link_remote);
  unsigned count = 0;
  if (!n.init || !n.count || !n.handle || n.init() != 0 || n.count(&count) != 0) return;
  for (unsigned i = 0; i < count && i < kMaxDevices; ++i) {
    if (n.handle(i, &n.device[n.devices]) != 0) continue;  // not ours to see
    PciInfo info = {};
    if (n.pci_info && n.pci_info(n.device[n.devices], &info) == 0) {
      snprintf(n.name[n.devices], sizeof n.name[0], "gpu %.31s", info.bus_id);
    } else {
      snprintf(n.name[n.devices], sizeof n.name[0], "gpu %u", i);
    }
    ++n.devices;
  }
}

class Values {
 public:
  void add(const char* name, double value) {
    if (count_ < kMaxHealthValues) values_[count_++] = {name, value};
  }
  /// What the function tells, times `unit`; nothing if it does not.
  template <class F, class... Which>
  void ask(const char* name, F* function, double unit, Device device, Which... which) {
    unsigned value = 0;
    if (function && function(device, which..., &value) == 0) add(name, value * unit);
  }
  void give(const char* device, HealthSink sink) const {
    if (count_ > 0) sink(device, values_, count_);
  }

 private:
  HealthValue values_[kMaxHealthValues];
  size_t count_ = 0;
};

void read_gpu(Device device, Values& values) {
  const Nvml& n = g_nvml;
  values.ask("sm_mhz", n.clock, 1, device, kClockSm);
  values.ask("memory_mhz", n.clock, 1, device, kClockMemory);
  unsigned long long reasons = 0;
  if (n.reasons && n.reasons(device, &reasons) == 0) values.add("throttle_reasons", static_cast<double>(reasons));
  values.ask("power_watts", n.power, 1e-3, device);
  values.ask("temperature_celsius", n.temperature, 1, device, kTemperatureGpu);
  Memory memory;
  if (n.memory && n.memory(device, &memory) == 0) {
    values.add("memory_used_bytes", static_cast<double>(memory.used));
    values.add("memory_total_bytes", static_cast<double>(memory.total));
  }
  Utilization utilization;
  if (n.utilization && n.utilization(device, &utilization) == 0) values.add("busy_ratio", utilization.gpu * 0.01);
  values.ask("pcie_tx_bytes_per_second", n.pcie, 1000, device, kPcieSent);
  values.ask("pcie_rx_bytes_per_second", n.pcie, 1000, device, kPcieReceived);
  FieldValue fields[2] = {};
  fields[0].field = kNvlinkSent;
  fields[1].field = kNvlinkReceived;
  fields[0].scope = fields[1].scope = kAllLinks;
  if (!n.fields || n.fields(device, 2, fields) != 0) return;
  if (fields[0].result == 0) values.add("nvlink_tx_bytes", static_cast<double>(fields[0].value.u) * 1024);
  if (fields[1].result == 0) values.add("nvlink_rx_bytes", static_cast<double>(fields[1].value.u) * 1024);
}

unsigned field(Device device, unsigned id, unsigned scope) {
  FieldValue value = {};
  value.field = id;
  value.scope = scope;
  const bool known = g_nvml.fields && g_nvml.fields(device, 1, &value) == 0 && value.result == 0;
  return known ? static_cast<unsigned>(value.value.u) : 0;
}

/// What is at the other end. False: nothing that has a name.
bool name_remote(Device device, unsigned link, char* name, size_t bytes) {
  const Nvml& n = g_nvml;
  int type = -1;
  if (!n.link_remote_type || n.link_remote_type(device, link, &type) != 0) return false;
  PciInfo info = {};
  if (type == kRemoteGpu && n.link_remote && n.link_remote(device, link, &info) == 0) {
    snprintf(name, bytes, "%.31s", info.bus_id);
  } else if (type == kRemoteCpu || type == kRemoteSwitch) {
    snprintf(name, bytes, "%s", type == kRemoteCpu ? "cpu" : "switch");
  } else {
    return false;
  }
  return true;
}

}  // namespace

void read_nvlinks(NvlinkSink sink) {
  const Nvml& n = g_nvml;
  for (unsigned i = 0; i < n.devices && n.link_state; ++i) {
    const Device device = n.device[i];
    const unsigned common_mbps = field(device, kNvlinkCommonSpeed, 0);
    char names[kPeers][32];
    Nvlinks peers[kPeers];
    unsigned count = 0;
    for (unsigned link = 0; link < kMaxLinks; ++link) {
      int up = 0;
      char name[32];
      if (n.link_state(device, link, &up) != 0) break;  // there are no more
      if (up != 1 || !name_remote(device, link, name, sizeof name)) continue;
      unsigned p = 0;
      while (p < count && strcmp(names[p], name) != 0) ++p;
      if (p == kPeers) continue;
      if (p == count) {
        memcpy(names[p], name, sizeof name);
        unsigned version = 0;
        if (!n.link_version || n.link_version(device, link, &version) != 0) version = 0;
        const unsigned mbps = field(device, kNvlinkSpeed, link);
        peers[count++] = {n.name[i] + sizeof "gpu", names[p], 0, version, mbps ? mbps : common_mbps};
      }
      ++peers[p].links;
    }
    for (unsigned p = 0; p < count; ++p) sink(peers[p]);
  }
}

void read_gpus(HealthSink sink) {
  if (!g_nvml.tried) open_nvml();
  for (unsigned i = 0; i < g_nvml.devices; ++i) {
    Values values;
    read_gpu(g_nvml.device[i], values);
    values.give(g_nvml.name[i], sink);
  }
}

}  // namespace ddl
