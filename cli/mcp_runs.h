// The runs that ddl mcp reads: in one folder, without writing into it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <list>
#include <string>
#include <vector>

#include "cli/open_run.h"

namespace ddl::cli {

class McpRuns {
 public:
  explicit McpRuns(const std::filesystem::path& folder);

  /// Run directories in the folder, newest first, by the names that questions use.
  std::vector<std::filesystem::path> all() const;

  /// "" is the newest. A few runs stay open until their spools change. Throws ddl::Error: no such run, or
  /// outside the folder.
  Run& open(const std::string& name);

 private:
  struct Opened {
    std::filesystem::path directory;
    int64_t changed_ns = 0;
    Run run;
  };
  std::filesystem::path folder_;
  std::list<Opened> opened_;  ///< the last one requested comes first
};

}  // namespace ddl::cli
