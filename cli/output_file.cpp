#include "cli/output_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "cli/interrupts.h"
#include "cli/terminal.h"
#include "core/error.h"

namespace ddl::cli {

OutputFile::OutputFile(const std::string& path, Readers readers, NamedBy by) : path_(path) {
  if (path == "-") return;
  if (by == NamedBy::kFolder) {
    if (const std::string why = why_no_file(path, by); !why.empty())
      throw Error(fmt::format("cannot write {}: {}", path, why),
                  "ddl replaces regular files only: remove it, or name another folder");
  }
  struct stat there {};
  if (stat(path.c_str(), &there) == 0 && !S_ISREG(there.st_mode)) {
    if (S_ISDIR(there.st_mode)) fail(EISDIR);
    fd_ = open(path.c_str(), O_WRONLY | O_CLOEXEC);
  } else {
    std::error_code ignored;
    // through a link, to what it names
    const std::filesystem::path real = std::filesystem::weakly_canonical(path, ignored);
    target_ = real.empty() ? path : real.string();
    const std::string aside = fmt::format("{}.{}.new", target_, getpid());
    fd_ = open(aside.c_str(), O_WRONLY | O_CLOEXEC | O_CREAT | O_EXCL | O_NOFOLLOW,
               readers == Readers::kAll ? 0666 : 0600);
    if (fd_ >= 0) aside_ = aside;
  }
  if (fd_ < 0) fail(errno);
}

OutputFile::~OutputFile() {
  if (fd_ >= 0) ::close(fd_);
  if (!aside_.empty()) unlink(aside_.c_str());
}

void OutputFile::write(std::string_view text) {
  if (path_ == "-") return print_out(text);
  while (!text.empty()) {
    const ssize_t written = ::write(fd_, text.data(), text.size());
    if (written >= 0)
      text.remove_prefix(static_cast<size_t>(written));
    else if (errno != EINTR)
      fail(errno);
    else
      Interrupts::check();  // the reader of a pipe may never read on
  }
}

void OutputFile::close() {
  const int fd = fd_;
  fd_ = -1;
  if (fd >= 0 && ::close(fd) != 0) fail(errno);
}

bool OutputFile::place() {
  if (aside_.empty()) return false;
  struct stat there {};
  const bool is_new = stat(target_.c_str(), &there) != 0;
  if (rename(aside_.c_str(), target_.c_str()) != 0) fail(errno);
  aside_.clear();
  return is_new;
}

void OutputFile::finish() {
  close();
  place();
}

void OutputFile::fail(int error) const {
  throw Error(
      fmt::format("cannot write {}: {}", path_, std::strerror(error)),
      error == ENOSPC ? "the disk is full" : "name a file in a folder that you may write to; - is standard output");
}

MadeFolders::MadeFolders(const std::filesystem::path& path) {
  std::error_code error;
  for (std::filesystem::path at = path; !at.empty() && !std::filesystem::exists(at, error); at = at.parent_path())
    made_.push_back(at);
  std::filesystem::create_directories(path, error);
  std::error_code not_seen;
  if (std::filesystem::is_directory(path, not_seen)) return;
  remove();
  if (!error) error = not_seen;
  throw Error(fmt::format("cannot make the folder {}{}", path.string(), error ? ": " + error.message() : ""),
              "several files go into a folder: name one that may be made, or is there");
}

MadeFolders::~MadeFolders() { remove(); }

void MadeFolders::remove() const {
  for (const std::filesystem::path& folder : made_) rmdir(folder.c_str());
}

OutputFolder::OutputFolder(const std::string& path, Readers readers)
    : path_(path), readers_(readers), folders_(path_) {}

OutputFolder::~OutputFolder() {
  for (const std::string& file : new_) unlink(file.c_str());
}

OutputFile& OutputFolder::add(const std::string& name) {
  if (!files_.empty()) files_.back().close();
  return files_.emplace_back((path_ / name).string(), readers_, NamedBy::kFolder);
}

void OutputFolder::finish() {
  if (!files_.empty()) files_.back().close();
  for (OutputFile& file : files_)
    if (file.place()) new_.push_back(file.target_);
  new_.clear();
  folders_.keep();
}

void write_output(const std::string& path, std::string_view text, Readers readers, NamedBy by) {
  OutputFile file(path, readers, by);
  file.write(text);
  file.finish();
}

}  // namespace ddl::cli
