// A directory of emitted files, as it lies there now: what `ddl tune --apply` sets and `--verify` measures.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "autotuner/tuned.h"

namespace ddl::tune {

struct Emitted {
  std::filesystem::path directory;  ///< absolute
  Tuned tuned;                      ///< of manifest.json; secrets of the commands are ***, the plugin's path is not told
  std::vector<std::pair<std::string, std::string>> environment;  ///< of tuned.env0: all that the tuned job has to have
  std::string allreduce_rules;                                   ///< the file's text
  bool changes_anything = false;
};

/// Throws ddl::Error (kDataMissing) if `directory` has no manifest of ours, a file is missing or is not as it was written (by its SHA-256),
/// or the directory was moved, so that the paths in its files lead elsewhere.
Emitted read_emitted(const std::filesystem::path& directory);

}  // namespace ddl::tune
