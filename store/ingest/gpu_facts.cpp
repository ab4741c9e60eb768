#include "store/ingest/gpu_facts.h"

#include <fmt/format.h>

#include <cstdio>
#include <iterator>
#include <map>

namespace ddl::store {

namespace {

/// What one lane carries, of a generation's transfers per second: 8 bits in 10 up to PCIe 2, 128 in 130 up to 5, 242
/// bytes in 256 of PCIe 6's flits.
struct Generation {
  double gigatransfers;
  const char* name;
  double efficiency;
};
constexpr Generation kGenerations[] = {{2.5, "1.0", 8.0 / 10},   {5, "2.0", 8.0 / 10},     {8, "3.0", 128.0 / 130},
                                       {16, "4.0", 128.0 / 130}, {32, "5.0", 128.0 / 130}, {64, "6.0", 242.0 / 256}};

/// NVML's numbers of NVLink's versions.
constexpr const char* kNvlinkVersions[] = {"", "1.0", "2.0", "2.2", "3.0", "3.1", "4.0", "5.0"};
constexpr unsigned kNvlink1 = 1, kNvlink4 = 6, kNvlink5 = 7;

/// As in /sys: "00000000:3B:00.0" is 0000:3b:00.0.
std::string short_bus(std::string_view bus) {
  std::string text(bus.starts_with("0000") && bus.find(':') == 8 ? bus.substr(4) : bus);
  for (char& c : text) {
    if (c >= 'A' && c <= 'F') c = static_cast<char>(c - 'A' + 'a');
  }
  return text;
}

struct Gpu {
  std::optional<std::string> name, bus, link;
};

}  // namespace

std::optional<Link> pcie_link(std::string_view text) {
  double speed = 0;
  int lanes = 0;
  if (std::sscanf(std::string(text).c_str(), "%lf GT/s x%d", &speed, &lanes) != 2 || lanes < 1 || lanes > 32)
    return std::nullopt;
  for (const Generation& generation : kGenerations) {
    if (generation.gigatransfers == speed)
      return Link{fmt::format("PCIe {} x{}", generation.name, lanes), speed * 1e9 * lanes * generation.efficiency / 8};
  }
  return std::nullopt;
}

Link nvlink(unsigned count, unsigned version, unsigned mbps) {
  // Line rates are a few per cent above what a link carries, so they only tell which it is: 20, 25 or 50 GB/s. Drivers
  // call some NVLink 4 a 5; of them the rate is right.
  if (version == kNvlink5 && mbps != 0 && mbps < 40'000) version = kNvlink4;
  const double each = mbps == 0       ? (version == 0          ? 0
                                         : version == kNvlink1 ? 20e9
                                         : version <= kNvlink4 ? 25e9
                                         : version == kNvlink5 ? 50e9
                                                               : 0)
                      : mbps < 22'000 ? 20e9
                      : mbps < 40'000 ? 25e9
                      : mbps < 80'000 ? 50e9
                                      : 0;
  const char* name = version < std::size(kNvlinkVersions) ? kNvlinkVersions[version] : "";
  return {fmt::format("NVLink{}{} x{}", *name ? " " : "", name, count), each * count};
}

void write_gpus(Statements& db, int64_t host, const ProcessTables& tables) {
  std::map<int, Gpu> gpus;
  Insert insert_nvlink(db, "INSERT OR IGNORE INTO nvlink VALUES (?, ?, ?, ?, ?)");
  for (const auto& [key, value] : tables.facts()) {
    char peer[48];
    unsigned count = 0, version = 0, mbps = 0;
    if (key.starts_with("nvlink.") &&
        std::sscanf(value.c_str(), "%47s x%u version %u %u", peer, &count, &version, &mbps) == 4) {
      const Link link = nvlink(count, version, mbps);
      insert_nvlink.row(host, short_bus(std::string_view(key).substr(7)), short_bus(peer), link.name,
                        link.bytes_per_second > 0 ? std::optional(link.bytes_per_second) : std::nullopt);
    }
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
