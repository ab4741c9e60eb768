#include "cli/new_run.h"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>

#include "cli/job_file.h"
#include "core/spool_file.h"

namespace fs = std::filesystem;

namespace ddl::cli {
namespace {

// Only letters that need no quoting in a shell.
std::string default_name(const std::vector<std::string>& command) {
  std::string program = program_name(command).substr(0, 64);
  for (char& c : program)
    if (!(isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' || c == '-')) c = '_';
  if (program[0] == '-' || program[0] == '.') program[0] = '_';
  return fmt::format("{}-{:%Y%m%d-%H%M%S}", program, fmt::localtime(std::time(nullptr)));
}

// An empty directory of ours may be used: mktemp -d makes them.
bool take_over(const fs::path& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  struct stat status {};
  std::error_code error;
  const bool usable = fd >= 0 && fstat(fd, &status) == 0 && status.st_uid == geteuid() && fs::is_empty(path, error) &&
                      !error && fchmod(fd, 0700) == 0;
  if (fd >= 0) close(fd);
  return usable;
}

}  // namespace

NewRun::NewRun(const std::string& name, const std::vector<std::string>& command, ExitCode cannot_make) {
  const std::string base = default_name(command);
  for (int number = 1;; ++number) {
    const std::string chosen = !name.empty() ? name
                               : number == 1 ? base + ".ddl"
                                             : fmt::format("{}-{}.ddl", base, number);
    path_ = fs::absolute(chosen).lexically_normal();
    if (!path_.has_filename()) path_ = path_.parent_path();  // a trailing slash
    if (path_.string().size() > kMostDirectoryBytes)
      throw Error(fmt::format("the run directory's name has {} bytes, more than {}", path_.string().size(),
                              kMostDirectoryBytes),
                  "choose a shorter path: -o /tmp/NAME.ddl", ExitCode::kUsage);
    ours_ = mkdir(path_.c_str(), 0700) == 0;
    if (ours_) return;
    const int error = errno;
    if (error == EEXIST && name.empty() && number < 1000) continue;
    if (error == EEXIST && take_over(path_)) return;
    if (error == EEXIST)
      throw Error(fmt::format("{} exists already", chosen),
                  "choose another -o NAME.ddl, or remove it: a run is never overwritten", ExitCode::kUsage);
    throw Error(fmt::format("cannot create {}: {}", chosen, std::strerror(error)),
                "name a folder that you can write: -o FOLDER/NAME.ddl", cannot_make);
  }
}

NewRun::~NewRun() {
  std::error_code ignored;
  if (ours_) fs::remove(path_, ignored);  // only if it is empty
}

}  // namespace ddl::cli
