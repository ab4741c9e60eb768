#include "store/ingest/copied_rows.h"

#include <SQLiteCpp/Statement.h>
#include <SQLiteCpp/Transaction.h>
#include <fmt/format.h>
#include <sqlite3.h>

#include <set>
#include <utility>

#include "store/database.h"
#include "store/ingest/part_files.h"

namespace ddl::store {

namespace {

namespace fs = std::filesystem;

bool are_equal(const std::vector<uint32_t>& ids) {
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] != i) return false;
  }
  return true;
}

void look_up(sqlite3_context* context, int, sqlite3_value** id) {
  const auto& ids = *static_cast<const std::vector<uint32_t>*>(sqlite3_user_data(context));
  if (sqlite3_value_type(*id) == SQLITE_NULL) return;
  const auto at = static_cast<size_t>(sqlite3_value_int64(*id));
  if (at < ids.size())
    sqlite3_result_int64(context, ids[at]);
  else
    sqlite3_result_error(context, "a number that the part does not describe", -1);
}

/// What stands for a column of `table` of a part in the statement that copies it.
std::string copied(const std::string& table, const std::string& column, const PartIds& ids) {
  const auto looked_up = [&](const char* function, const std::vector<uint32_t>& numbers) {
    return are_equal(numbers) ? column : fmt::format("{}({})", function, column);
  };
  const auto moved = [&](int64_t by) { return by == 0 ? column : fmt::format("{} + {}", column, by); };
  if (column == "op") return looked_up("op_of", ids.ops);
  if (column == "region") return looked_up("region_of", ids.regions.regions);
  if (column == "site") return looked_up("site_of", ids.regions.sites);
  if (table == "gpu_event" && column == "name") return looked_up("gpu_name_of", ids.gpu_names);
  if (table == "event" && column == "id") return moved(ids.events);
  if ((table == "gpu_event" && column == "id") || (table == "nccl_phase" && column == "gpu_event"))
    return moved(ids.gpu_events);
  return column;
}

/// Rows that the ingest writes in the order of ids, which is another one by the store's. By the numbers of the columns.
const char* order_of(const std::string& table) {
  if (table == "profile") return " ORDER BY 1, 2, 3, 4, 5, 6";
  if (table == "range_profile") return " ORDER BY 1, 2";
  if (table == "counter_profile") return " ORDER BY 1, 2, 3";
  return "";
}

std::set<std::string> tables_in(SQLite::Database& db) {
  std::set<std::string> names;
  SQLite::Statement row(db, "SELECT name FROM main.sqlite_master WHERE type = 'table'");
  while (row.executeStep()) names.insert(row.getColumn(0).getString());
  return names;
}

}  // namespace

std::vector<std::string> filled_tables(SQLite::Database& db) {
  std::vector<std::string> filled;
  for (const std::string& table : tables_in(db)) {
    if (table != "kept" && db.execAndGet(fmt::format("SELECT EXISTS (SELECT 1 FROM {})", table)).getInt() != 0)
      filled.push_back(table);
  }
  return filled;
}

void copy_tables(SQLite::Database& db, const fs::path& file, const std::vector<std::string>& tables,
                 const PartIds& ids) {
  const std::pair<const char*, const std::vector<uint32_t>*> functions[] = {{"op_of", &ids.ops},
                                                                            {"region_of", &ids.regions.regions},
                                                                            {"site_of", &ids.regions.sites},
                                                                            {"gpu_name_of", &ids.gpu_names}};
  for (const auto& [name, numbers] : functions) {
    sqlite3_create_function_v2(db.getHandle(), name, 1, SQLITE_UTF8 | SQLITE_DETERMINISTIC,
                               const_cast<std::vector<uint32_t>*>(numbers), look_up, nullptr, nullptr, nullptr);
  }
  SQLite::Statement attach(db, "ATTACH ? AS part");
  attach.bind(1, as_attached(file));
  attach.exec();
  SQLite::Transaction transaction(db);
  const std::set<std::string> known = tables_in(db);
  for (const std::string& table : tables) {
    if (!known.contains(table)) throw unusable(file, "it has a table that no store has");
    std::string columns;
    bool as_they_are = true;
    SQLite::Statement column(db, fmt::format("SELECT name FROM pragma_table_info('{}')", table));
    while (column.executeStep()) {
      const std::string name = column.getColumn(0).getString();
      const std::string value = copied(table, name, ids);
      columns += (columns.empty() ? "" : ", ") + value;
      as_they_are = as_they_are && value == name;
    }
    // `*`: SQLite then copies rows as they lie. Links of a host are told by each of its processes.
    db.exec(fmt::format("INSERT {}INTO main.{} SELECT {} FROM part.{}{}", table == "nvlink" ? "OR IGNORE " : "", table,
                        as_they_are ? "*" : columns, table, as_they_are ? "" : order_of(table)));
  }
  transaction.commit();
  db.exec("DETACH part");
}

}  // namespace ddl::store
