// A directory of emitted files as it is now: what `ddl tune --apply` sets and `--verify` measures.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "autotuner/tuned.h"

namespace ddl::tune {

struct Emitted {
  std::filesystem::path directory;  ///< absolute
  Tuned tuned;                      ///< of manifest.json; secrets in commands are ***, the plugin's path is left out
  /// of tuned.env0: all variables that the tuned job needs
  std::vector<std::pair<std::string, std::string>> environment;
  std::string allreduce_rules;  ///< the file's text
  bool changes_anything = false;
};

/// Throws ddl::Error (kDataMissing) if `directory` has no manifest of ours, a file is missing or changed (by its
/// SHA-256), or the directory was moved, which invalidates the paths in its files.
Emitted read_emitted(const std::filesystem::path& directory);

}  // namespace ddl::tune
