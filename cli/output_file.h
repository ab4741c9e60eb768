// An output file that the user named, and a folder of them.
#pragma once

#include <deque>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "core/regular_file.h"

namespace ddl::cli {

enum class Readers { kOwner, kAll };  ///< kAll: as the umask permits

/// Written aside and renamed by finish(), so that nobody reads half a file, and a full disk or an error leaves the old
/// one. "-" is standard output. If the name is the user's, a special file (a pipe, /dev/null) is written directly; if
/// it is ours, special files and links are refused. All but the destructor throw ddl::Error.
class OutputFile {
 public:
  explicit OutputFile(const std::string& path, Readers readers = Readers::kOwner, NamedBy by = NamedBy::kUser);
  ~OutputFile();  ///< without finish(): discards everything
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void write(std::string_view text);
  void finish();

 private:
  friend class OutputFolder;
  void close();
  bool place();  ///< renames it; true: the name was free before
  [[noreturn]] void fail(int error) const;

  std::string path_, target_;
  std::string aside_;  ///< empty: nothing to rename or remove
  int fd_ = -1;        ///< -1: standard output, or finished
};

/// The folders of a path that were missing. Those still empty are removed with it, unless told to keep them.
/// Throws ddl::Error.
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

/// Several files in a folder, which is made if missing. They are renamed at the end, all or none: whoever finds one has
/// the others. All but the destructor throw ddl::Error.
class OutputFolder {
 public:
  explicit OutputFolder(const std::string& path, Readers readers = Readers::kOwner);
  ~OutputFolder();  ///< without finish(): discards everything, except that a replaced file may already be the new one
  OutputFolder(const OutputFolder&) = delete;
  OutputFolder& operator=(const OutputFolder&) = delete;

  /// The file to write, until the next add().
  OutputFile& add(const std::string& name);
  void finish();

 private:
  std::filesystem::path path_;
  Readers readers_;
  MadeFolders folders_;  ///< declared before its contents, which go first
  std::deque<OutputFile> files_;
  std::vector<std::string> new_;  ///< renamed to free names
};

/// Writes `text` as one OutputFile.
void write_output(const std::string& path, std::string_view text, Readers readers = Readers::kOwner,
                  NamedBy by = NamedBy::kUser);

}  // namespace ddl::cli
