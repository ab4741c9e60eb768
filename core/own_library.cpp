#include "core/own_library.h"

#include <unistd.h>

#include <string>
#include <system_error>

namespace ddl {

std::filesystem::path own_library(std::string_view name) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path lib = fs::read_symlink("/proc/self/exe", error).parent_path().parent_path() / "lib";
  const fs::path installed = lib / "ddl" / name;
  return fs::is_regular_file(installed, error) ? installed : lib / name;
}

std::filesystem::path own_program() {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path path = fs::read_symlink("/proc/self/exe", error);
  // The kernel adds " (deleted)" to the name, and still knows the file. Not self: the path may be opened by a child.
  return fs::exists(path, error) ? path : fs::path("/proc/" + std::to_string(getpid()) + "/exe");
}

}  // namespace ddl
