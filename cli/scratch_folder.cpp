#include "cli/scratch_folder.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "core/error.h"

namespace ddl::cli {

ScratchFolder::ScratchFolder() {
  const char* place = std::getenv("TMPDIR");
  std::string name = fmt::format("{}/ddl-XXXXXX", place != nullptr && *place != '\0' ? place : "/tmp");
  if (mkdtemp(name.data()) == nullptr)
    throw CannotWrite(fmt::format("cannot make {}: {}", name, std::strerror(errno)), "set TMPDIR to a place with room");
  path_ = name;
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace ddl::cli
