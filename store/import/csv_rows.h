// Reads a CSV file with a header row by row. Fields may be quoted; a row is a line.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "store/import/input_file.h"

namespace ddl::store {

/// Takes the next row off `text`, with its line break; quoted fields may hold commas, line breaks and doubled quotes.
/// False: an unclosed quote.
bool take_csv_row(std::string_view& text, std::vector<std::string>& fields);

class CsvRows {
 public:
  /// Reads the header. Skips lines that begin with `remark`, unless empty. Throws Error if there is no header.
  explicit CsvRows(InputFile& file, std::string_view remark = {});

  bool has(std::string_view column) const;
  /// The next row; false at the end. Throws Error, with the byte, if a row's length differs from the header's, or a
  /// quote is unclosed.
  bool next();
  /// For the current row. All throw Error with the row's place if the column is missing, or not such a number.
  const std::string& text(std::string_view column) const;
  int64_t integer(std::string_view column) const;
  int64_t decimal(std::string_view column, int places) const;
  [[noreturn]] void fail(const std::string& what) const;

 private:
  /// The next line that is not a remark; false at the end.
  bool line();
  void split();

  InputFile& file_;
  std::string remark_;
  std::vector<std::string> columns_, fields_;
  std::string line_;
  uint64_t offset_ = 0;  ///< of the row
};

}  // namespace ddl::store
