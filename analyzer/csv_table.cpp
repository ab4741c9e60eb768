#include "analyzer/csv_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/number.h"
#include "core/regular_file.h"
#include "store/import/csv_rows.h"

namespace ddl {

CsvTable CsvTable::read(const std::filesystem::path& path) {
  std::string text;
  try {
    text = read_regular_file(path.string(), NamedBy::kUser);
  } catch (const Error& error) {
    throw Error(error.what(), "give a CSV file with a header line");
  }
  return parse(text, path.string());
}

CsvTable CsvTable::parse(std::string_view text, const std::string& name) {
  CsvTable table;
  table.name_ = name;
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);  // a BOM, as spreadsheets write it
  std::vector<std::vector<std::string>> records;
  std::vector<size_t> lines;
  for (size_t line = 1; !text.empty();) {
    const std::string_view from_here = text;
    const size_t first_line = line;
    std::vector<std::string> fields;
    if (!store::take_csv_row(text, fields))
      throw Error(fmt::format("{}:{}: unclosed quote", name, first_line),
                  "close it; a quote inside a quoted field is written twice");
    line += static_cast<size_t>(
        std::count(from_here.begin(), from_here.end() - static_cast<std::ptrdiff_t>(text.size()), '\n'));
    if (fields.size() == 1 && fields[0].empty()) continue;  // an empty line
    if (!records.empty() && fields.size() != records[0].size()) {
      throw Error(
          fmt::format("{}:{}: {} fields, but the header has {}", name, first_line, fields.size(), records[0].size()),
          "quote fields that hold commas");
    }
    records.push_back(std::move(fields));
    lines.push_back(first_line);
  }
  if (records.empty()) throw Error(fmt::format("{} is empty", name), "give a CSV file with a header line");
  for (size_t c = 0; c < records[0].size(); ++c) table.columns_.emplace(records[0][c], c);
  table.rows_.assign(std::make_move_iterator(records.begin() + 1), std::make_move_iterator(records.end()));
  table.lines_.assign(lines.begin() + 1, lines.end());
  return table;
}

const std::string& CsvTable::text(size_t row, const std::string& column) const {
  const auto found = columns_.find(column);
  if (found == columns_.end()) throw Error(fmt::format("{} has no column '{}'", name_, column));
  return rows_.at(row)[found->second];
}

double CsvTable::number(size_t row, const std::string& column) const {
  const std::string& field = text(row, column);
  const auto value = number_in<double>(field);
  if (!value || !std::isfinite(*value))
    throw Error(fmt::format("{}:{}: invalid number '{}' in column '{}'", name_, lines_[row], field, column));
  return *value;
}

}  // namespace ddl
