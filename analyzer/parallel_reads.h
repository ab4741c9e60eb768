// Questions to a store that do not depend on each other, by several threads, each on a connection of its own.
#pragma once

#include <SQLiteCpp/Database.h>

#include <cstddef>
#include <functional>

namespace ddl {

/// Calls `ask(i, connection)` once for each i below `count`, in any order and on any thread; `ask` only reads. Throws
/// the exception of the first one that failed, when all are done. Without an open transaction, and where the store is a
/// file, `threads` of them run at a time.
void read_in_parallel(SQLite::Database& db, unsigned threads, size_t count,
                      const std::function<void(size_t, SQLite::Database&)>& ask);

}  // namespace ddl
