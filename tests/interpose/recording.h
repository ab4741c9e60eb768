// The recording of a test's own process: made where DDL_OUT points, read back after MPI_Finalize, gone with the object.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>

#include "core/reader.h"

namespace ddl {

class Recording {
 public:
  /// To be there before MPI_Init. Every event is kept.
  Recording() : directory_((std::filesystem::temp_directory_path() / "ddl-recording-XXXXXX").string()) {
    if (!mkdtemp(directory_.data())) throw std::runtime_error("no directory " + directory_);
    setenv("DDL_OUT", directory_.c_str(), 1);
    setenv("DDL_BUDGET", "off", 1);
  }
  ~Recording() { std::filesystem::remove_all(directory_); }
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

  /// The one spool of this process. Throws where there is none, or another one.
  SpoolReader spool() const {
    std::string path;
    for (const auto& entry : std::filesystem::directory_iterator(directory_)) {
      if (!path.empty()) throw std::runtime_error("two spools: " + path + ", " + entry.path().string());
      path = entry.path();
    }
    if (path.empty()) throw std::runtime_error("no spool in " + directory_);
    return SpoolReader(path);
  }

 private:
  std::string directory_;
};

}  // namespace ddl
