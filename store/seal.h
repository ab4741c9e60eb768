// What stands behind the last page of a store that is finished: a checksum over all its bytes. A store never changes once it has its name,
// so one that differs from its seal was damaged or written by somebody else, and nothing in it can be relied on. SQLite reads as many pages
// as its header says and passes the seal over.
//
//   "ddlseal2"   bytes of the pages   checksum        8 bytes each, little-endian
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>

namespace ddl {

constexpr size_t kSealBytes = 24;

enum class Seal {
  kWhole,   ///< the content is what it was when it was sealed
  kBroken,  ///< it is not
  kNone     ///< not sealed: not finished, cut, grown by another program, or no store
};

/// Reads the whole file. Throws Error (kDataMissing): not a regular file, cannot be read.
Seal check_seal(const std::filesystem::path& path);

/// Seals a store that nobody has open, in place of an earlier seal. Throws CannotWrite.
void seal_store(const std::filesystem::path& path);

/// 64 bits, of bytes that come in pieces of a multiple of kPieceBytes. Any change changes them, but for one in 2^64. A seal has that of the checksums of
/// all blocks of 256 KiB, with the size.
class Checksum {
 public:
  static constexpr size_t kPieceBytes = 64;
  void add(const unsigned char* bytes, size_t count);
  uint64_t value() const;

 private:
  static constexpr size_t kLanes = 4;  ///< independent of each other: a core multiplies one a cycle
  uint64_t lanes_[kLanes] = {1, 2, 3, 4};
  uint64_t bytes_ = 0;
};

}  // namespace ddl
