#include "core/own_library.h"

#include <system_error>

namespace ddl {

std::filesystem::path own_library(std::string_view name) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path lib = fs::read_symlink("/proc/self/exe", error).parent_path().parent_path() / "lib";
  const fs::path installed = lib / "ddl" / name;
  return fs::is_regular_file(installed, error) ? installed : lib / name;
}

}  // namespace ddl
