// A file that the user asked for.
#pragma once

#include <string>
#include <string_view>

namespace ddl::cli {

enum class Readers { kOwner, kAll };  ///< kAll: as far as the umask lets them

/// Written aside and renamed by finish(), so that nobody ever reads half of it, and a full disk or an error leaves the old file. "-" is
/// standard output; what is not a regular file (a pipe, /dev/null) is written to as it is. All but the destructor throw ddl::Error.
class OutputFile {
 public:
  explicit OutputFile(const std::string& path, Readers readers = Readers::kOwner);
  ~OutputFile();  ///< without finish(): as if nothing had been written
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void write(std::string_view text);
  void finish();

 private:
  [[noreturn]] void fail(int error) const;

  std::string path_, target_;
  std::string aside_;  ///< empty: nothing is to be renamed, or removed
  int fd_ = -1;        ///< -1: standard output, or finished
};

/// All of `text` as one OutputFile.
void write_output(const std::string& path, std::string_view text, Readers readers = Readers::kOwner);

}  // namespace ddl::cli
