// A run written down as SQL: known numbers in every table that a report reads, without recorder, ingest or analyzer.
#pragma once

#include <SQLiteCpp/Database.h>

#include <filesystem>
#include <string>

namespace ddl::test {

/// A private directory, gone with the object.
class TemporaryDirectory {
 public:
  TemporaryDirectory();
  ~TemporaryDirectory();
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// Two ranks on one host, 12 steps of 100 ms (5 of them warm-up). In every step rank 1 computes 90 ms and rank 0 60 ms; rank 0 waits 30 ms for it
/// and both transfer 10 ms.
class HandmadeRun {
 public:
  HandmadeRun();
  SQLite::Database& db() { return db_; }

 private:
  TemporaryDirectory directory_;
  SQLite::Database db_;
};

/// No table, only the schema.
class EmptyRun {
 public:
  EmptyRun();
  SQLite::Database& db() { return db_; }

 private:
  TemporaryDirectory directory_;
  SQLite::Database db_;
};

}  // namespace ddl::test
