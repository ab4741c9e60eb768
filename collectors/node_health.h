// The health of the node: NIC counters, and of GPUs clocks, throttling, power, temperature. Injected code.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace ddl {

struct HealthValue {
  const char* name;  ///< "rx_bytes"; stays
  double value;
};
constexpr size_t kMaxHealthValues = 16;

/// A sample of one device.
using HealthSink = void (*)(const char* device, const HealthValue* values, size_t count);

/// Counters of network interfaces and InfiniBand ports below `sys` ("/sys"). Interfaces that are down, loopback, and
/// the inner ends of virtual networks are left out. One thread at a time.
void read_network(const char* sys, HealthSink sink);
/// All GPUs that NVML knows. Opens NVML the first time; none where it cannot be opened. Takes up to tens of ms per GPU.
void read_gpus(HealthSink sink);

/// The peers of one GPU's NVLinks.
struct Nvlinks {
  const char* bus;   ///< the GPU's, as NVML writes it: 00000000:3B:00.0
  const char* peer;  ///< another GPU's bus, "cpu" or "switch"
  unsigned links;    ///< that are up
  unsigned version;  ///< NVML's number for it; 0: not known
  unsigned mbps;     ///< line rate of each, MB/s in one direction; 0: not known
};
using NvlinkSink = void (*)(const Nvlinks& links);
/// Once, after read_gpus().
void read_nvlinks(NvlinkSink sink);

/// One sample of the whole node, if this process is the one of its node that takes them and a second is over. From a
/// thread that may wait `gpus` is true: NVML takes its time.
void sample_node(bool gpus);

}  // namespace ddl
