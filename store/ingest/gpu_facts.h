// A process's GPUs as the driver reports them: facts gpu.N.* into table gpu, NVML's facts nvlink.BUS about their
// NVLinks into nvlink.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "store/ingest/process_load.h"
#include "store/insert.h"

namespace ddl::store {

struct Link {
  std::string name;         ///< "PCIe 3.0 x16"
  double bytes_per_second;  ///< of one direction
};

/// From "8.0 GT/s x16", as Linux writes the speed and width of a PCI link; nothing for other texts.
std::optional<Link> pcie_link(std::string_view text);

/// `count` NVLinks of NVML's `version` (0: unknown) at a line rate of `mbps` MB/s (0: unknown). A rate of 0: unknown.
Link nvlink(unsigned count, unsigned version, unsigned mbps);

void write_gpus(Statements& db, int64_t host, const ProcessTables& tables);

}  // namespace ddl::store
