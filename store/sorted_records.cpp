#include "store/sorted_records.h"

#include <errno.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <string.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "core/error.h"

namespace ddl::store {

namespace {

std::string temporary_folder() {
  for (const char* variable : {"SQLITE_TMPDIR", "TMPDIR"}) {
    const char* folder = std::getenv(variable);
    if (folder != nullptr && *folder != '\0' && access(folder, W_OK | X_OK) == 0) return folder;
  }
  return access("/var/tmp", W_OK | X_OK) == 0 ? "/var/tmp" : "/tmp";
}

[[noreturn]] void fail(const char* what, int reason) {
  throw CannotWrite(fmt::format("{} {}: {}", what, temporary_folder(), strerror(reason)),
                    "name another folder in TMPDIR");
}

}  // namespace

TemporaryFile::~TemporaryFile() {
  if (fd_ >= 0) close(fd_);
}

void TemporaryFile::append(const void* bytes, size_t count) {
  if (fd_ < 0) {
    std::string name = temporary_folder() + "/ddl-sort-XXXXXX";
    fd_ = mkostemp(name.data(), O_CLOEXEC);
    if (fd_ < 0) fail("cannot make a file in", errno);
    unlink(name.c_str());
  }
  for (const char* from = static_cast<const char*>(bytes); count > 0;) {
    const ssize_t written = write(fd_, from, count);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail("cannot write to a file in", errno);
    from += written;
    count -= static_cast<size_t>(written);
  }
}

void TemporaryFile::read(uint64_t offset, void* bytes, size_t count) const {
  for (char* to = static_cast<char*>(bytes); count > 0;) {
    const ssize_t got = pread(fd_, to, count, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) fail("cannot read a file in", got < 0 ? errno : EIO);
    to += got;
    offset += static_cast<uint64_t>(got);
    count -= static_cast<size_t>(got);
  }
}

}  // namespace ddl::store
