// The processes of each MPI_COMM_WORLD, and the missing ranks.
#pragma once

#include <cstdint>
#include <vector>

#include "store/ingest/losses.h"
#include "store/ingest/scan.h"

namespace ddl::store {

struct World {
  int32_t size = 0;              ///< 0: no MPI
  std::vector<int32_t> missing;  ///< ranks without a spool, ascending
};

struct Worlds {
  std::vector<World> worlds;
  std::vector<Place> places;  ///< of each scan
  std::vector<size_t> order;  ///< scans by world, rank, start: the order of process.id

  uint64_t total_size() const;
};

/// The scans have their identities (identity.cpp). `start_ns` of each scan on the run's axis.
Worlds find_worlds(const std::vector<Scan>& scans, const std::vector<int64_t>& start_ns);

/// One row per world that has no spool from some of its ranks.
void add_missing_ranks(const Worlds& worlds, Losses& losses);

}  // namespace ddl::store
