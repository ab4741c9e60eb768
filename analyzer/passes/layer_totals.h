// Table layer_total: v_layer's rows summed over the ranks once, for reports that show no single rank.
#pragma once

#include <SQLiteCpp/Database.h>

#include <cstdint>

#include "analyzer/flat_map.h"

namespace ddl {

/// Waiting time by process and calling region. Calls whose waiting is not known add nothing.
class RegionWaits {
 public:
  void add(int64_t process, int64_t region, int64_t wait_ns) { sums_ns_[key_of_pair(process, region)] += wait_ns; }
  void add(const RegionWaits& other) {
    other.sums_ns_.each([this](uint64_t where, int64_t wait_ns) { sums_ns_[where] += wait_ns; });
  }
  /// Null: nothing was added.
  const int64_t* find(int64_t process, int64_t region) const { return sums_ns_.find(key_of_pair(process, region)); }

 private:
  FlatMap<int64_t> sums_ns_;
};

/// Those of collectives: of all, or of those only that devices carried out, whose events are of kind 3 and above.
RegionWaits read_region_waits(SQLite::Database& db, bool of_devices_only);

/// `waits`: those of all collectives; those of messages are read here. After the passes that split collectives, match
/// messages and cut steps.
void sum_layers(SQLite::Database& db, RegionWaits waits);

}  // namespace ddl
