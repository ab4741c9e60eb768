// The directory of a new run: private, fresh, and ours.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "core/error.h"

namespace ddl::cli {

/// Removed with this object, unless keep() was called, it is not empty, or it existed before.
class NewRun {
 public:
  /// Makes `name` (mode 0700), or takes it over if it is an empty directory of ours. "" =
  /// program-YYYYmmdd-HHMMSS.ddl after `command`, made unique. Throws ddl::Error: kUsage when something is there
  /// already, `cannot_make` if it cannot be made.
  NewRun(const std::string& name, const std::vector<std::string>& command, ExitCode cannot_make);
  ~NewRun();
  NewRun(const NewRun&) = delete;
  NewRun& operator=(const NewRun&) = delete;

  const std::filesystem::path& path() const { return path_; }  ///< absolute
  void keep() { ours_ = false; }

 private:
  std::filesystem::path path_;
  bool ours_ = false;  ///< to be removed
};

}  // namespace ddl::cli
