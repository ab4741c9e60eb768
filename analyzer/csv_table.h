// Reads small CSV files whole (RFC 4180: quotes, doubled quotes, CRLF or LF; the first line names the columns).
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace ddl {

class CsvTable {
 public:
  /// Throws ddl::Error with the file and line for what is not a CSV table: unequal numbers of fields, a quote
  /// that is never closed.
  static CsvTable read(const std::filesystem::path& path);
  static CsvTable parse(std::string_view text, const std::string& name);

  const std::string& name() const { return name_; }  ///< for messages: its file
  size_t rows() const { return rows_.size(); }
  bool has(const std::string& column) const { return columns_.contains(column); }
  /// Throws ddl::Error if there is no such column, or (number) for what is not a finite number.
  const std::string& text(size_t row, const std::string& column) const;
  double number(size_t row, const std::string& column) const;

 private:
  std::string name_;
  std::map<std::string, size_t> columns_;
  std::vector<std::vector<std::string>> rows_;
  std::vector<size_t> lines_;  ///< on which each row begins
};

}  // namespace ddl
