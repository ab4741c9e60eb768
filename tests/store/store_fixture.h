// What tests of the store share: a folder with a run in it, and its database in few words.
#pragma once

#include <SQLiteCpp/Database.h>
#include <SQLiteCpp/Statement.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "core/error.h"
#include "store/database.h"
#include "store/ingest.h"
#include "tests/support/synthetic_run.h"

namespace ddl {

using namespace test::literals;

using Rows = std::vector<std::vector<std::string>>;

class StoreTest : public ::testing::Test {
 protected:
  std::filesystem::path folder() const { return scratch_ / "job.ddl"; }
  RunDirectory run() const { return {folder(), folder() / "run.sqlite"}; }

  /// Writes the run, ingests it and opens its store.
  test::Truth ingest_run(const test::SyntheticRun& synthetic) {
    test::Truth truth = synthetic.write(folder());
    ingest_again();
    return truth;
  }
  IngestSummary ingest_again() {
    db_.reset();
    const IngestSummary summary = ingest(run());
    db_.emplace(open_store(run().store));
    return summary;
  }

  SQLite::Database& db() { return *db_; }

  /// All rows as text; NULL is "NULL", blobs are in hexadecimal.
  Rows rows(const std::string& sql) { return rows_of(db(), sql); }
  static Rows rows_of(SQLite::Database& db, const std::string& sql) {
    Rows result;
    SQLite::Statement query(db, sql);
    while (query.executeStep()) {
      std::vector<std::string> row;
      for (int i = 0; i < query.getColumnCount(); ++i) {
        const SQLite::Column column = query.getColumn(i);
        std::string text = column.isNull() ? "NULL" : column.getString();
        if (column.isBlob()) {
          std::string hex;
          for (const unsigned char byte : text) {
            constexpr char kDigits[] = "0123456789abcdef";
            hex += {kDigits[byte >> 4], kDigits[byte & 15]};
          }
          text = hex;
        }
        row.push_back(text);
      }
      result.push_back(row);
    }
    return result;
  }
  std::string text(const std::string& sql) {
    const Rows found = rows(sql);
    EXPECT_EQ(found.size(), 1u) << sql;
    return found.empty() ? "" : found[0][0];
  }
  int64_t number(const std::string& sql) {
    const std::string found = text(sql);
    EXPECT_NE(found, "NULL") << sql;
    return found.empty() || found == "NULL" ? INT64_MIN : std::stoll(found);
  }
  std::vector<std::string> column_names(const std::string& table) {
    std::vector<std::string> names;
    for (const auto& row : rows("SELECT name FROM pragma_table_info('" + table + "') ORDER BY cid"))
      names.push_back(row[0]);
    return names;
  }

  /// The Error that `action` throws.
  template <class Action>
  static Error error_of(Action action) {
    try {
      action();
    } catch (const Error& error) {
      return error;
    }
    ADD_FAILURE() << "nothing was thrown";
    return Error("");
  }

  test::ScratchFolder scratch_;

 private:
  std::optional<SQLite::Database> db_;
};

}  // namespace ddl
