#include "store/ingest/gpu_facts.h"

#include <fmt/format.h>

#include <cstdio>
#include <map>

#include "store/insert.h"

namespace ddl::store {

namespace {

/// What one lane carries, of a generation's transfers per second: 8 bits in 10 up to PCIe 2, 128 in 130 up to 5, 242 bytes in 256 of PCIe
/// 6's flits.
struct Generation {
  double gigatransfers;
  const char* name;
  double efficiency;
};
constexpr Generation kGenerations[] = {{2.5, "1.0", 8.0 / 10},   {5, "2.0", 8.0 / 10},     {8, "3.0", 128.0 / 130},
                                       {16, "4.0", 128.0 / 130}, {32, "5.0", 128.0 / 130}, {64, "6.0", 242.0 / 256}};

struct Gpu {
  std::optional<std::string> name, bus, link;
};

}  // namespace

std::optional<Link> pcie_link(std::string_view text) {
  double speed = 0;
  int lanes = 0;
  if (std::sscanf(std::string(text).c_str(), "%lf GT/s x%d", &speed, &lanes) != 2 || lanes < 1 || lanes > 32) return std::nullopt;
  for (const Generation& generation : kGenerations) {
    if (generation.gigatransfers == speed)
      return Link{fmt::format("PCIe {} x{}", generation.name, lanes), speed * 1e9 * lanes * generation.efficiency / 8};
  }
  return std::nullopt;
}

void write_gpus(SQLite::Database& db, const ProcessTables& tables) {
  std::map<int, Gpu> gpus;
  for (const auto& [key, value] : tables.facts()) {
    int device = 0, end = 0;
    if (std::sscanf(key.c_str(), "gpu.%d.%n", &device, &end) != 1 || end == 0 || device < 0) continue;
    const std::string what = key.substr(static_cast<size_t>(end));
    if (what == "name") gpus[device].name = value;
    if (what == "bus") gpus[device].bus = value;
    if (what == "link") gpus[device].link = value;
  }
  Insert insert(db, "INSERT INTO gpu VALUES (?, ?, ?, ?, ?, ?)");
  for (const auto& [device, gpu] : gpus) {
    const std::optional<Link> link = gpu.link ? pcie_link(*gpu.link) : std::nullopt;
    insert.row(tables.process(), device, gpu.name, gpu.bus, link ? std::optional(link->name) : std::nullopt,
               link ? std::optional(link->bytes_per_second) : std::nullopt);
  }
}

}  // namespace ddl::store
