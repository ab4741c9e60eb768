// The config files that carry a tuned job away: one per runtime that reads them (emit/formats.def), and manifest.json, which says what they
// are. Every file is left also when the default is kept or when nothing of its concern was tuned: it says so then and changes nothing.
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
  bool changes = false;  ///< whether it sets anything
  std::string note;      ///< what could not be said in this format, or why it changes nothing; may be empty
};

/// Writes all files into `directory`, which is made if it is missing; those that are there already are replaced, each by a rename, the
/// manifest last. Paths within the files are absolute: a directory that moves is to be emitted again. Throws ddl::Error if `directory` is a
/// symbolic link or no directory, if a name in `environment` is none or that of a secret, or the rules are none, and CannotWrite on a full
/// or read-only disk; then what was there before is still there.
std::vector<EmittedFile> emit(const Tuned& tuned, const std::filesystem::path& directory);

}  // namespace ddl::tune
