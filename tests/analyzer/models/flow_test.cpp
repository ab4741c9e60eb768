// Routes: the solver's flow and its certificate, checked with shortest paths and, where cuts decide, against all cuts.
#include "analyzer/models/flow.h"

#include <gtest/gtest.h>

#include <random>

#include "core/error.h"

namespace ddl::models {
namespace {

FlowNetwork duplex(size_t nodes, const std::vector<std::tuple<size_t, size_t, double>>& links) {
  FlowNetwork network{nodes, {}};
  for (const auto& [a, b, rate] : links) network.arcs.push_back({a, b, rate}), network.arcs.push_back({b, a, rate});
  return network;
}

/// Weak duality: no flow is faster than sum bytes dist_l / sum rate l, whatever the lengths. The flow's own loads are
/// not faster than it says.
void expect_certified(const FlowNetwork& network, const Traffic& bytes, const Flow& flow) {
  double rates = 0, lower = 0, busiest = 0;
  for (size_t a = 0; a < network.arcs.size(); ++a) {
    EXPECT_GE(flow.length[a], 0);
    rates += network.arcs[a].bytes_per_second * flow.length[a];
    busiest = std::max(busiest, flow.load_bytes[a] / network.arcs[a].bytes_per_second);
  }
  const auto distance = distances(network, flow.length);
  for (size_t i = 0; i < bytes.size(); ++i)
    for (size_t j = 0; j < bytes.size(); ++j)
      if (i != j && bytes[i][j] > 0) lower += bytes[i][j] * distance[i][j];
  EXPECT_NEAR(rates, flow.busiest_s > 0 ? 1 : 0, 1e-9);
  EXPECT_NEAR(lower, flow.busiest_s, 1e-6 * flow.busiest_s);
  EXPECT_NEAR(busiest, flow.busiest_s, 1e-6 * flow.busiest_s);
}

// A, B, C, D each to all over a square of 10 GB/s links, 1 GB a pair (IBM's slides on DDL)
TEST(Flow, TheExampleOfTheDocument) {
  const FlowNetwork square = duplex(4, {{0, 1, 1e10}, {1, 2, 1e10}, {2, 3, 1e10}, {3, 0, 1e10}});
  const Traffic all(4, std::vector<double>(4, 1e9));
  const Flow flow = route(square, all, true);
  EXPECT_NEAR(flow.busiest_s, 0.2, 1e-9);
  EXPECT_NEAR(flow.all_s, 8 * 0.2, 1e-9);  // 8 neighbours one link each, 4 diagonals two
  expect_certified(square, all, flow);
}

TEST(Flow, SplitsOverRoutesOnlyAsFarAsItHelps) {
  // 0 to 1 directly at 10, or by way of 2 at 5: 30 bytes split 20 to 10.
  const FlowNetwork triangle = duplex(3, {{0, 1, 10}, {0, 2, 5}, {2, 1, 5}});
  const Flow flow = route(triangle, {{0, 30}, {0, 0}}, true);
  EXPECT_NEAR(flow.busiest_s, 2, 1e-9);
  EXPECT_NEAR(flow.all_s, 6, 1e-6);
  // Something else keeps 0 to 2 busy for 10 s anyway, by either way: the 30 bytes are then free to take the fast one.
  const FlowNetwork tail = duplex(4, {{0, 1, 10}, {0, 2, 5}, {2, 1, 5}, {2, 3, 1}});
  const Flow least = route(tail, {{0, 30, 0, 0}, {0, 0, 0, 0}, {0, 0, 0, 10}, {0, 0, 0, 0}}, true);
  EXPECT_NEAR(least.busiest_s, 10, 1e-9);
  EXPECT_NEAR(least.all_s, 13, 1e-6);
}

TEST(Flow, CertificatesOfDrawnNetworks) {
  std::mt19937_64 random(3);
  std::uniform_real_distribution<double> rate(1e9, 1e11), size(0, 1e9);
  for (int i = 0; i < 60; ++i) {
    const size_t nodes = 3 + random() % 6, sources = 2 + random() % (nodes - 1);
    std::vector<std::tuple<size_t, size_t, double>> links;
    for (size_t a = 0; a < nodes; ++a)
      for (size_t b = a + 1; b < nodes; ++b)
        // some with parts that are trees
        if (b == a + 1 || random() % (i % 2 == 0 ? 2 : 5) == 0) links.emplace_back(a, b, rate(random));
    Traffic bytes(sources, std::vector<double>(sources));
    for (auto& row : bytes)
      for (double& value : row) value = random() % 3 == 0 ? 0 : size(random);
    const FlowNetwork network = duplex(nodes, links);
    const Flow flow = route(network, bytes, true), fast = route(network, bytes, false);
    expect_certified(network, bytes, flow);
    EXPECT_NEAR(fast.busiest_s, flow.busiest_s, 1e-7 * flow.busiest_s);
    EXPECT_LE(flow.all_s, fast.all_s * (1 + 1e-6));
    const Flow by_routes = route(network, bytes, true, 0);
    expect_certified(network, bytes, by_routes);
    EXPECT_NEAR(by_routes.busiest_s, flow.busiest_s, 1e-7 * flow.busiest_s);
    EXPECT_NEAR(by_routes.all_s, flow.all_s, 1e-6 * flow.all_s);
  }
}

FlowNetwork torus(size_t x, size_t y, size_t z) {
  std::vector<std::tuple<size_t, size_t, double>> links;
  const auto node = [&](size_t i, size_t j, size_t k) { return (i % x * y + j % y) * z + k % z; };
  for (size_t i = 0; i < x; ++i)
    for (size_t j = 0; j < y; ++j)
      for (size_t k = 0; k < z; ++k) {
        links.emplace_back(node(i, j, k), node(i + 1, j, k), 1e10);
        links.emplace_back(node(i, j, k), node(i, j + 1, k), 1e10);
        links.emplace_back(node(i, j, k), node(i, j, k + 1), 1e10);
      }
  return duplex(x * y * z, links);
}

TEST(Flow, LargeNetworksAreRoutedByTheirRoutes) {
  // 4 x 4 x 2: by symmetry all directions of a dimension are equally busy, and those of rings of four carry most: a
  // node is one hop from another along such a ring in the mean. Links of a ring of two are double.
  const FlowNetwork network = torus(4, 4, 2);
  Traffic bytes(32, std::vector<double>(32, 1e6));
  const Flow all = route(network, bytes, true, 0);
  EXPECT_NEAR(all.busiest_s, 32 * 32 * 1e6 / (64 * 1e10), 1e-6 * all.busiest_s);
  EXPECT_NEAR(all.all_s, (32 * 32 * (1 + 1 + 0.5)) * 1e6 / 1e10, 1e-6 * all.all_s);
  expect_certified(network, bytes, all);
  // Drawn traffic, with what no symmetry tells.
  std::mt19937_64 random(5);
  for (auto& row : bytes)
    for (double& value : row) value = random() % 8 == 0 ? 1e6 * static_cast<double>(random() % 100) : 0;
  const Flow drawn = route(network, bytes, true, 0), by_arcs = route(network, bytes, true, 1000000);
  expect_certified(network, bytes, drawn);
  EXPECT_NEAR(drawn.busiest_s, by_arcs.busiest_s, 1e-7 * drawn.busiest_s);
  EXPECT_NEAR(drawn.all_s, by_arcs.all_s, 1e-6 * drawn.all_s);
  // 64 sources over 384 directions: by arcs that takes half a minute.
  const FlowNetwork large = torus(4, 4, 4);
  Traffic many(64, std::vector<double>(64, 0));
  for (auto& row : many)
    for (double& value : row) value = random() % 8 == 0 ? 1e6 * static_cast<double>(random() % 100) : 0;
  expect_certified(large, many, route(large, many, true));
}

TEST(Flow, NothingToSendAndNoRoute) {
  const FlowNetwork line = duplex(3, {{0, 1, 1}});
  EXPECT_EQ(route(line, Traffic(3, std::vector<double>(3, 0)), true).busiest_s, 0);
  EXPECT_THROW(route(line, {{0, 0, 1}, {0, 0, 0}, {0, 0, 0}}, true), Error);
}

}  // namespace
}  // namespace ddl::models
