#include "core/regular_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <system_error>
#include <utility>

#include "core/error.h"

namespace ddl {

namespace {

Error unreadable_file(const std::string& path, const std::string& why, std::string hint = {}) {
  return Error("cannot read " + path + ": " + why, std::move(hint), ExitCode::kDataMissing);
}

const char* name_of_kind(mode_t mode) {
  if (S_ISREG(mode)) return "a file";
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISFIFO(mode)) return "a FIFO";
  if (S_ISSOCK(mode)) return "a socket";
  if (S_ISLNK(mode)) return "a symbolic link";
  return "a device";
}

std::string why_not_regular(mode_t mode) {
  return S_ISREG(mode) ? "" : name_of_kind(mode) + std::string(", not a file");
}

/// Whether it is a pipe that has no name in any folder.
bool is_anonymous_pipe(int fd) {
  char text[16] = {};
  const ssize_t length = readlink(("/proc/self/fd/" + std::to_string(fd)).c_str(), text, sizeof text - 1);
  return length > 0 && strncmp(text, "pipe:", 5) == 0;
}

const char* const kHint = "ddl opens regular files only: remove it, or put the file in its place";

}  // namespace

std::string why_no_file(const std::string& path, NamedBy by) {
  struct stat status;
  const int failed = by == NamedBy::kFolder ? lstat(path.c_str(), &status) : stat(path.c_str(), &status);
  if (failed != 0 || (by == NamedBy::kUser && S_ISFIFO(status.st_mode))) return "";
  return why_not_regular(status.st_mode);
}

int open_regular_file(const std::string& path, NamedBy by) {
  // Looked at first: to open a device may do something.
  if (const std::string why = why_no_file(path, by); !why.empty()) throw unreadable_file(path, why, kHint);
  const int fd =
      open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | (by == NamedBy::kFolder ? O_NOFOLLOW : 0));
  if (fd < 0) throw unreadable_file(path, strerror(errno));
  struct stat status;
  std::string why = fstat(fd, &status) != 0 ? strerror(errno) : why_not_regular(status.st_mode);
  if (by == NamedBy::kUser && S_ISFIFO(status.st_mode) && is_anonymous_pipe(fd)) why.clear();
  if (!why.empty()) {
    close(fd);
    throw unreadable_file(path, why, kHint);
  }
  fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);  // a pipe is to be waited for
  return fd;
}

std::string read_regular_file(const std::string& path, NamedBy by, size_t most_bytes) {
  const int fd = open_regular_file(path, by);
  std::string text;
  constexpr size_t kPiece = 64 << 10;
  for (;;) {
    const size_t before = text.size();
    text.resize(before + kPiece);
    const ssize_t got = read(fd, text.data() + before, kPiece);
    const int reason = errno;
    text.resize(before + static_cast<size_t>(got > 0 ? got : 0));
    if (got == 0) break;
    if ((got < 0 && reason != EINTR) || text.size() > most_bytes) {
      close(fd);
      throw unreadable_file(path,
                            got < 0 ? strerror(reason) : "longer than " + std::to_string(most_bytes >> 20) + " MiB");
    }
  }
  close(fd);
  return text;
}

void make_folder(const std::string& path, const std::string& hint, mode_t mode) {
  int failed = mkdir(path.c_str(), mode) == 0 ? 0 : errno;
  if (failed == ENOENT) {
    std::error_code ignored;  // mkdir() says it again
    std::filesystem::create_directories(std::filesystem::path(path).parent_path(), ignored);
    failed = mkdir(path.c_str(), mode) == 0 ? 0 : errno;
  }
  if (failed == 0) return;
  struct stat status;
  if (lstat(path.c_str(), &status) != 0)
    throw CannotWrite("cannot make the folder " + path + ": " + strerror(failed), hint);
  if (!S_ISDIR(status.st_mode))
    throw CannotWrite("cannot use " + path + ": " + name_of_kind(status.st_mode) + ", not a folder", hint);
}

}  // namespace ddl
