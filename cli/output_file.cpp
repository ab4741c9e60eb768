#include "cli/output_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "cli/terminal.h"
#include "core/error.h"

namespace ddl::cli {
namespace {

// The errno of what failed, 0: nothing did.
int write_to(const std::string& path, int flags, std::string_view text) {
  const int fd = open(path.c_str(), O_WRONLY | O_CLOEXEC | flags, 0666);
  if (fd < 0) return errno;
  int error = 0;
  while (!text.empty() && error == 0) {
    const ssize_t written = write(fd, text.data(), text.size());
    if (written >= 0)
      text.remove_prefix(static_cast<size_t>(written));
    else if (errno != EINTR)
      error = errno;
  }
  if (close(fd) != 0 && error == 0) error = errno;
  return error;
}

}  // namespace

void write_output(const std::string& path, std::string_view text) {
  if (path == "-") {
    print_out(text);
    return;
  }
  struct stat there {};
  int error = 0;
  if (stat(path.c_str(), &there) == 0 && !S_ISREG(there.st_mode)) {
    error = S_ISDIR(there.st_mode) ? EISDIR : write_to(path, 0, text);
  } else {
    std::error_code ignored;
    const std::filesystem::path real = std::filesystem::weakly_canonical(path, ignored);  // through a link, to what it names
    const std::string target = real.empty() ? path : real.string();
    const std::string aside = fmt::format("{}.{}.new", target, getpid());
    error = write_to(aside, O_CREAT | O_EXCL | O_NOFOLLOW, text);
    if (error == 0 && rename(aside.c_str(), target.c_str()) != 0) error = errno;
    if (error != 0 && error != EEXIST) unlink(aside.c_str());
  }
  if (error != 0)
    throw Error(fmt::format("cannot write {}: {}", path, std::strerror(error)),
                error == ENOSPC ? "the disk is full" : "name a file in a folder that you may write to; - is standard output");
}

}  // namespace ddl::cli
