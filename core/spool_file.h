// The file of a process's record: made once, grown chunk by chunk. Injected code.
//
// Keeps no file descriptor: a job that closes "all descriptors" would otherwise make us grow the next file it opens.
// Each growth opens the file again and checks that it is still ours. Every function preserves errno.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "core/format.h"
#include "core/live_file.h"

namespace ddl {

/// Longest absolute name of a run directory: the rest of PATH_MAX is for the names of the files in it.
constexpr size_t kMostDirectoryBytes = 3800;

class SpoolFile {
 public:
  /// Makes the run directory `directory` (0700) if it is absent and in it <host>.<pid>.<process_start>.spool (0600,
  /// O_EXCL, no symlinks). A `directory` that is a symbolic link is refused: whoever may write beside it could lead
  /// the record elsewhere. False: nothing was made; `why()` and `error()` say it. The header is filled except for
  /// what the caller knows.
  bool create(const char* directory, ClockKind clock);

  /// A zeroed, mapped chunk of at most `bytes`, set to its actual size; NULL when the file cannot grow (disk full,
  /// RLIMIT_FSIZE, directory gone). Any thread; the caller serialises.
  ChunkHeader* add_chunk(ChunkKind kind, uint32_t* bytes, uint32_t thread);
  static void unmap(ChunkHeader* chunk);
  /// Starts `live` beside it, on a file system that other hosts read.
  void begin_live(LiveFile* live);

  /// In a forked child: forget the file. The parent's mappings are not inherited (MADV_DONTFORK), so there
  /// is nothing to undo.
  void forget() { header_ = nullptr; }

  FileHeader* header() const { return header_; }
  /// The header's substitute should its page be lost: a copy of its present content. The caller serialises.
  void keep_header();
  const char* why() const { return why_; }  ///< in a few words
  int error() const { return error_; }      ///< errno of the last failure; 0: `why` is complete

 private:
  bool make_directory(const char* directory);
  int make_file(const char* directory, const char* host, uint64_t start);
  int open_again();

  FileHeader* header_ = nullptr;
  FileHeader kept_ = {};
  uint64_t file_bytes_ = 0;
  uint64_t next_index_ = 0;
  uint64_t inode_ = 0;
  uint64_t device_ = 0;
  const char* why_ = "";
  int error_ = 0;
  char path_[4096] = {};
};

/// Duplicates the file under a number above 2: a program that closed its standard streams may have a thread that
/// still prints to them.
int above_standard_streams(int fd);

/// Field 22 of /proc/self/stat; 0 if unreadable.
uint64_t process_start_time();

}  // namespace ddl
