// A trace as a stream of bytes, gunzipped if needed, and errors that name a place in it.
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

/// An error in the present record; the reader of the file adds the place.
struct BadRecord {
  std::string what;
};

/// The size on disk; 0: unknown.
uint64_t file_bytes(const std::filesystem::path& path);

class InputFile {
 public:
  /// `progress`, if set, gets the bytes of the file read since last time. Throws Error if the file cannot be opened.
  InputFile(const std::filesystem::path& path, std::function<void(uint64_t bytes)> progress,
            NamedBy by = NamedBy::kUser);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  /// NUL at the end of the file; traces contain none.
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
  /// The buffered part of what comes next. A NUL and seven readable bytes follow.
  std::string_view buffered() const { return {next_, static_cast<size_t>(end_ - next_)}; }
  /// Skips that much of it.
  void skip(size_t bytes) { next_ += bytes; }
  uint64_t offset() const { return block_offset_ + static_cast<uint64_t>(next_ - block_.data()); }

  /// A text between two marks is at most kMaxPieceBytes long, so that no file must be held whole.
  void mark() { mark_ = offset(); }

  /// Takes a line without its line break; false at the end of the file.
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
