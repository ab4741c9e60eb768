#include "analyzer/parallel_reads.h"

#include <SQLiteCpp/Exception.h>
#include <sqlite3.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <system_error>
#include <thread>
#include <vector>

#include "store/database.h"

namespace ddl {

void read_in_parallel(SQLite::Database& db, unsigned threads, size_t count,
                      const std::function<void(size_t, SQLite::Database&)>& ask) {
  std::vector<std::exception_ptr> failures(count);
  std::atomic<size_t> next = 0;
  const auto work = [&](SQLite::Database& connection) {
    for (size_t i = 0; (i = next++) < count;) {
      try {
        ask(i, connection);
      } catch (...) {
        failures[i] = std::current_exception();
      }
    }
  };
  const bool alone =
      sqlite3_get_autocommit(db.getHandle()) == 0 || db.getFilename().empty() || db.getFilename() == ":memory:";
  const size_t most = alone ? 1 : std::min<size_t>(threads, count);
  {
    std::vector<std::jthread> helpers;
    try {
      for (size_t i = 1; i < most; ++i) {
        helpers.emplace_back([&] {
          try {
            SQLite::Database connection = open_beside(db);
            work(connection);
          } catch (const SQLite::Exception&) {  // the others do its part
          }
        });
      }
    } catch (const std::system_error&) {  // no more threads for this user: with those that there are
    }
    work(db);
  }
  for (const std::exception_ptr& failure : failures)
    if (failure) std::rethrow_exception(failure);
}

}  // namespace ddl
