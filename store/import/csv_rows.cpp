#include "store/import/csv_rows.h"

#include <fmt/format.h>

#include <algorithm>

#include "store/import/decimal.h"

namespace ddl::store {

CsvRows::CsvRows(InputFile& file, std::string_view remark) : file_(file), remark_(remark) {
  if (!line()) file_.fail(0, "the file is empty");
  if (line_.starts_with("\xef\xbb\xbf")) line_.erase(0, 3);  // a BOM, as spreadsheets write it
  split(line_);
  columns_ = fields_;
}

bool CsvRows::has(std::string_view column) const { return std::find(columns_.begin(), columns_.end(), column) != columns_.end(); }

bool CsvRows::line() {
  do {
    offset_ = file_.offset();
    if (!file_.line(line_)) return false;
  } while (!remark_.empty() && (line_.empty() || line_.starts_with(remark_)));
  return true;
}

bool CsvRows::next() {
  do {
    if (!line()) return false;
  } while (line_.empty());
  split(line_);
  if (fields_.size() != columns_.size()) fail(fmt::format("a row of {} fields below a header of {}", fields_.size(), columns_.size()));
  return true;
}

void CsvRows::split(const std::string& line) {
  fields_.clear();
  std::string field;
  bool quoted = false;
  for (size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (c == '"') {
      if (quoted && i + 1 < line.size() && line[i + 1] == '"') {
        field += '"';
        ++i;
      } else {
        quoted = !quoted;
      }
    } else if (c == ',' && !quoted) {
      fields_.push_back(std::move(field));
      field.clear();
    } else {
      field += c;
    }
  }
  if (quoted) fail("unclosed quote");
  fields_.push_back(std::move(field));
}

const std::string& CsvRows::text(std::string_view column) const {
  const auto found = std::find(columns_.begin(), columns_.end(), column);
  if (found == columns_.end()) fail(fmt::format("there is no column {}", column));
  return fields_[static_cast<size_t>(found - columns_.begin())];
}

int64_t CsvRows::integer(std::string_view column) const {
  const std::optional<int64_t> value = whole(text(column));
  if (!value) fail(fmt::format("{} is \"{:.40}\", which is not a whole number that fits", column, text(column)));
  return *value;
}

int64_t CsvRows::decimal(std::string_view column, int places) const {
  const std::optional<int64_t> value = scaled(text(column), places);
  if (!value) fail(fmt::format("{} is \"{:.40}\", which is not a number that fits", column, text(column)));
  return *value;
}

void CsvRows::fail(const std::string& what) const { file_.fail(offset_, what); }

}  // namespace ddl::store
