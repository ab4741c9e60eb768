#include "analyzer/passes/layer_totals.h"

#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <unordered_map>

#include "analyzer/query.h"

namespace ddl {
namespace {

struct RegionOfLayer {
  int64_t parent = -1;
  bool counted = false;  ///< its calls are the layer's
  std::optional<std::string> layer, phase;
};

std::unordered_map<int64_t, RegionOfLayer> read_regions(SQLite::Database& db) {
  std::unordered_map<int64_t, RegionOfLayer> regions;
  Query rows(db, R"(
    SELECT r.id, r.parent, r.layer, r.phase, r.kind = 'layer' OR (r.kind = 'operator' AND u.layer IS NULL)
    FROM region r
    LEFT JOIN region u ON u.id = r.parent)");
  const auto text = [&](int column) { return rows.is_null(column) ? std::nullopt : std::optional(rows.text(column)); };
  while (rows.next())
    regions[rows.integer(0)] = {rows.maybe_integer(1).value_or(-1), rows.integer(4) != 0, text(2), text(3)};
  return regions;
}

void add_messages(SQLite::Database& db, RegionWaits& waits) {
  Query rows(db, R"(
    SELECT e.process, e.region, m.late_sender_wait_ns FROM message m JOIN event e ON e.id = m.receive_call WHERE m.late_sender_wait_ns > 0
    UNION ALL
    SELECT e.process, e.region, m.late_receiver_wait_ns FROM message m JOIN event e ON e.id = m.send_call WHERE m.late_receiver_wait_ns > 0)");
  while (rows.next()) waits.add(rows.integer(0), rows.integer(1), rows.integer(2));
}

struct LayerSums {
  int64_t calls = 0, compute_ns = 0, exposed_ns = 0;
  std::optional<int64_t> wait_ns;

  void add_wait(const int64_t* known_ns) {
    if (known_ns != nullptr) wait_ns = wait_ns.value_or(0) + *known_ns;
  }
};

/// By world, layer and phase, as SQLite sorts them.
using LayerTotals = std::map<std::tuple<int64_t, std::string, std::optional<std::string>>, LayerSums>;

/// Own time: what ranges took without those inside them, of the same process.
void add_ranges(SQLite::Database& db, const std::unordered_map<int64_t, int64_t>& worlds, const RegionWaits& waits,
                LayerTotals& totals) {
  const std::unordered_map<int64_t, RegionOfLayer> regions = read_regions(db);
  struct Inside {
    int64_t time_ns = 0, mpi_ns = 0;
  };
  FlatMap<Inside> inside;
  Query rows(db, "SELECT process, region, calls, time_ns, mpi_ns FROM range_profile NOT INDEXED");
  while (rows.next()) {
    const auto region = regions.find(rows.integer(1));
    if (region == regions.end() || region->second.parent < 0) continue;
    Inside& sum = inside[key_of_pair(rows.integer(0), region->second.parent)];
    sum.time_ns += rows.integer(3);
    sum.mpi_ns += rows.integer(4);
  }
  for (rows.reset(); rows.next();) {
    const auto region = regions.find(rows.integer(1));
    const auto world = worlds.find(rows.integer(0));
    if (region == regions.end() || !region->second.layer || world == worlds.end()) continue;
    LayerSums& sums = totals[{world->second, *region->second.layer, region->second.phase}];
    const Inside* less = inside.find(key_of_pair(rows.integer(0), rows.integer(1)));
    const int64_t mpi_ns = rows.integer(4) - (less != nullptr ? less->mpi_ns : 0);
    if (region->second.counted) sums.calls += rows.integer(2);
    sums.compute_ns += rows.integer(3) - (less != nullptr ? less->time_ns : 0) - mpi_ns;
    sums.exposed_ns += mpi_ns;
    sums.add_wait(waits.find(rows.integer(0), rows.integer(1)));
  }
}

void add_inferred(SQLite::Database& db, const std::unordered_map<int64_t, int64_t>& worlds, const RegionWaits& waits,
                  LayerTotals& totals) {
  Query rows(
      db,
      "SELECT l.process, l.region, r.layer, l.calls, l.compute_ns, l.exposed_ns FROM inferred_layer l JOIN region r ON r.id = l.region");
  while (rows.next()) {
    const auto world = worlds.find(rows.integer(0));
    if (world == worlds.end()) continue;
    LayerSums& sums = totals[{world->second, rows.text(2), std::nullopt}];
    sums.calls += rows.integer(3);
    sums.compute_ns += rows.integer(4);
    sums.exposed_ns += rows.integer(5);
    sums.add_wait(waits.find(rows.integer(0), rows.integer(1)));
  }
}

}  // namespace

RegionWaits read_region_waits(SQLite::Database& db, bool of_devices_only) {
  RegionWaits waits;
  Query rows(
      db,
      std::string(
          "SELECT e.process, e.region, k.wait_ns FROM event e JOIN collective k ON k.event = e.id WHERE k.wait_ns IS NOT NULL") +
          (of_devices_only ? " AND e.kind >= 3" : ""));
  while (rows.next()) waits.add(rows.integer(0), rows.integer(1), rows.integer(2));
  return waits;
}

void sum_layers(SQLite::Database& db, RegionWaits waits) {
  add_messages(db, waits);
  std::unordered_map<int64_t, int64_t> worlds;  // by process
  for (Query rows(db, "SELECT id, world FROM process"); rows.next();) worlds[rows.integer(0)] = rows.integer(1);
  LayerTotals totals;
  add_ranges(db, worlds, waits, totals);
  add_inferred(db, worlds, waits, totals);
  Query insert(
      db,
      "INSERT INTO layer_total (world, layer, phase, calls, compute_ns, exposed_ns, wait_ns) VALUES (?, ?, ?, ?, ?, ?, ?)");
  for (const auto& [key, sums] : totals) {
    const auto& [world, layer, phase] = key;
    insert.run(world, layer, phase, sums.calls, sums.compute_ns, sums.exposed_ns, sums.wait_ns);
  }
}

}  // namespace ddl
