// Placements against all permutations; where traffic is symmetric on four vertices, the busiest link against all cuts.
#include "analyzer/models/mapping.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <random>

#include "core/error.h"

namespace ddl::models {
namespace {

Traffic everybody_to_everybody(size_t n, double bytes = 1e6) { return Traffic(n, std::vector<double>(n, bytes)); }

/// What leaves a set of nodes takes at least its bytes over the rates that leave it. For traffic that is
/// symmetric among four vertices the largest of these is what the best routes reach (Papernov 1976: with K4 as
/// demands cuts suffice).
double cut_s(const std::vector<PlaceLink>& links, const Traffic& bytes, const std::vector<size_t>& place) {
  double seconds = 0;
  for (unsigned set = 1; set < 15; ++set) {
    const auto inside = [&](size_t node) { return (set >> node & 1) != 0; };
    double rate = 0, crossing = 0;
    for (const PlaceLink& link : links) rate += inside(link.a) != inside(link.b) ? link.bytes_per_second : 0;
    for (size_t i = 0; i < bytes.size(); ++i)
      for (size_t j = 0; j < bytes.size(); ++j) crossing += inside(place[i]) && !inside(place[j]) ? bytes[i][j] : 0;
    seconds = std::max(seconds, crossing / rate);
  }
  return seconds;
}

// Each of the six links absent, slow or fast: a broadcast of all to all, a ring both ways, a heavy pair
// beside a light one.
TEST(Mapping, AllNetworksOfFourVerticesEqualCutsAndPermutations) {
  constexpr std::pair<size_t, size_t> kPairs[] = {{0, 1}, {0, 2}, {0, 3}, {1, 2}, {1, 3}, {2, 3}};
  Traffic ring(4, std::vector<double>(4, 0)), pairs = ring;
  for (size_t i = 0; i < 4; ++i) ring[i][(i + 1) % 4] = ring[(i + 1) % 4][i] = 1e6;
  pairs[0][3] = pairs[3][0] = 5e6, pairs[1][2] = pairs[2][1] = 1e6;
  int connected = 0;
  for (int code = 0; code < 729; ++code) {
    std::vector<PlaceLink> links;
    for (int rest = code, p = 0; p < 6; ++p, rest /= 3)
      if (rest % 3 > 0) links.push_back({kPairs[p].first, kPairs[p].second, rest % 3 == 1 ? 12.5e9 : 80e9});
    std::optional<Network> network;
    try {
      network.emplace(4, 0, links);
    } catch (const Error&) {
      continue;  // not connected
    }
    ++connected;
    for (const Traffic& bytes : {everybody_to_everybody(4), ring, pairs}) {
      const Mapping best = network->best(bytes);
      EXPECT_TRUE(best.exact);
      EXPECT_NEAR(best.busiest_s, cut_s(links, bytes, best.place), 1e-6 * best.busiest_s) << code;
      std::vector<size_t> order = {0, 1, 2, 3};
      double least = 1e30;
      do least = std::min(least, cut_s(links, bytes, order));
      while (std::next_permutation(order.begin(), order.end()));
      EXPECT_NEAR(best.busiest_s, least, 1e-6 * least) << code;
    }
  }
  EXPECT_EQ(connected, 624);  // 38 connected graphs on four vertices, links slow or fast
}

// Traffic one way, for which cuts do not suffice: every permutation is routed.
TEST(Mapping, EqualsAllPermutationsRouted) {
  std::mt19937_64 random(7);
  std::uniform_real_distribution<double> speed(1e9, 1e11), size(0, 1e8);
  for (int i = 0; i < 24; ++i) {
    const size_t places = 4 + static_cast<size_t>(i % 2), ranks = places - random() % 2;
    std::vector<PlaceLink> links;
    for (size_t a = 0; a < places; ++a)
      for (size_t b = a + 1; b < places; ++b)
        if (b == a + 1 || random() % 2 == 0) links.push_back({a, b, speed(random)});
    Traffic bytes(ranks, std::vector<double>(ranks));
    for (auto& row : bytes)
      for (double& value : row) value = random() % 2 == 0 ? size(random) : 0;
    const Network network(places, 0, links);
    const Mapping best = network.best(bytes);
    double least = 1e30;
    std::vector<size_t> order(places);
    std::iota(order.begin(), order.end(), size_t{0});
    do {
      Traffic moved(places, std::vector<double>(places, 0));
      for (size_t r = 0; r < ranks; ++r)
        for (size_t q = 0; q < ranks; ++q) moved[order[r]][order[q]] = bytes[r][q];
      least = std::min(least, route(network.network(), moved, false).busiest_s);
    } while (std::next_permutation(order.begin(), order.end()));
    EXPECT_NEAR(best.busiest_s, least, 1e-6 * least) << i;
    EXPECT_NEAR(network.evaluate(bytes, best.place).busiest_s, best.busiest_s, 1e-6 * least);
  }
}

TEST(Mapping, ByHand) {
  // Places in a line, 10 and 5 bytes per second; rank 0 sends 100 bytes to rank 1 and 50 to rank 2, which answers with
  // 20.
  const Traffic bytes = {{0, 100, 50}, {0, 0, 0}, {20, 0, 0}};
  const Network line(3, 0, {{0, 1, 10}, {1, 2, 5}});
  const Mapping as_is = line.evaluate(bytes, {0, 1, 2});
  EXPECT_DOUBLE_EQ(as_is.busiest_s, 15);           // 0 to 1: 150 bytes
  EXPECT_DOUBLE_EQ(as_is.all_s, 15 + 10 + 4 + 2);  // 1 to 2: 50; 2 to 1 and 1 to 0: 20
  // rank 0 in the middle; all others have a link that is busy for 15 s or longer
  const Mapping best = line.best(bytes);
  EXPECT_EQ(best.place, (std::vector<size_t>{1, 0, 2}));
  EXPECT_DOUBLE_EQ(best.busiest_s, 10);
  EXPECT_DOUBLE_EQ(best.all_s, 10 + 10 + 4);
  // A third link at 4: with it 0 can send by both ways at once. x of the 50 bytes go directly: (150 - x) / 10 = x / 4.
  const Mapping direct = Network(3, 0, {{0, 1, 10}, {1, 2, 5}, {0, 2, 4}}).evaluate(bytes, {0, 1, 2});
  EXPECT_NEAR(direct.busiest_s, 150.0 / 14, 1e-6);
}

TEST(Mapping, NobodySitsOnASwitch) {
  // Two nodes of two behind switches, fast inside; partners are apart. The switches are named first.
  const Network network(4, 3, {{4, 6, 12.5e9}, {5, 6, 12.5e9}, {0, 4, 80e9}, {1, 4, 80e9}, {2, 5, 80e9}, {3, 5, 80e9}});
  Traffic bytes(4, std::vector<double>(4, 0));
  bytes[0][2] = bytes[2][0] = bytes[1][3] = bytes[3][1] = 80e9;
  const Mapping best = network.best(bytes), now = network.evaluate(bytes, {0, 1, 2, 3});
  EXPECT_NEAR(now.busiest_s, 12.8, 1e-9);  // 160 GB over 12.5 GB/s
  EXPECT_NEAR(best.busiest_s, 1, 1e-9);
  EXPECT_EQ(best.place[0] / 2, best.place[2] / 2);
  for (const size_t place : best.place) EXPECT_LT(place, 4U);
  EXPECT_THROW(network.best(everybody_to_everybody(5)), Error);
}

TEST(Mapping, LeavesAloneWhatIsGood) {
  const Network network(3, 0, {{0, 1, 1e9}, {1, 2, 1e9}, {0, 2, 1e9}});
  EXPECT_EQ(network.best(everybody_to_everybody(3)).place, (std::vector<size_t>{0, 1, 2}));
}

/// Racks of 16 hosts' places behind one switch each, hosts of 4: 64 places.
struct Cluster {
  std::vector<PlaceLink> links;
  size_t switches = 0;
};
Cluster racks(size_t spines) {
  Cluster cluster;
  const size_t hosts = 16, first_host = 64, first_rack = first_host + hosts, first_spine = first_rack + 4;
  for (size_t p = 0; p < 64; ++p) cluster.links.push_back({p, first_host + p / 4, 80e9});
  for (size_t h = 0; h < hosts; ++h) cluster.links.push_back({first_host + h, first_rack + h / 4, 12.5e9});
  for (size_t r = 0; r < 4; ++r)
    for (size_t s = 0; s < spines; ++s)
      cluster.links.push_back({first_rack + r, first_spine + s, 25e9 / static_cast<double>(spines)});
  cluster.switches = hosts + 4 + spines;
  return cluster;
}

/// Ranks of groups of four exchange much, groups of four groups some, all others a little; numbers of ranks are
/// shuffled.
Traffic grouped(uint64_t seed) {
  std::vector<size_t> rank(64);
  std::iota(rank.begin(), rank.end(), size_t{0});
  std::mt19937_64 random(seed);
  std::shuffle(rank.begin(), rank.end(), random);
  Traffic bytes(64, std::vector<double>(64, 0));
  for (size_t i = 0; i < 64; ++i)
    for (size_t j = 0; j < 64; ++j)
      if (i != j) bytes[rank[i]][rank[j]] = i / 4 == j / 4 ? 1e9 : i / 16 == j / 16 ? 1e8 : 1e6;
  return bytes;
}

TEST(Mapping, SixtyFourPlacesComeWithinFivePercentOfTheBound) {
  for (const size_t spines : {1, 2}) {  // a tree, and two ways between racks
    const Cluster cluster = racks(spines);
    const Network network(64, cluster.switches, cluster.links);
    for (const uint64_t seed : {1, 2}) {
      const Traffic bytes = grouped(seed);
      const Mapping best = network.best(bytes);
      std::vector<size_t> as_is(64);
      std::iota(as_is.begin(), as_is.end(), size_t{0});
      EXPECT_LE(best.bound_s, best.busiest_s);
      EXPECT_LE(best.busiest_s, 1.05 * best.bound_s) << spines << " spines, seed " << seed;
      EXPECT_LT(best.busiest_s, 0.5 * network.evaluate(bytes, as_is).busiest_s);
      // The planted placement: what leaves a rack is 16 ranks times 48 others, what leaves a host 4 times (12
      // some + 48 little).
      EXPECT_NEAR(best.busiest_s,
                  std::max({4 * (12 * 1e8 + 48 * 1e6) / 12.5e9, 16 * 48 * 1e6 / 25e9, (3e9 + 12e8 + 48e6) / 80e9}),
                  1e-6 * best.busiest_s);
    }
  }
}

TEST(Mapping, TheBoundHoldsForEveryPlacement) {  // ten places: beyond the exact search, and few enough to draw many
  std::mt19937_64 random(11);
  std::uniform_real_distribution<double> size(0, 1e9);
  std::vector<PlaceLink> links;
  for (size_t p = 0; p < 10; ++p) links.push_back({p, (p + 1) % 10, p % 2 == 0 ? 10e9 : 40e9});
  const Network network(10, 0, links);
  Traffic bytes(10, std::vector<double>(10));
  for (auto& row : bytes)
    for (double& value : row) value = random() % 3 == 0 ? size(random) : 0;
  const Mapping best = network.best(bytes);
  std::vector<size_t> place(10);
  std::iota(place.begin(), place.end(), size_t{0});
  for (int i = 0; i < 200; ++i) {
    std::shuffle(place.begin(), place.end(), random);
    const double seconds = network.evaluate(bytes, place).busiest_s;
    EXPECT_GE(seconds, best.bound_s * (1 - 1e-9));
    EXPECT_GE(seconds, best.busiest_s * (1 - 1e-6)) << "200 drawn ones do not beat the search";
  }
}

TEST(Mapping, LeastAssignmentEqualsAllPermutations) {
  std::mt19937_64 random(2);
  std::uniform_real_distribution<double> cost(0, 1);
  for (int i = 0; i < 50; ++i) {
    const size_t rows = 1 + random() % 4, columns = rows + random() % 3;
    std::vector<std::vector<double>> costs(rows, std::vector<double>(columns));
    for (auto& row : costs)
      for (double& value : row) value = cost(random);
    std::vector<size_t> order(columns);
    std::iota(order.begin(), order.end(), size_t{0});
    double least = 1e30;
    do {
      double sum = 0;
      for (size_t r = 0; r < rows; ++r) sum += costs[r][order[r]];
      least = std::min(least, sum);
    } while (std::next_permutation(order.begin(), order.end()));
    EXPECT_NEAR(least_assignment(costs), least, 1e-12);
  }
}

TEST(Mapping, RefusesWhatIsNoNetwork) {
  EXPECT_THROW(Network(3, 0, {{0, 1, 1e9}}), Error);
  EXPECT_THROW(Network(2, 0, {{0, 1, 0}}), Error);
  EXPECT_THROW(Network(2, 0, {{0, 2, 1e9}}), Error);
  EXPECT_THROW(Network(2, 0, {{0, 1, 1e9}}).best(everybody_to_everybody(3)), Error);
  EXPECT_THROW(Network(size_t{1} << 40, 0, {}), Error);
  EXPECT_THROW(Network(0, 1, {}), Error);
}

}  // namespace
}  // namespace ddl::models
