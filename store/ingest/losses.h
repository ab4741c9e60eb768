// What is missing, collected while the ingest runs and written as table `loss`.
#pragma once

#include <SQLiteCpp/Database.h>

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "core/format.h"
#include "core/reader.h"
#include "store/archive.h"

namespace ddl::store {

/// Which process a loss belongs to; neither: the run as a whole.
struct Place {
  std::optional<int64_t> world;
  std::optional<int64_t> rank;
  void archive(Archive& a) { a(world, rank); }
};

/// Loss of a spool whose header is damaged: what it says of the process and its clock proves nothing.
constexpr const char* kDamagedHeader = "damaged_header";
/// Loss of a process whose clock was set back to before it began.
constexpr const char* kClockBack = "clock_back";

class Losses {
 public:
  /// `note` is one sentence without a full stop. Nothing happens for a count of 0.
  void add(const Place& place, const std::string& kind, uint64_t count, const std::string& note);
  /// The process's own counters (FileHeader::loss) and flags.
  void add_counters(const Place& place, const FileHeader& header);
  /// What the reader skipped in one spool, as one row.
  void add_skips(const Place& place, const std::string& spool, const std::vector<Skip>& skips);

  /// All that another part of the run lost.
  void append(const Losses& part) { rows_.insert(rows_.end(), part.rows_.begin(), part.rows_.end()); }
  void archive(Archive& a) { a(rows_); }

  /// Ordered by world, rank and kind. Returns how many rows there are.
  uint64_t write(SQLite::Database& db) const;

 private:
  using Row = std::tuple<std::optional<int64_t>, std::optional<int64_t>, std::string, uint64_t, std::string>;
  std::vector<Row> rows_;
};

}  // namespace ddl::store
