// A temporary folder.
#pragma once

#include <filesystem>

namespace ddl::cli {

/// Private, in $TMPDIR, removed with this object; open files in it stay readable. Throws CannotWrite.
class ScratchFolder {
 public:
  ScratchFolder();
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace ddl::cli
