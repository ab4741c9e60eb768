#include "store/import/csv_rows.h"

#include <fmt/format.h>

#include <algorithm>

#include "store/import/decimal.h"

namespace ddl::store {

bool take_csv_row(std::string_view& text, std::vector<std::string>& fields) {
  fields.assign(1, {});
  bool quoted = false;
  size_t at = 0;
  for (; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '"' && quoted && at + 1 < text.size() && text[at + 1] == '"') {
      fields.back() += text[++at];
    } else if (c == '"') {
      quoted = !quoted;
    } else if (quoted || (c != ',' && c != '\n' && c != '\r')) {
      fields.back() += c;
    } else if (c == ',') {
      fields.emplace_back();
    } else if (c == '\n') {
      ++at;
      break;
    }
  }
  text.remove_prefix(at);
  return !quoted;
}

CsvRows::CsvRows(InputFile& file, std::string_view remark) : file_(file), remark_(remark) {
  if (!line()) file_.fail(0, "the file is empty");
  if (line_.starts_with("\xef\xbb\xbf")) line_.erase(0, 3);  // a BOM, as spreadsheets write it
  split();
  columns_ = fields_;
}

bool CsvRows::has(std::string_view column) const {
  return std::find(columns_.begin(), columns_.end(), column) != columns_.end();
}

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
  split();
  if (fields_.size() != columns_.size())
    fail(fmt::format("a row has {} fields, the header {}", fields_.size(), columns_.size()));
  return true;
}

void CsvRows::split() {
  std::string_view left = line_;
  if (!take_csv_row(left, fields_)) fail("unclosed quote");
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
