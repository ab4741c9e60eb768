// One prepared INSERT: row(1, "text", std::nullopt, ...). For tables of modest size; events go through spool_table.h.
//
// A statement for thousands of processes is prepared once for all, and not before there is a row: SQLite takes longer
// to prepare it than to insert a few rows.
#pragma once

#include <SQLiteCpp/Statement.h>

#include <concepts>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>

namespace ddl {

/// A connection's lasting statements; the connection must outlive it.
class Statements {
 public:
  explicit Statements(SQLite::Database& connection) : db(connection) {}

  /// `sql`: a literal, or as lasting.
  SQLite::Statement& prepared(const char* sql) { return by_text_.try_emplace(sql, db, sql).first->second; }

  SQLite::Database& db;

 private:
  std::unordered_map<const char*, SQLite::Statement> by_text_;
};

class Insert {
 public:
  Insert(SQLite::Database& db, const std::string& sql) : own_(std::in_place, db, sql), statement_(&*own_) {}
  Insert(Statements& statements, const char* sql) : statements_(&statements), sql_(sql) {}
  Insert(const Insert&) = delete;
  Insert& operator=(const Insert&) = delete;

  /// Throws SQLite::Exception.
  template <typename... Values>
  void row(const Values&... values) {
    if (statement_ == nullptr) statement_ = &statements_->prepared(sql_);
    int index = 0;
    (bind(++index, values), ...);
    statement_->exec();
    statement_->reset();
  }

 private:
  void bind(int index, std::integral auto value) { statement_->bind(index, static_cast<int64_t>(value)); }
  void bind(int index, double value) { statement_->bind(index, value); }
  void bind(int index, const char* value) {
    if (value == nullptr) {
      statement_->bind(index);
    } else {
      bind(index, std::string_view(value));
    }
  }
  void bind(int index, const std::string& value) { statement_->bind(index, value); }
  void bind(int index, std::string_view value) { statement_->bind(index, std::string(value)); }
  void bind(int index, std::span<const unsigned char> blob) {
    statement_->bind(index, blob.data(), static_cast<int>(blob.size()));
  }
  void bind(int index, std::nullopt_t) { statement_->bind(index); }
  template <typename Value>
  void bind(int index, const std::optional<Value>& value) {
    if (value) {
      bind(index, *value);
    } else {
      statement_->bind(index);
    }
  }

  std::optional<SQLite::Statement> own_;
  Statements* statements_ = nullptr;
  const char* sql_ = nullptr;
  SQLite::Statement* statement_ = nullptr;  ///< null: no row yet
};

}  // namespace ddl
