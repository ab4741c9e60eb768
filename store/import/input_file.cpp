#include "store/import/input_file.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace ddl::store {

namespace {

constexpr size_t kBlockBytes = 256 << 10;
constexpr size_t kBehindBlock = 8;  // buffered()

Error cannot_read(const std::filesystem::path& path, const char* why) {
  return Error(fmt::format("cannot read {}: {}", path.string(), why), "", ExitCode::kDataMissing);
}

}  // namespace

uint64_t file_bytes(const std::filesystem::path& path) {
  std::error_code error;
  const std::uintmax_t bytes = std::filesystem::file_size(path, error);
  return error ? 0 : bytes;
}

InputFile::InputFile(const std::filesystem::path& path, std::function<void(uint64_t)> progress, NamedBy by)
    : path_(path),
      progress_(std::move(progress)),
      block_(kBlockBytes + kBehindBlock),
      next_(block_.data()),
      end_(block_.data()) {
  const int fd = open_regular_file(path.string(), by);
  file_ = gzdopen(fd, "rb");  // reads what is not packed as it is
  if (file_ == nullptr) {
    close(fd);
    throw cannot_read(path, "out of memory");
  }
  gzbuffer(file_, kBlockBytes);
}

InputFile::~InputFile() { gzclose(file_); }

void InputFile::fill() {
  block_offset_ = offset();
  const int bytes = gzread(file_, block_.data(), kBlockBytes);
  next_ = block_.data();
  end_ = next_ + (bytes > 0 ? bytes : 0);
  block_[static_cast<size_t>(end_ - next_)] = '\0';
  if (bytes < static_cast<int>(kBlockBytes)) {
    int code = Z_OK;
    const char* why = gzerror(file_, &code);
    if (code == Z_ERRNO) throw cannot_read(path_, std::strerror(errno));
    if (code != Z_OK && code != Z_STREAM_END && bytes <= 0)
      fail(block_offset_,
           code == Z_BUF_ERROR ? "the gzip file is truncated" : fmt::format("cannot be unpacked: {}", why));
  }
  if (progress_) {
    const int64_t place = gzoffset(file_);
    // a pipe knows no places
    const int64_t read = place >= 0 ? place : static_cast<int64_t>(block_offset_) + std::max(0, bytes);
    if (progress_ && read > reported_) progress_(static_cast<uint64_t>(read - reported_));
    reported_ = std::max<int64_t>(read, reported_);
  }
  if (block_offset_ > mark_ + kMaxPieceBytes)
    fail(mark_, fmt::format("the record that begins here is longer than {} MiB: not a trace of this format",
                            kMaxPieceBytes >> 20));
}

bool InputFile::line(std::string& text) {
  text.clear();
  if (at_end()) return false;
  mark();
  while (!at_end()) {
    const void* found = std::memchr(next_, '\n', static_cast<size_t>(end_ - next_));
    const char* stop = found ? static_cast<const char*>(found) : end_;
    text.append(next_, stop);
    next_ = stop;
    if (found) {
      ++next_;
      break;
    }
  }
  if (text.ends_with('\r')) text.pop_back();
  return true;
}

void InputFile::fail(uint64_t offset, const std::string& what) const {
  throw Error(fmt::format("{}, byte {}: {}", path_.string(), offset, what),
              "check that the file is complete and of this format: ddl import --help", ExitCode::kDataMissing);
}

}  // namespace ddl::store
