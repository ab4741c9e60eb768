// Gaps in the data, collected during the ingest and written as table `loss`.
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

/// The process of a loss; neither: the whole run.
struct Place {
  std::optional<int64_t> world;
  std::optional<int64_t> rank;
  void archive(Archive& a) { a(world, rank); }
};

/// Loss of a spool with a damaged header, whose word on the process and its clock proves nothing.
constexpr const char* kDamagedHeader = "damaged_header";
/// Loss of a process whose clock was set back to before it began.
constexpr const char* kClockBack = "clock_back";

class Losses {
 public:
  /// `note` is one sentence without a full stop. A count of 0 adds nothing.
  void add(const Place& place, const std::string& kind, uint64_t count, const std::string& note);
  /// The process's own counters (FileHeader::loss) and flags.
  void add_counters(const Place& place, const FileHeader& header);
  /// The reader's skips in one spool, as one row.
  void add_skips(const Place& place, const std::string& spool, const std::vector<Skip>& skips);

  /// All losses of another part of the run.
  void append(const Losses& part) { rows_.insert(rows_.end(), part.rows_.begin(), part.rows_.end()); }
  void archive(Archive& a) { a(rows_); }

  /// Ordered by world, rank and kind. Returns the number of rows.
  uint64_t write(SQLite::Database& db) const;

 private:
  using Row = std::tuple<std::optional<int64_t>, std::optional<int64_t>, std::string, uint64_t, std::string>;
  std::vector<Row> rows_;
};

}  // namespace ddl::store
