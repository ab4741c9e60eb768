// A trace as a stream of bytes, unpacked if it is gzip, and the errors that name a place in it.
//
// One block is in memory at a time. Offsets count unpacked bytes.
#pragma once

#include <zlib.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "core/regular_file.h"

namespace ddl::store {

/// What is wrong with the record at hand. Who reads the file knows where that is.
struct BadRecord {
  std::string what;
};

/// As it lies on the disk; 0 if that cannot be told.
uint64_t file_bytes(const std::filesystem::path& path);

class InputFile {
 public:
  /// `progress`, if any, is told how many bytes of the file were read since last time. Throws Error if the file cannot be opened.
  InputFile(const std::filesystem::path& path, std::function<void(uint64_t bytes)> progress, NamedBy by = NamedBy::kUser);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  /// NUL at the end of the file; traces hold none.
  char peek() {
    if (next_ == end_) fill();
    return next_ == end_ ? '\0' : *next_;
  }
  char take() {
    if (next_ == end_) fill();
    return next_ == end_ ? '\0' : *next_++;
  }
  bool at_end() {
    if (next_ == end_) fill();
    return next_ == end_;
  }
  /// What is in memory of what comes next. A NUL follows, and seven bytes that may be read.
  std::string_view buffered() const { return {next_, static_cast<size_t>(end_ - next_)}; }
  /// Passes over that much of it.
  void skip(size_t bytes) { next_ += bytes; }
  uint64_t offset() const { return block_offset_ + static_cast<uint64_t>(next_ - block_.data()); }

  /// A text between two marks may be kMaxPieceBytes long at most: nobody must hold all of a file that never comes to an end of it.
  void mark() { mark_ = offset(); }

  /// Takes a line without its end; false at the end of the file.
  bool line(std::string& text);

  /// "trace.json.gz, byte 1234: WHAT".
  [[noreturn]] void fail(uint64_t offset, const std::string& what) const;

  static constexpr uint64_t kMaxPieceBytes = 64 << 20;

 private:
  void fill();

  std::filesystem::path path_;
  std::function<void(uint64_t)> progress_;
  gzFile file_;
  std::vector<char> block_;
  const char* next_;
  const char* end_;
  uint64_t block_offset_ = 0;  ///< of the block's first byte
  uint64_t mark_ = 0;
  int64_t reported_ = 0;
};

}  // namespace ddl::store
