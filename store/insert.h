// One prepared INSERT: row(1, "text", std::nullopt, ...). For tables of modest size; events go through spool_table.h.
#pragma once

#include <SQLiteCpp/Statement.h>

#include <concepts>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace ddl {

class Insert {
 public:
  Insert(SQLite::Database& db, const std::string& sql) : statement_(db, sql) {}

  /// Throws SQLite::Exception.
  template <typename... Values>
  void row(const Values&... values) {
    int index = 0;
    (bind(++index, values), ...);
    statement_.exec();
    statement_.reset();
  }

 private:
  void bind(int index, std::integral auto value) { statement_.bind(index, static_cast<int64_t>(value)); }
  void bind(int index, double value) { statement_.bind(index, value); }
  void bind(int index, const char* value) { bind(index, std::string_view(value)); }
  void bind(int index, const std::string& value) { statement_.bind(index, value); }
  void bind(int index, std::string_view value) { statement_.bind(index, std::string(value)); }
  void bind(int index, std::span<const unsigned char> blob) { statement_.bind(index, blob.data(), static_cast<int>(blob.size())); }
  void bind(int index, std::nullopt_t) { statement_.bind(index); }
  template <typename Value>
  void bind(int index, const std::optional<Value>& value) {
    if (value) {
      bind(index, *value);
    } else {
      statement_.bind(index);
    }
  }

  SQLite::Statement statement_;
};

}  // namespace ddl
