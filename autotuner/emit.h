// The config files that carry a tuned job away: one per runtime that reads them (emit/formats.def), and manifest.json,
// which describes them. All files are always written: where the default is kept, or nothing in a file's domain was
// tuned, the file says so and changes nothing.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "autotuner/tuned.h"

namespace ddl::tune {

struct EmittedFile {
  std::string name, reader;  ///< "allreduce.rules"; who reads it
  std::string sha256;
  int64_t bytes = 0;
  bool changes = false;  ///< it sets something
  std::string note;      ///< what this format cannot express, or why it changes nothing; may be empty
};

/// Writes all files into `directory`, made if missing; existing files are replaced, each by a rename, the manifest
/// last. Paths in the files are absolute: after moving a directory, emit it again. Throws ddl::Error if `directory` is
/// a symbolic link or not a directory, if a name in `environment` is invalid or a secret's, or if the rules are
/// invalid; CannotWrite on a full or read-only disk, which leaves the old files.
std::vector<EmittedFile> emit(const Tuned& tuned, const std::filesystem::path& directory);

/// The names of the files that emit() writes, without manifest.json.
std::vector<std::string> emitted_names();

}  // namespace ddl::tune
