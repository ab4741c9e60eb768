// A folder for what nobody keeps.
#pragma once

#include <filesystem>

namespace ddl::cli {

/// Made in $TMPDIR, private, gone with this object. What is open in it stays readable. Throws CannotWrite.
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
