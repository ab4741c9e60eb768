// The history of runs in its database. Several processes, users and nodes may write to one at the same time: a run is
// added in one transaction.
//
// Errors: throws ddl::Error.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "history/connection.h"
#include "history/row.h"

namespace ddl::history {

constexpr int kHistoryVersion = 2;  ///< as in schema.sql

/// Text of history/schema.sql.
extern const char* const kHistorySql;

/// Where the history is: `option` if given, else $DDL_HISTORY, else ddl/history.sqlite in $XDG_DATA_HOME or
/// ~/.local/share. A path, or a URL of PostgreSQL.
std::string history_place(const std::optional<std::string>& option);

/// The same for messages: without a password.
std::string shown_place(const std::string& place);

class History {
 public:
  /// kWrite makes the database and its tables where there are none. Throws kDataMissing: there is nothing to read, or
  /// of a newer schema.
  History(const std::string& place, Access access);

  enum class Added { kNew, kAgain };
  /// Adds the run, or replaces its numbers if it is there. `row.added_ns` is the moment of this call.
  Added add(const RunRow& row);

  /// Every run, or those of one job name, by start. Without metrics.
  std::vector<RunRow> runs(const std::optional<std::string>& name);

 private:
  std::unique_ptr<Connection> connection_;
  bool has_bounds_ = true;  ///< false: of an earlier ddl, whose findings have no saving_bound
};

}  // namespace ddl::history
