#include "store/ingest/worlds.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <tuple>

namespace ddl::store {

namespace {

constexpr size_t kNamedRanks = 20;

/// A world is a key that the launcher gave, a size, and a generation: the second process with the same key, size
/// and rank is another launch into the same run directory, not the same world. (Some launchers give no key, or the
/// same one every time.)
using WorldId = std::tuple<uint64_t, int32_t, size_t>;

std::string list_ranks(const std::vector<int32_t>& ranks) {
  std::string text;
  size_t named = 0;
  for (size_t i = 0; i < ranks.size() && named < kNamedRanks; ++named) {
    size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    text += fmt::format("{}{}", text.empty() ? "" : ", ", ranks[i]);
    if (last > i) text += fmt::format("{}{}", last == i + 1 ? ", " : "-", ranks[last]);
    i = last + 1;
    if (i < ranks.size() && named + 1 == kNamedRanks) text += ", ...";
  }
  return text;
}

}  // namespace

uint64_t Worlds::total_size() const {
  uint64_t total = 0;
  for (const World& world : worlds) total += static_cast<uint64_t>(world.size);
  return total;
}

Worlds find_worlds(const std::vector<Scan>& scans, const std::vector<int64_t>& start_ns) {
  std::vector<size_t> by_start(scans.size());
  std::iota(by_start.begin(), by_start.end(), size_t{0});
  std::sort(by_start.begin(), by_start.end(), [&](size_t a, size_t b) {
    return std::tie(start_ns[a], scans[a].file_name) < std::tie(start_ns[b], scans[b].file_name);
  });

  std::map<std::tuple<uint64_t, int32_t, int32_t>, size_t> generations;  // by key, size, rank
  std::map<WorldId, int64_t> numbers;
  std::map<uint64_t, int64_t> first_of_key;
  Worlds result;
  result.places.resize(scans.size());
  std::vector<std::set<int32_t>> present;
  for (const size_t i : by_start) {
    const Scan& scan = scans[i];
    const uint64_t key = scan.header.world_key;
    if (scan.rank < 0) continue;
    const size_t generation = generations[{key, scan.world_size, scan.rank}]++;
    const auto [world, is_new] =
        numbers.emplace(WorldId{key, scan.world_size, generation}, static_cast<int64_t>(numbers.size()));
    if (is_new) {
      result.worlds.push_back({scan.world_size, {}});
      present.emplace_back();
      first_of_key.emplace(key, world->second);
    }
    result.places[i] = {world->second, scan.rank};
    present[static_cast<size_t>(world->second)].insert(scan.rank);
  }
  if (result.worlds.empty()) result.worlds.emplace_back();
  for (const size_t i : by_start) {  // without a rank: to the world of its launch, if one got so far
    if (result.places[i].world) continue;
    const auto known = first_of_key.find(scans[i].header.world_key);
    result.places[i].world = known != first_of_key.end() ? known->second : 0;
  }
  for (size_t w = 0; w < present.size(); ++w) {
    for (int32_t rank = 0; rank < result.worlds[w].size; ++rank) {
      if (!present[w].count(rank)) result.worlds[w].missing.push_back(rank);
    }
  }
  result.order = by_start;
  std::stable_sort(result.order.begin(), result.order.end(), [&](size_t a, size_t b) {
    const auto key = [&](size_t i) {
      return std::make_tuple(*result.places[i].world, result.places[i].rank.value_or(INT64_MAX));
    };
    return key(a) < key(b);
  });
  return result;
}

void add_missing_ranks(const Worlds& worlds, Losses& losses) {
  for (size_t w = 0; w < worlds.worlds.size(); ++w) {
    const World& world = worlds.worlds[w];
    losses.add({static_cast<int64_t>(w), std::nullopt}, "missing_rank", world.missing.size(),
               fmt::format("of {} ranks left no spool: rank {}", world.size, list_ranks(world.missing)));
  }
}

}  // namespace ddl::store
