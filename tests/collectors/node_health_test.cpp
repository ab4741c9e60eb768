// Samples of a node's health over a /sys of our own, and against a mock of NVML (LD_LIBRARY_PATH names its folder).
#include "collectors/node_health.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>

namespace ddl {
namespace {

namespace fs = std::filesystem;
using Devices = std::map<std::string, std::map<std::string, double>>;

Devices g_seen;
void see(const char* device, const HealthValue* values, size_t count) {
  for (size_t i = 0; i < count; ++i) g_seen[device][values[i].name] = values[i].value;
}

TEST(NodeHealth, NetworkCounters) {
  std::string name = (fs::temp_directory_path() / "ddl-sys-XXXXXX").string();
  ASSERT_NE(mkdtemp(name.data()), nullptr);
  const fs::path sys = name;
  const auto put = [&](const fs::path& file, const char* text) {
    fs::create_directories((sys / file).parent_path());
    std::ofstream(sys / file) << text << '\n';
  };
  g_seen.clear();
  read_network(name.c_str(), see);  // nothing there
  EXPECT_TRUE(g_seen.empty());
  for (const char* interface : {"lo", "eth0", "ib0", "eth1", "veth12ab", "lo1"}) {
    put(fs::path("class/net") / interface / "operstate", std::string(interface) == "eth1" ? "down" : "up");
    put(fs::path("class/net") / interface / "statistics/rx_bytes", "18000000000000000");
  }
  put("class/net/eth0/statistics/tx_bytes", "7");
  put("class/net/eth0/statistics/rx_dropped", "3");
  put("class/infiniband/mlx5_0/ports/1/counters/port_rcv_data", "1000");
  put("class/infiniband/mlx5_0/ports/1/counters/port_xmit_data", "10");
  put("class/infiniband/mlx5_0/ports/1/counters/symbol_error", "2");
  put("class/infiniband/mlx5_0/ports/2/counters/link_downed", "1");
  read_network(name.c_str(), see);
  const Devices expected = {{"eth0", {{"rx_bytes", 18e15}, {"tx_bytes", 7}, {"rx_dropped", 3}}},
                            {"ib0", {{"rx_bytes", 18e15}}},
                            {"lo1", {{"rx_bytes", 18e15}}},
                            {"mlx5_0/1", {{"rx_bytes", 4000}, {"tx_bytes", 40}, {"symbol_errors", 2}}},
                            {"mlx5_0/2", {{"link_downed", 1}}}};
  EXPECT_EQ(g_seen, expected);
  fs::remove_all(sys);
}

TEST(NodeHealth, GpusAsNvmlTellsThem) {
  g_seen.clear();
  read_gpus(see);
  const double gib = 1 << 30;
  const Devices expected = {{"gpu 00000000:3B:00.0",
                             {{"sm_mhz", 1980},
                              {"memory_mhz", 2619},
                              {"throttle_reasons", 1},
                              {"power_watts", 612.5},
                              {"temperature_celsius", 41},
                              {"memory_used_bytes", 50 * gib},
                              {"memory_total_bytes", 150 * gib},
                              {"busy_ratio", 0.25},
                              {"pcie_tx_bytes_per_second", 1e6},
                              {"pcie_rx_bytes_per_second", 2e6},
                              {"nvlink_tx_bytes", 3072},
                              {"nvlink_rx_bytes", 5120}}},
                            {"gpu 00000000:5E:00.0",
                             {{"sm_mhz", 1005},
                              {"memory_mhz", 2619},
                              {"throttle_reasons", 72},
                              {"temperature_celsius", 93},
                              {"memory_used_bytes", 50 * gib},
                              {"memory_total_bytes", 150 * gib},
                              {"busy_ratio", 1},
                              {"pcie_tx_bytes_per_second", 1e6},
                              {"pcie_rx_bytes_per_second", 2e6}}}};
  EXPECT_EQ(g_seen, expected);
}

TEST(NodeHealth, NvlinksAsNvmlTellsThem) {
  static std::map<std::string, std::string> links;
  links.clear();
  read_gpus(see);
  const auto note = [](const Nvlinks& l) {
    links[std::string(l.bus) + " to " + l.peer] =
        std::to_string(l.links) + ", " + std::to_string(l.version) + ", " + std::to_string(l.mbps);
  };
  read_nvlinks(note);
  EXPECT_EQ(links, (std::map<std::string, std::string>{{"00000000:3B:00.0 to 00000000:5E:00.0", "4, 2, 25781"},
                                                       {"00000000:3B:00.0 to cpu", "2, 2, 25781"},
                                                       {"00000000:5E:00.0 to 00000000:3B:00.0", "4, 2, 25781"}}));
  links.clear();
  setenv("FAKE_NVML_FABRIC", "switch", 1);
  read_nvlinks(note);
  EXPECT_EQ(links, (std::map<std::string, std::string>{{"00000000:3B:00.0 to switch", "6, 7, 26562"},
                                                       {"00000000:5E:00.0 to switch", "6, 7, 26562"}}));
  links.clear();
  setenv("FAKE_NVML_FABRIC", "none", 1);
  read_nvlinks(note);
  EXPECT_TRUE(links.empty());
  unsetenv("FAKE_NVML_FABRIC");
}

}  // namespace
}  // namespace ddl
