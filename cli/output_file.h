// A file that the user asked for, and a folder of them.
#pragma once

#include <deque>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "core/regular_file.h"

namespace ddl::cli {

enum class Readers { kOwner, kAll };  ///< kAll: as far as the umask lets them

/// Written aside and renamed by finish(), so that nobody ever reads half of it, and a full disk or an error leaves the old file. "-" is
/// standard output. What the user named and is no regular file (a pipe, /dev/null) is written to as it is; with a name that we chose it is refused, and
/// a link as well. All but the destructor throw ddl::Error.
class OutputFile {
 public:
  explicit OutputFile(const std::string& path, Readers readers = Readers::kOwner, NamedBy by = NamedBy::kUser);
  ~OutputFile();  ///< without finish(): as if nothing had been written
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void write(std::string_view text);
  void finish();

 private:
  friend class OutputFolder;
  void close();
  bool place();  ///< gives it its name; true: nothing had that name before
  [[noreturn]] void fail(int error) const;

  std::string path_, target_;
  std::string aside_;  ///< empty: nothing is to be renamed, or removed
  int fd_ = -1;        ///< -1: standard output, or finished
};

/// The folders of a path that were not there. Those that are still empty go with it, unless it is told to keep them. Throws ddl::Error.
class MadeFolders {
 public:
  explicit MadeFolders(const std::filesystem::path& path);
  ~MadeFolders();
  MadeFolders(const MadeFolders&) = delete;
  MadeFolders& operator=(const MadeFolders&) = delete;

  void keep() { made_.clear(); }

 private:
  void remove() const;

  std::vector<std::filesystem::path> made_;  ///< the innermost first
};

/// Several files in a folder, which is made if it is not there. They get their names at the end, all or none: who finds one has the others, too.
/// All but the destructor throw ddl::Error.
class OutputFolder {
 public:
  explicit OutputFolder(const std::string& path, Readers readers = Readers::kOwner);
  ~OutputFolder();  ///< without finish(): as if nothing had been written, but that a file which was there may be the new one
  OutputFolder(const OutputFolder&) = delete;
  OutputFolder& operator=(const OutputFolder&) = delete;

  /// To be written until the next one is added.
  OutputFile& add(const std::string& name);
  void finish();

 private:
  std::filesystem::path path_;
  Readers readers_;
  MadeFolders folders_;  ///< before what lies in them, which goes first
  std::deque<OutputFile> files_;
  std::vector<std::string> new_;  ///< placed, where nothing was before
};

/// All of `text` as one OutputFile.
void write_output(const std::string& path, std::string_view text, Readers readers = Readers::kOwner, NamedBy by = NamedBy::kUser);

}  // namespace ddl::cli
