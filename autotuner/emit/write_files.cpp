#include "autotuner/emit/write_files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "core/error.h"
#include "core/regular_file.h"

namespace ddl::tune {

namespace fs = std::filesystem;

namespace {

class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return number_; }
  /// Errors of a write may show only here.
  int close() { return ::close(std::exchange(number_, -1)) == 0 ? 0 : errno; }

 private:
  int number_;
};

const char* const kOtherDirectory = "name another directory with -o";

[[noreturn]] void cannot_write(const fs::path& path, int error) {
  throw CannotWrite(fmt::format("cannot write {}: {}", path.string(), std::strerror(error)), kOtherDirectory);
}

int write_aside(int directory, const std::string& name, const std::string& text) {
  Descriptor file(openat(directory, name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666));
  if (file.get() < 0) return errno;
  for (size_t done = 0; done < text.size();) {
    const ssize_t written = write(file.get(), text.data() + done, text.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    if (written == 0) return ENOSPC;
    done += static_cast<size_t>(written);
  }
  if (fsync(file.get()) != 0) return errno;
  return file.close();
}

/// The files beside their places, removed unless they were moved there.
class Asides {
 public:
  explicit Asides(int directory) : directory_(directory) {}
  ~Asides() {
    for (const std::string& name : names_) unlinkat(directory_, name.c_str(), 0);
  }
  Asides(const Asides&) = delete;
  Asides& operator=(const Asides&) = delete;

  int add(const std::string& name, const std::string& text) {
    const std::string aside = fmt::format(".{}.{}", name, getpid());
    unlinkat(directory_, aside.c_str(), 0);  // of an earlier process with our number
    names_.push_back(aside);
    return write_aside(directory_, aside, text);
  }
  int move(size_t index, const std::string& name) const {
    return renameat(directory_, names_[index].c_str(), directory_, name.c_str()) == 0 ? 0 : errno;
  }

 private:
  int directory_;
  std::vector<std::string> names_;
};

}  // namespace

fs::path absolute_directory(const fs::path& directory) {
  fs::path path = fs::absolute(directory).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();
  if (path.string().find_first_of("\n\r") != std::string::npos)
    throw Error("the directory's name has a line break, which config files cannot hold",
                "name another directory with -o");
  return path;
}

void write_files(const fs::path& directory, const std::vector<std::pair<std::string, std::string>>& files) {
  make_folder(directory.string(), kOtherDirectory);
  const Descriptor place(open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (place.get() < 0) cannot_write(directory, errno);

  Asides asides(place.get());
  for (const auto& [name, text] : files) {
    if (const int failed = asides.add(name, text); failed != 0) cannot_write(directory / name, failed);
  }
  for (size_t i = 0; i < files.size(); ++i) {
    if (const int failed = asides.move(i, files[i].first); failed != 0)
      cannot_write(directory / files[i].first, failed);
  }
  fsync(place.get());
}

}  // namespace ddl::tune
