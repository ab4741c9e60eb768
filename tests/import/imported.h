// A trace written by a test, imported and analyzed.
#pragma once

#include <SQLiteCpp/Database.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "analyzer/analyze.h"
#include "core/error.h"
#include "store/database.h"
#include "store/import.h"
#include "tests/support/synthetic_run.h"

namespace ddl::test {

inline const ImportFormat& import_format(const std::string& name) {
  const auto formats = import_formats();
  return *std::find_if(formats.begin(), formats.end(), [&](const ImportFormat& f) { return f.name == name; });
}

struct Imported {
  using Files = std::vector<std::pair<std::string, std::string>>;  ///< name, contents

  Imported(const std::string& format, const std::vector<std::filesystem::path>& files, bool one_clock = false)
      : summary(import_traces(import_format(format), files, options(one_clock))),
        db(open_store(folder / "run.sqlite", Access::kReadWrite)) {}
  Imported(const std::string& format, const Files& files, bool one_clock = false)
      : summary(import_traces(import_format(format), write(files), options(one_clock))),
        db(open_store(folder / "run.sqlite", Access::kReadWrite)) {}

  int64_t integer(const std::string& sql) { return db.execAndGet(sql).getInt64(); }
  double real(const std::string& sql) { return db.execAndGet(sql).getDouble(); }
  std::string text(const std::string& sql) { return db.execAndGet(sql).getString(); }

  ScratchFolder folder;
  ImportSummary summary;
  SQLite::Database db;

 private:
  ImportOptions options(bool one_clock) const {
    ImportOptions options;
    options.output = folder / "run.sqlite";
    options.one_clock = one_clock;
    options.finish = [](SQLite::Database& store) { analyze(store); };
    return options;
  }
  std::vector<std::filesystem::path> write(const Files& files) const {
    std::vector<std::filesystem::path> paths;
    for (const auto& [name, contents] : files) {
      paths.push_back(folder / name);
      std::ofstream(paths.back(), std::ios::binary) << contents;
    }
    return paths;
  }
};

/// What the import of this file says, which must be an Error.
inline std::string import_error(const std::string& format, const std::string& contents,
                                const std::string& name = "trace.json") {
  try {
    Imported run(format, Imported::Files{{name, contents}});
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(name), std::string::npos) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "imported: " << contents.substr(0, 200);
  return {};
}

}  // namespace ddl::test
