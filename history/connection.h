// A connection to the database of the history: SQLite or PostgreSQL behind one small face. SQL is what both understand:
// $1, $2, ... in the order of their first use, ON CONFLICT, no types beyond TEXT, BIGINT and DOUBLE PRECISION. Values
// travel as text; the columns say what they are.
//
// Errors: everything throws ddl::Error. One thread at a time; any number of processes.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddl::history {

using Cell = std::optional<std::string>;  ///< nothing: NULL
using Cells = std::vector<Cell>;

class Connection {
 public:
  virtual ~Connection() = default;

  /// Runs one statement and returns its rows.
  virtual std::vector<Cells> run(const std::string& sql, const Cells& values) = 0;
  std::vector<Cells> run(const std::string& sql) { return run(sql, {}); }

  /// A transaction that writes. `exclusive`: nobody else is in one of these until it ends, whatever it touches. SQLite
  /// has but this kind, and takes its turn (see kPatienceMs).
  virtual void begin(bool exclusive) = 0;
  virtual void commit() = 0;
  /// After an error; never throws.
  virtual void rollback() noexcept = 0;

  /// Is there a table ddl_schema? False: an empty database, or one that holds other people's tables only.
  virtual bool has_schema() = 0;
  /// Makes the tables, within a transaction that is exclusive.
  virtual void make_schema(const std::string& sql) = 0;
};

/// How long a writer waits for its turn before it gives up.
constexpr int kPatienceMs = 60'000;

enum class Access { kRead, kWrite };

/// A file: made if it is to be written and absent, with the folders above it. Throws kDataMissing: absent, or
/// not a history of ours.
std::unique_ptr<Connection> open_sqlite(const std::string& path, Access access);

/// postgresql://[user@]host[:port]/database?..., as libpq reads it. Loads libddl-postgres.so beside the program; throws
/// ddl::Error where this copy of ddl was built without it.
std::unique_ptr<Connection> open_postgres(const std::string& url);

/// Is it a URL of PostgreSQL?
bool is_postgres_url(std::string_view where);

}  // namespace ddl::history
