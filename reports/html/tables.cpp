#include "reports/html/tables.h"

#include "reports/format.h"

namespace ddl::reports::html {
namespace {

// Numbers are right-aligned by the style sheet, words need a class.
bool is_words(const Column& column) { return column.unit == Unit::kText; }

constexpr size_t kMostOpenRows = 24;  // longer tables scroll within themselves

}  // namespace

void write_table(Markup& page, const Table& table, std::string_view label) {
  page.open("div", {{"class", table.rows.size() > kMostOpenRows ? "scroll tall" : "scroll"},
                    {"tabindex", "0"},
                    {"role", "region"},
                    {"aria-label", std::string(label)}});
  page.open("table").open("thead").open("tr");
  for (const Column& column : table.columns)
    if (column.keep > 0) page.element("th", {{"scope", "col"}, {"class", is_words(column) ? "w" : ""}}, column.title);
  page.close().close().open("tbody");
  for (const auto& row : table.rows) {
    page.open("tr");
    for (size_t c = 0; c < row.size(); ++c)
      if (table.columns[c].keep > 0) page.element("td", {{"class", is_words(table.columns[c]) ? "w" : ""}}, shown_name(table_text(row[c])));
    page.close();
  }
  page.close().close().close();
  if (!table.note.empty()) page.element("p", {{"class", "note"}}, table.note);
}

}  // namespace ddl::reports::html
