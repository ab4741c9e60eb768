#include "analyzer/models/mapping.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "core/error.h"

namespace ddl::models {
namespace {

using Traffic = std::vector<std::vector<double>>;

Traffic everybody_to_everybody(size_t n) {
  Traffic bytes(n, std::vector<double>(n, 1e6));
  return bytes;
}

/// The least of all permutations.
Mapping exhaustive(const Network& network, const Traffic& bytes, size_t places) {
  std::vector<size_t> order(places);
  std::iota(order.begin(), order.end(), size_t{0});
  std::optional<Mapping> best;
  do {
    const Mapping one = network.evaluate(bytes, {order.begin(), order.begin() + static_cast<std::ptrdiff_t>(bytes.size())});
    if (!best || one.busiest_s < best->busiest_s * (1 - 1e-12) ||
        (one.busiest_s <= best->busiest_s * (1 + 1e-12) && one.all_s < best->all_s))
      best = one;
  } while (std::next_permutation(order.begin(), order.end()));
  return *best;
}

void expect_exact(size_t places, const std::vector<PlaceLink>& links, const Traffic& bytes) {
  const Network network(places, links);
  const Mapping best = network.best(bytes), truth = exhaustive(network, bytes, places);
  EXPECT_NEAR(best.busiest_s, truth.busiest_s, 1e-9 * truth.busiest_s);
  EXPECT_NEAR(best.all_s, truth.all_s, 1e-9 * truth.all_s);
  std::vector<size_t> as_is(bytes.size());
  std::iota(as_is.begin(), as_is.end(), size_t{0});
  EXPECT_LE(best.busiest_s, network.evaluate(bytes, as_is).busiest_s * (1 + 1e-9));
}

// Each of the six links absent, slow or fast; a broadcast of all to all, a ring, one heavy pair.
TEST(Mapping, AllTopologiesOfFourVertices) {
  constexpr std::pair<size_t, size_t> kPairs[] = {{0, 1}, {0, 2}, {0, 3}, {1, 2}, {1, 3}, {2, 3}};
  Traffic ring(4, std::vector<double>(4, 0)), pair = ring;
  for (size_t i = 0; i < 4; ++i) ring[i][(i + 1) % 4] = 1e6;
  pair[0][3] = pair[3][0] = 5e6, pair[1][2] = 1e6;
  int connected = 0;
  for (int code = 0; code < 729; ++code) {
    std::vector<PlaceLink> links;
    for (int rest = code, p = 0; p < 6; ++p, rest /= 3)
      if (rest % 3 > 0) links.push_back({kPairs[p].first, kPairs[p].second, rest % 3 == 1 ? 12.5e9 : 80e9});
    try {
      Network(4, links);
    } catch (const Error&) {
      continue;  // not connected
    }
    ++connected;
    for (const Traffic& bytes : {everybody_to_everybody(4), ring, pair}) expect_exact(4, links, bytes);
  }
  EXPECT_EQ(connected, 624);  // 38 connected graphs on four vertices, links slow or fast
}

TEST(Mapping, ByHand) {
  // Places in a line, 10 and 5 bytes per second; rank 0 sends 100 bytes to rank 1 and 50 to rank 2, which answers with 20.
  const Traffic bytes = {{0, 100, 50}, {0, 0, 0}, {20, 0, 0}};
  const Network line(3, {{0, 1, 10}, {1, 2, 5}});
  const Mapping as_is = line.evaluate(bytes, {0, 1, 2});
  EXPECT_DOUBLE_EQ(as_is.busiest_s, 15);           // 0 to 1: 150 bytes
  EXPECT_DOUBLE_EQ(as_is.all_s, 15 + 10 + 4 + 2);  // 1 to 2: 50; 2 to 1 and 1 to 0: 20
  const Mapping best = line.best(bytes);           // rank 0 in the middle; all others have a link that is busy for 15 s or longer
  EXPECT_EQ(best.place, (std::vector<size_t>{1, 0, 2}));
  EXPECT_DOUBLE_EQ(best.busiest_s, 10);
  EXPECT_DOUBLE_EQ(best.all_s, 10 + 10 + 4);
  // A third link: a byte takes 0.25 s by it, 0.3 s by the two others; at 2.5 bytes per second 0.4 s.
  const Mapping direct = Network(3, {{0, 1, 10}, {1, 2, 5}, {0, 2, 4}}).evaluate(bytes, {0, 1, 2});
  EXPECT_DOUBLE_EQ(direct.busiest_s, 12.5);       // 0 to 2: 50 bytes
  EXPECT_DOUBLE_EQ(direct.all_s, 12.5 + 10 + 5);  // 0 to 1: 100; 2 to 0: 20
  EXPECT_DOUBLE_EQ(Network(3, {{0, 1, 10}, {1, 2, 5}, {0, 2, 2.5}}).evaluate(bytes, {0, 1, 2}).all_s, as_is.all_s);
}

TEST(Mapping, EqualsBruteForceOnSixPlaces) {
  std::mt19937_64 random(7);
  std::uniform_real_distribution<double> speed(1e9, 1e11), size(0, 1e8);
  for (int i = 0; i < 10; ++i) {
    std::vector<PlaceLink> links;
    for (size_t a = 0; a < 6; ++a)
      for (size_t b = a + 1; b < 6; ++b)
        if (b == a + 1 || random() % 2 == 0) links.push_back({a, b, speed(random)});
    Traffic bytes(5 + random() % 2, std::vector<double>(6));
    for (auto& row : bytes)
      for (double& value : row) value = size(random);
    expect_exact(6, links, bytes);
  }
}

TEST(Mapping, PartnersMeetBehindTheFastLink) {  // two nodes of two; ranks 0 and 2, 1 and 3 talk
  const Network network(4, {{0, 1, 80e9}, {2, 3, 80e9}, {1, 2, 12.5e9}});
  Traffic bytes(4, std::vector<double>(4, 0));
  bytes[0][2] = bytes[2][0] = bytes[1][3] = bytes[3][1] = 80e9;
  const Mapping best = network.best(bytes);
  EXPECT_EQ(best.place[0] / 2, best.place[2] / 2);
  EXPECT_EQ(best.place[1] / 2, best.place[3] / 2);
  EXPECT_NEAR(best.busiest_s, 1, 1e-12);
}

TEST(Mapping, LeavesAloneWhatIsGood) {
  const Network network(3, {{0, 1, 1e9}, {1, 2, 1e9}, {0, 2, 1e9}});
  EXPECT_EQ(network.best(everybody_to_everybody(3)).place, (std::vector<size_t>{0, 1, 2}));
}

TEST(Mapping, RefusesWhatIsNoNetwork) {
  EXPECT_THROW(Network(3, {{0, 1, 1e9}}), Error);
  EXPECT_THROW(Network(2, {{0, 1, 0}}), Error);
  EXPECT_THROW(Network(2, {{0, 2, 1e9}}), Error);
  EXPECT_THROW(Network(2, {{0, 1, 1e9}}).best(everybody_to_everybody(3)), Error);
  EXPECT_THROW(Network(size_t{1} << 40, {}), Error);
}

}  // namespace
}  // namespace ddl::models
