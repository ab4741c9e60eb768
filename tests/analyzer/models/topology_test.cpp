// Files of machines whose shape is known, and traffic of collectives by hand.
#include "analyzer/models/topology.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "analyzer/models/collective_traffic.h"
#include "core/error.h"
#include "tests/analyzer/models/topology_samples.h"

namespace ddl::models {
namespace {

using namespace test::topologies;

/// Rate of the link between two nodes by their names; 0: none.
double rate(const Topology& topology, const std::string& a, const std::string& b) {
  double sum = 0;
  for (const TopologyLink& link : topology.links) {
    const std::string &from = topology.names[link.a], &to = topology.names[link.b];
    if ((from == a && to == b) || (from == b && to == a)) sum += topology.rate_of(link);
  }
  return sum;
}

std::vector<int64_t> counts(const Topology& topology) {
  std::vector<int64_t> result;
  for (const TierShape& tier : shape_of(topology)) result.push_back(tier.count);
  return result;
}

void expect_refused(const std::string& text, const std::string& words) {
  try {
    parse_topology(text, "it");
    ADD_FAILURE() << "taken: " << text;
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
  }
}

TEST(Topology, NvidiaSmiOfAPcieServer) {
  const Topology server = parse_topology(kPcieServer, "topo.txt");
  EXPECT_EQ(server.places, 8U);
  EXPECT_EQ(server.names.size(), 8U + 4 + 2 + 1);
  ASSERT_EQ(server.tiers.size(), 3U);
  EXPECT_EQ(server.tiers[0].name, "PIX");
  EXPECT_EQ(server.tiers[2].name, "SYS");
  EXPECT_EQ(counts(server), (std::vector<int64_t>{2, 2, 2}));
  const auto groups = server.all_groups();
  EXPECT_EQ(widest_tier(groups, {0, 1}), 0U);
  EXPECT_EQ(widest_tier(groups, {0, 3}), 1U);
  EXPECT_EQ(widest_tier(groups, {1, 2, 6}), 2U);
  EXPECT_EQ(groups[1], (std::vector<size_t>{0, 0, 0, 0, 1, 1, 1, 1}));
  EXPECT_DOUBLE_EQ(server.rate_of(server.links[0]), 15.754e9);
  EXPECT_NE(server.tiers[0].from.find("assumed"), std::string::npos);
  // Everybody to everybody: over the link between the sockets go 4 x 4 messages each way, over a PCIe link seven.
  const Network network(8, server.names.size() - 8, server.place_links());
  const Mapping now = network.evaluate(Traffic(8, std::vector<double>(8, 15.754e9)), {0, 1, 2, 3, 4, 5, 6, 7});
  EXPECT_NEAR(now.busiest_s, 16, 1e-6);
}

std::string matrix(const std::vector<std::vector<std::string>>& rows) {
  std::string text = "\t";
  for (size_t i = 0; i < rows.size(); ++i) text += "\x1b[4mGPU" + std::to_string(i) + "\t";
  text += "CPU Affinity\tNUMA Affinity\x1b[0m\n";
  for (size_t i = 0; i < rows.size(); ++i) {
    text += "GPU" + std::to_string(i);
    for (const std::string& way : rows[i]) text += "\t" + way;
    text += "\t0-23,48-71\t0\r\n";
  }
  return text;
}

std::vector<std::vector<std::string>> all_alike(size_t gpus, const std::string& way) {
  std::vector<std::vector<std::string>> rows(gpus, std::vector<std::string>(gpus, way));
  for (size_t i = 0; i < gpus; ++i) rows[i][i] = " X ";
  return rows;
}

TEST(Topology, NvlinksAreDirectUnlessAGpuShowsMoreThanItHas) {
  // DGX-2: six links each, seen in all 15 others (NVIDIA/nccl-tests issue 78): 90 are more than any GPU has, so a
  // switch shares them.
  const Topology dgx2 = parse_topology(matrix(all_alike(16, "NV6")), "dgx2");
  EXPECT_EQ(dgx2.links.size(), 16U);
  EXPECT_DOUBLE_EQ(rate(dgx2, "GPU3", "switch:NVSwitch"), 150e9);
  // HGX A100 with four GPUs: four links to each of three others.
  const Topology four = parse_topology(matrix(all_alike(4, "NV4")), "hgx");
  EXPECT_EQ(four.links.size(), 6U);
  EXPECT_DOUBLE_EQ(rate(four, "GPU0", "GPU3"), 100e9);
  EXPECT_EQ(four.names.size(), 4U);
  // Pairs with NVLink behind one host bridge: what a pair has besides is not shown, and is not made up.
  const Topology pairs = parse_topology(matrix({{"X", "NV2", "PHB", "PHB"},
                                                {"NV2", "X", "PHB", "PHB"},
                                                {"PHB", "PHB", "X", "NV2"},
                                                {"PHB", "PHB", "NV2", "X"}}),
                                        "pairs");
  EXPECT_DOUBLE_EQ(rate(pairs, "GPU0", "GPU1"), 50e9);
  EXPECT_DOUBLE_EQ(rate(pairs, "GPU0", "switch:PHB 0"), 15.754e9);
  EXPECT_EQ(counts(pairs), (std::vector<int64_t>{2, 2}));
}

TEST(Topology, NvidiaSmiThatIsNoneIsRefused) {
  expect_refused(matrix({{"X", "PIX"}, {"SYS", "X"}}), "disagree");
  expect_refused(matrix({{"X", "ABC"}, {"ABC", "X"}}), "joined by 'ABC'");
  expect_refused("GPU0 GPU1\nGPU0 X\n", "columns");
  expect_refused("GPU0 GPU1\n", "no whole matrix");
  expect_refused("", "empty");
  expect_refused("hello world\n", "no topology that is known");
}

TEST(Topology, HwlocTellsGpusAndTheirSwitches) {
  const Topology host = parse_topology(kHwloc, "host.xml");
  EXPECT_EQ(host.places, 3U);  // the console's VGA controller is none
  EXPECT_EQ((std::vector<std::string>{host.names.begin(), host.names.begin() + 3}),
            (std::vector<std::string>{"cuda0", "cuda1", "cuda2"}));
  EXPECT_EQ(host.names.size(), 5U) << "one switch, and the host";
  EXPECT_DOUBLE_EQ(rate(host, "cuda0", "switch:PCI 0000:00:01.0"), 15.753846e9);
  EXPECT_DOUBLE_EQ(rate(host, "cuda1", "switch:PCI 0000:00:01.0"), 7.876923e9) << "eight lanes on the way";
  EXPECT_DOUBLE_EQ(rate(host, "switch:PCI 0000:00:01.0", "switch:host"), 15.753846e9);
  EXPECT_DOUBLE_EQ(rate(host, "cuda2", "switch:host"), 15.753846e9);
  EXPECT_EQ(widest_tier(host.all_groups(), {0, 1}), 0U);
  EXPECT_EQ(host.tiers[widest_tier(host.all_groups(), {0, 2})].name, "host");
  // Without accelerators the cores are the places.
  std::string cpus = kHwloc;
  for (size_t at; (at = cpus.find("0302")) != std::string::npos;) cpus.replace(at, 4, "0200");
  for (size_t at; (at = cpus.find("\"cuda")) != std::string::npos;) cpus.replace(at, 5, "\"eth");
  for (size_t at; (at = cpus.find("\"nvml")) != std::string::npos;) cpus.replace(at, 5, "\"ib");
  const Topology cores = parse_topology(cpus, "host.xml");
  EXPECT_EQ(cores.places, 4U);
  EXPECT_EQ(counts(cores), (std::vector<int64_t>{2, 2}));
}

TEST(Topology, HwlocThatIsNoneIsRefused) {
  expect_refused("<a>", "not XML");
  expect_refused("<html></html>", "not of hwloc");
  expect_refused("<topology><object type=\"Machine\"/></topology>", "no GPUs and no cores");
  std::string deep;
  for (int i = 0; i < 100000; ++i) deep += "<object>";
  expect_refused("<topology>" + deep, "nested");
}

TEST(Topology, SlurmsTree) {  // the example of topology.conf(5)
  const Topology tree = parse_topology(kSlurmTree, "topology.conf");
  EXPECT_EQ(tree.places, 12U);
  EXPECT_EQ(tree.names.size(), 16U);
  EXPECT_EQ(counts(tree), (std::vector<int64_t>{4, 3}));
  EXPECT_DOUBLE_EQ(rate(tree, "tux5", "switch:s1"), 12.5e9);
  EXPECT_DOUBLE_EQ(rate(tree, "switch:s1", "switch:s3"), 50e9) << "assumed: as much as its hosts";
  ASSERT_TRUE(tree.root);
  EXPECT_EQ(tree.names[*tree.root], "switch:s3");
  Topology slower = tree;
  slower.set_tier("switch level 2", 3e9, 5e-6, "--tier");
  EXPECT_DOUBLE_EQ(rate(slower, "switch:s1", "switch:s3"), 12e9) << "a lane for each host below";
  EXPECT_THROW(slower.set_tier("spine", 1, {}, ""), Error);
  const Topology blocks =
      parse_topology("BlockName=b1 Nodes=n[1-2]\nBlockName=b2 Nodes=n[3-4]\nBlockSizes=2\n", "topology.conf");
  EXPECT_EQ(counts(blocks), (std::vector<int64_t>{2, 2}));
  expect_refused("SwitchName=s0 Switches=s1\n", "not described");
  expect_refused("SwitchName=s0 Switches=s1\nSwitchName=s1 Switches=s0\n", "below each other");
  expect_refused("SwitchName=s0 Nodes=a\nSwitchName=s0 Nodes=b\n", "there already");
  expect_refused("SwitchName=s0 Speed=3 Nodes=a\n", "unknown key");
}

TEST(Topology, ListsOfHosts) {
  EXPECT_EQ(expand_hosts("tux[0-3,7],login"),
            (std::vector<std::string>{"tux0", "tux1", "tux2", "tux3", "tux7", "login"}));
  EXPECT_EQ(expand_hosts("r[1-2]n[09-10]"), (std::vector<std::string>{"r1n09", "r1n10", "r2n09", "r2n10"}));
  for (const char* bad : {"a[", "a[]", "a[3-1]", "a[0-99999999]", "a[x]", "a[0-9999]b[0-9999]"})
    EXPECT_THROW(expand_hosts(bad), Error) << bad;
}

TEST(Topology, CsvHasTiersByNameOrBySpeed) {
  const Topology plain =
      parse_topology("from,to,gb_per_s\na,switch:x,80\nb,switch:x,80\nswitch:x,c,12.5\n", "links.csv");
  EXPECT_EQ(plain.places, 3U);
  ASSERT_EQ(plain.tiers.size(), 2U);
  EXPECT_DOUBLE_EQ(*plain.tiers[0].bytes_per_second, 80e9);
  const Topology named = parse_topology("from,to,gb_per_s,tier,alpha_us\na,b,20,board,2\nb,c,80,rack,9\n", "links.csv");
  EXPECT_EQ(named.tiers[0].name, "board");
  EXPECT_DOUBLE_EQ(*named.tiers[1].alpha_s, 9e-6);
  EXPECT_EQ(named.groups(0), (std::vector<size_t>{0, 0, 1}));
}

TEST(Topology, HostsWithAnInside) {
  const Topology rack = parse_topology("SwitchName=s0 Nodes=n[1-3]\n", "topology.conf");
  const Topology all = nested(rack, parse_topology(kPcieServer, "topo.txt"));
  EXPECT_EQ(all.places, 24U);
  EXPECT_EQ(all.names[8], "n2/GPU0");
  EXPECT_EQ(counts(all), (std::vector<int64_t>{2, 2, 2, 3}));
  EXPECT_DOUBLE_EQ(rate(all, "switch:n2", "switch:s0"), 12.5e9);
  EXPECT_DOUBLE_EQ(rate(all, "switch:n2", "switch:n2/PHB 0"), 15.754e9) << "the way out is the root of the host";
  EXPECT_EQ(all.tiers.back().name, "leaf switch");
  Network(all.places, all.names.size() - all.places, all.place_links());  // everything is joined
  // Where GPUs have no common root each has a way out of its own.
  const Topology nvlink = nested(rack, parse_topology(matrix(all_alike(4, "NV4")), "hgx"));
  EXPECT_EQ(nvlink.places, 12U);
  EXPECT_GT(rate(nvlink, "n1/GPU2", "switch:n1"), 0);
  Network(nvlink.places, nvlink.names.size() - nvlink.places, nvlink.place_links());
  // What a rank gets of a host's link: all of it alone, an eighth when all eight send.
  const auto network = rate_of_tier(all, 3);
  ASSERT_TRUE(network);
  EXPECT_DOUBLE_EQ(network->alone, 12.5e9);
  EXPECT_DOUBLE_EQ(network->shared, 12.5e9 / 8);
}

TEST(Topology, UnknownRatesAreAskedFor) {
  const Topology star_of = star({"a", "b"}, "switch:s", "network");
  try {
    star_of.place_links();
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("tier 'network'"), std::string::npos);
  }
}

double sum_of(const Traffic& traffic) {
  double sum = 0;
  for (const auto& row : traffic) sum += std::accumulate(row.begin(), row.end(), 0.0);
  return sum;
}

TEST(CollectiveTraffic, ByHand) {
  const auto traffic = [](Collective collective, const TrafficPlan& plan, size_t root = 0) {
    Traffic result(4, std::vector<double>(4, 0));
    add_collective(result, collective, plan, {0, 1, 2, 3}, root, 400, 2);
    return result;
  };
  const double ring = 2 * 2 * 300;  // twice, there and back, three quarters
  EXPECT_EQ(traffic(Collective::kAllreduce, {}),
            (Traffic{{0, ring, 0, 0}, {0, 0, ring, 0}, {0, 0, 0, ring}, {ring, 0, 0, 0}}));
  EXPECT_EQ(traffic(Collective::kAllreduce, {Algorithm::kButterfly, {}, {}}),
            (Traffic{{0, 800, 800, 0}, {800, 0, 0, 800}, {800, 0, 0, 800}, {0, 800, 800, 0}}));
  EXPECT_EQ(traffic(Collective::kAllreduce, {Algorithm::kRabenseifner, {}, {}}),
            (Traffic{{0, 800, 400, 0}, {800, 0, 0, 400}, {400, 0, 0, 800}, {0, 400, 800, 0}}));
  EXPECT_EQ(traffic(Collective::kAllreduce, {Algorithm::kRing, {2, 2}, {}}),
            traffic(Collective::kAllreduce, {Algorithm::kRabenseifner, {}, {}}));
  EXPECT_EQ(traffic(Collective::kBroadcast, {}, 1),
            (Traffic{{0, 0, 0, 0}, {0, 0, 800, 800}, {0, 0, 0, 0}, {800, 0, 0, 0}}));
  // Rings in the order of nodes: 0 and 2 are neighbours.
  EXPECT_EQ(traffic(Collective::kAllreduce, {Algorithm::kRing, {}, {0, 2, 1, 3}})[0][2], ring);
  Traffic all(3, std::vector<double>(3, 0));
  add_all_to_all(all, {0, 1, 2}, 300, 1);
  EXPECT_EQ(all, (Traffic{{0, 100, 100}, {100, 0, 100}, {100, 100, 0}}));
}

TEST(CollectiveTraffic, SumsAreThoseOfTheFormulas) {  // rank by rank: workloads.allreduce_check
  for (size_t p = 2; p < 20; ++p) {
    std::vector<size_t> members(p);
    std::iota(members.begin(), members.end(), size_t{0});
    const auto sum = [&](Collective collective) {
      Traffic traffic(p, std::vector<double>(p, 0));
      add_collective(traffic, collective, {}, members, p / 2, 1e6, 1);
      return sum_of(traffic);
    };
    const double n = 1e6, q = static_cast<double>(p - 1);
    EXPECT_NEAR(sum(Collective::kAllreduce), 2 * q * n, 1e-3);
    EXPECT_NEAR(sum(Collective::kAllgather), q * n, 1e-3);
    EXPECT_NEAR(sum(Collective::kBroadcast), q * n, 1e-3);
    EXPECT_NEAR(sum(Collective::kReduce), q * n, 1e-3);
  }
}

}  // namespace
}  // namespace ddl::models
