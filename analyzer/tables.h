// The tables that passes hand to metrics, findings, reports and the tuner: analyzer/tables.sql.
#pragma once

#include <SQLiteCpp/Database.h>

namespace ddl {

/// Text of tables.sql.
extern const char* const kTablesSql;

/// Makes the tables of tables.sql, empty, and notes them in meta.analysis.tables; those that another analysis of the
/// run noted there are dropped before, whatever version it was of. Throws as SQLiteCpp does if the run has a table of
/// that name that no analysis made.
void make_tables(SQLite::Database& db);

}  // namespace ddl
