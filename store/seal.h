// The seal behind the last page of a finished store: a checksum of each page, and one of these. A store never changes
// once it has its name, so one that differs from its seal was damaged or written by another program, and its content
// cannot be relied on. SQLite reads as many pages as its header says and ignores the seal.
//
//   checksum of each page   "ddlseal3"   bytes of the pages   bytes of one   checksum of these two and the checksums        8 bytes each, little-endian
//
// So a store can be verified as a whole, or page by page as it is read (store/sealed_file.h): a page of another run, or
// of another place, differs from the seal as well.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <vector>

namespace ddl {

enum class Seal {
  kWhole,   ///< the content is as sealed
  kBroken,  ///< the content has changed
  kNone     ///< not sealed: not finished, cut, grown by another program, or no store
};

struct SealedPages {
  uint64_t bytes = 0;       ///< of all pages
  uint64_t page_bytes = 0;  ///< of one
  std::vector<uint64_t> sums;
};

/// The seal alone, of a file that is open: where that is kWhole, `pages` is what was sealed. Throws Error
/// (kDataMissing): cannot be read.
Seal read_seal(int fd, const std::filesystem::path& path, SealedPages& pages);

/// Reads the whole file. Throws Error (kDataMissing): not a regular file, cannot be read.
Seal check_seal(const std::filesystem::path& path);

/// Looks at the seal alone. Throws as check_seal().
Seal glance_at_seal(const std::filesystem::path& path);

/// Seals a store that no process has open, in place of an earlier seal. Throws CannotWrite.
void seal_store(const std::filesystem::path& path);

/// pread() of all of it. False: the file ends earlier, or cannot be read.
bool read_whole(int fd, void* to, size_t bytes, uint64_t offset);

/// 64 bits, of bytes whose number is a multiple of kPieceBytes. A change goes unnoticed with probability 2^-64.
uint64_t checksum(const unsigned char* bytes, size_t count);
constexpr size_t kPieceBytes = 64;

}  // namespace ddl
