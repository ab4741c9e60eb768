#include "reports/csv.h"

#include <fmt/format.h>

#include <algorithm>

#include "analyzer/query.h"
#include "analyzer/tables.h"
#include "core/error.h"
#include "reports/rows.h"
#include "reports/safe_text.h"
#include "store/database.h"

namespace ddl::reports {
namespace {

constexpr size_t kBufferBytes = 1 << 16;

std::string field(const Value& value) {
  if (value.is_absent()) return {};
  if (value.unit() == Unit::kText) return csv_text(value.as_text());
  return is_integer(value.unit()) ? std::to_string(value.as_integer()) : fmt::format("{}", value.as_double());
}

}  // namespace

std::string csv_text(std::string_view text) {
  std::string out;
  if (!text.empty() && std::string_view("=+-@\t\r").find(text[0]) != std::string_view::npos) out = "'";
  for (size_t offset = 0; offset < text.size();) {  // somebody will look at the file in a terminal
    const size_t start = offset;
    const char32_t code = next_code_point(text, offset);
    const bool control = (code < 0x20 && code != '\t' && code != '\n' && code != '\r') || (code >= 0x7f && code < 0xa0);
    out += code == kNotUtf8 || control ? "\xef\xbf\xbd" : text.substr(start, offset - start);
  }
  if (out.find_first_of(",\"\r\n") == std::string::npos && !out.starts_with(' ') && !out.ends_with(' ')) return out;
  std::string quoted = "\"";
  for (const char c : out) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + "\"";
}

std::vector<std::string> stable_views() {
  constexpr std::string_view kCreate = "\nCREATE VIEW ";
  std::vector<std::string> names;
  for (const std::string_view sql : {std::string_view(kSchemaSql), std::string_view(kTablesSql)}) {
    for (size_t at = sql.find(kCreate); at != std::string_view::npos; at = sql.find(kCreate, at + 1)) {
      const std::string_view name = sql.substr(at + kCreate.size());
      if (name.starts_with("v_")) names.emplace_back(name.substr(0, name.find(' ')));
    }
  }
  return names;
}

std::vector<std::string> view_names(SQLite::Database& db) {
  std::vector<std::string> names;
  Query row(
      db,
      "SELECT name FROM main.sqlite_master WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite_%' ORDER BY type DESC, name");
  while (row.next()) names.push_back(row.text(0));
  return names;
}

std::string list_tables(SQLite::Database& db) {
  std::string text;
  for (const std::string& name : view_names(db)) {
    Query column(db, "SELECT name FROM pragma_table_info(?)");
    column.bind(name);
    std::vector<std::string> columns;
    while (column.next()) columns.push_back(column.text(0));
    text += fmt::format("{}({})\n", name, fmt::join(columns, ", "));
  }
  return text;
}

void write_csv(SQLite::Database& db, std::string_view name, const Sink& sink) {
  const std::vector<std::string> names = view_names(db);
  const std::string asked(name);
  // "step" and "steps" mean v_step, whatever tables of the store are called.
  std::string chosen;
  for (const std::string& candidate :
       {"v_" + asked, asked.ends_with('s') ? "v_" + asked.substr(0, asked.size() - 1) : asked, asked})
    if (chosen.empty() && std::find(names.begin(), names.end(), candidate) != names.end()) chosen = candidate;
  if (chosen.empty())
    throw Error(fmt::format("no view or table '{}'", name), fmt::format("there are {}", fmt::join(names, ", ")),
                ExitCode::kUsage);
  Rows rows(db, fmt::format("SELECT * FROM main.\"{}\"", chosen));
  write_csv(rows, sink);
}

void write_csv(Rows& rows, const Sink& sink) {
  std::string buffer;
  const int columns = rows.columns();
  const auto separator = [](int column) { return std::string(column == 0 ? 0 : 1, ','); };
  for (int c = 0; c < columns; ++c) buffer += separator(c) + csv_text(rows.name(c));
  buffer += "\r\n";
  while (rows.next()) {
    for (int c = 0; c < columns; ++c) buffer += separator(c) + field(rows.value(c));
    buffer += "\r\n";
    if (buffer.size() > kBufferBytes) {
      sink(buffer);
      buffer.clear();
    }
  }
  sink(buffer);
}

}  // namespace ddl::reports
