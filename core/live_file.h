// What another host may see of a running process: a second, small file in the format of the spool, NAME.live beside
// NAME.spool, written with pwrite and nothing else. Injected code.
//
// The spool is mapped, and when stores into a mapped page reach other hosts is up to the kernel: on NFS half a minute
// later, page by page. So where the run directory lies on a file system that other hosts read, the newest records are
// also written here about once a second (of activity: there is no thread of our own, and a process that sits in a call
// writes nothing). Each time the file is opened, written and closed, which is what makes NFS send it; no descriptor is
// kept (docs/decisions/0004). docs/decisions/0016 has what was rejected.
//
// What is in it: the header page, all descriptions, and per thread a ring of its newest records, so it does not grow
// with the run. Records that a ring of another thread holds are missing until that thread comes by itself; a call that
// makes further recorded calls is missing where its chunk of the log ends before it does. What cannot be written ends
// the file for good: a reader sees it grow old.
#pragma once

#include <stdint.h>

#include "core/format.h"

namespace ddl {

/// In the FileHeader::loss of a live file: records of rings that were gone before they could be written here.
constexpr uint32_t kLossLive = kLossSlots - 1;
static_assert(kLossLive >= kLossKindCount);

class LiveFile {
 public:
  /// On from here, if `spool_fd` (open, at `spool_path`) lies on a file system that other hosts read.
  void begin(const char* spool_path, int spool_fd);
  bool is_on() const { return on_; }
  /// In a forked child, and when something went wrong.
  void end() { on_ = false; }

  /// One writer at a time, between the two. False: it is over.
  bool open();
  void close();
  /// False: it is over.
  bool write(uint64_t offset, const void* bytes, uint64_t count);
  /// Makes room for a chunk behind all others and writes its header, which gets its number; 0: it is over.
  uint64_t add_chunk(ChunkHeader* header);

 private:
  bool on_ = false;
  int fd_ = -1;
  uint64_t inode_ = 0;
  uint64_t device_ = 0;
  uint64_t next_offset_ = 0;
  uint64_t next_index_ = 0;
  char path_[4096] = {};
};

}  // namespace ddl
