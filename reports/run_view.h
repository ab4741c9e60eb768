// What every part of a report knows about its run: the world, the steps, the span of its sums.
#pragma once

#include <SQLiteCpp/Database.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/facts.h"
#include "reports/value.h"

namespace ddl::reports {

struct Table;

/// Numbers describe one world. Per-step numbers are means over the steady steps: complete on all ranks, without
/// the first ones. A run without annotated steps counts as one step, from leaving MPI_Init to entering
/// MPI_Finalize (rank_part).
struct RunView {
  /// `db`: an analyzed run. `world`: default is the one with most ranks. Throws ddl::Error
  /// (ExitCode::kDataMissing) if nothing was recorded, (ExitCode::kUsage) if there is no such world.
  RunView(SQLite::Database& db, std::optional<int64_t> wanted_world);

  std::string meta(std::string_view key) const;  ///< "" if absent
  /// Background threads agree on what to reduce: whom others wait for is the last rank to be ready, not to enter.
  bool negotiates() const;
  std::string verdict() const;  ///< one line of the analyzer
  /// The error between the clocks of two hosts, one sigma: of the least known pair. 0: one clock; nothing: unknown.
  std::optional<double> clock_sigma_ns() const;

  SQLite::Database& db;
  int64_t world = 0;
  int64_t worlds = 1;
  int64_t ranks = 0;           ///< recorded; 0: a program without MPI, or none became a rank
  int64_t expected_ranks = 0;  ///< size of MPI_COMM_WORLD
  int64_t hosts = 0;
  bool has_steps = false;         ///< annotated or inferred
  bool inferred_steps = false;    ///< found by the repetition of collectives
  int64_t steps = 0;              ///< steady ones; 1 without annotation
  int64_t warmup_steps = 0;       ///< left out at the beginning
  int64_t all_steps = 0;          ///< seen on any rank
  size_t rows_wanted = SIZE_MAX;  ///< for tables with a row for each name or rank, of which there may be a million
  /// Takes rows of such tables as they are made (add_row() in overview.h); unset: they go into the table.
  std::function<void(const Table& table, const std::vector<Value>& cells)> each_row;
  Facts facts;  ///< of the world: steps, ranks and shares, for all outputs
};

}  // namespace ddl::reports
