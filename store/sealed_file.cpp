#include "store/sealed_file.h"

#include <sqlite3.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <vector>

#include "core/regular_file.h"
#include "store/seal.h"

namespace ddl {

namespace {

std::atomic<uint64_t> damaged = 0;

class SealedFile {
 public:
  /// Throws Error: no regular file, cannot be read.
  explicit SealedFile(const char* path) : fd_(open_regular_file(path, NamedBy::kFolder)) {
    try {
      sealed_ = read_seal(fd_, path, pages_) == Seal::kWhole;
    } catch (...) {
      close(fd_);
      throw;
    }
    page_.resize(pages_.page_bytes);
  }
  ~SealedFile() { close(fd_); }
  SealedFile(const SealedFile&) = delete;
  SealedFile& operator=(const SealedFile&) = delete;

  bool sealed() const { return sealed_; }
  uint64_t bytes() const { return pages_.bytes; }

  /// SQLite reads whole pages, but for a few bytes of the header.
  int read(unsigned char* to, uint64_t count, uint64_t offset) {
    while (count > 0) {
      const uint64_t number = offset / pages_.page_bytes, within = offset % pages_.page_bytes,
                     now = std::min(count, pages_.page_bytes - within);
      if (number >= pages_.sums.size()) {
        memset(to, 0, count);
        return SQLITE_IOERR_SHORT_READ;
      }
      unsigned char* const page = now == pages_.page_bytes ? to : page_.data();
      if (const int failed = read_page(page, number); failed != SQLITE_OK) return failed;
      if (page != to) memcpy(to, page + within, now);
      to += now, offset += now, count -= now;
    }
    return SQLITE_OK;
  }

 private:
  int read_page(unsigned char* to, uint64_t number) {
    if (!read_whole(fd_, to, pages_.page_bytes, number * pages_.page_bytes)) return SQLITE_IOERR_READ;
    if (checksum(to, pages_.page_bytes) == pages_.sums[number]) return SQLITE_OK;
    ++damaged;
    return SQLITE_IOERR_DATA;
  }

  int fd_;
  bool sealed_ = false;
  SealedPages pages_;
  std::vector<unsigned char> page_;
};

/// SQLite allocates it and knows its first member.
struct OpenFile {
  sqlite3_file base;
  SealedFile* file;
};
SealedFile& of(sqlite3_file* file) { return *reinterpret_cast<OpenFile*>(file)->file; }

// With immutable=1 SQLite neither writes nor locks.
const sqlite3_io_methods kMethods = {
    .iVersion = 1,
    .xClose =
        [](sqlite3_file* file) {
          delete &of(file);
          return SQLITE_OK;
        },
    .xRead =
        [](sqlite3_file* file, void* to, int count, sqlite3_int64 offset) {
          return of(file).read(static_cast<unsigned char*>(to), static_cast<uint64_t>(count),
                               static_cast<uint64_t>(offset));
        },
    .xWrite = [](sqlite3_file*, const void*, int, sqlite3_int64) { return SQLITE_READONLY; },
    .xTruncate = [](sqlite3_file*, sqlite3_int64) { return SQLITE_READONLY; },
    .xSync = [](sqlite3_file*, int) { return SQLITE_OK; },
    .xFileSize =
        [](sqlite3_file* file, sqlite3_int64* bytes) {
          *bytes = static_cast<sqlite3_int64>(of(file).bytes());
          return SQLITE_OK;
        },
    .xLock = [](sqlite3_file*, int) { return SQLITE_OK; },
    .xUnlock = [](sqlite3_file*, int) { return SQLITE_OK; },
    .xCheckReservedLock =
        [](sqlite3_file*, int* reserved) {
          *reserved = 0;
          return SQLITE_OK;
        },
    .xFileControl = [](sqlite3_file*, int, void*) { return SQLITE_NOTFOUND; },
    .xSectorSize = [](sqlite3_file*) { return 0; },
    .xDeviceCharacteristics = [](sqlite3_file*) { return SQLITE_IOCAP_IMMUTABLE; },
    .xShmMap = nullptr,
    .xShmLock = nullptr,
    .xShmBarrier = nullptr,
    .xShmUnmap = nullptr,
    .xFetch = nullptr,
    .xUnfetch = nullptr,
};

sqlite3_vfs* plain_files() {
  static sqlite3_vfs* const plain = sqlite3_vfs_find(nullptr);
  return plain;
}

int open_file(sqlite3_vfs*, const char* path, sqlite3_file* file, int flags, int* given) {
  constexpr int kSealed = SQLITE_OPEN_MAIN_DB | SQLITE_OPEN_READONLY;
  if ((flags & kSealed) != kSealed) return plain_files()->xOpen(plain_files(), path, file, flags, given);
  file->pMethods = nullptr;  // nothing to close
  try {
    auto sealed = std::make_unique<SealedFile>(path);
    if (!sealed->sealed()) return SQLITE_CANTOPEN;
    reinterpret_cast<OpenFile*>(file)->file = sealed.release();
  } catch (const std::exception&) {
    return SQLITE_CANTOPEN;
  }
  file->pMethods = &kMethods;
  if (given != nullptr) *given = flags;
  return SQLITE_OK;
}

}  // namespace

const char* sealed_files() {
  // As the default one but for a name and opening: it passes its own data on to what else it does.
  static sqlite3_vfs sealed = [] {
    sqlite3_vfs vfs = *plain_files();
    vfs.zName = "ddl-sealed";
    vfs.szOsFile = std::max(vfs.szOsFile, static_cast<int>(sizeof(OpenFile)));
    vfs.xOpen = open_file;
    return vfs;
  }();
  static const int registered = sqlite3_vfs_register(&sealed, 0);
  return registered == SQLITE_OK ? sealed.zName : nullptr;
}

uint64_t damaged_reads() { return damaged; }

}  // namespace ddl
