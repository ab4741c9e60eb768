#include "store/seal.h"

#include <errno.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <system_error>
#include <thread>
#include <vector>

#include "core/error.h"
#include "core/regular_file.h"

namespace ddl {

namespace {

constexpr char kSealMagic[9] = "ddlseal2";
constexpr size_t kBlockBytes = 256 << 10;    // stays in the cache of a core
constexpr uint64_t kBlocksWorthAThread = 8;  // a thread costs a tenth of a millisecond
constexpr unsigned kMostThreads = 4;
constexpr size_t kHeaderBytes = 100;  // of an SQLite file

__extension__ using Product = unsigned __int128;
/// Both halves of the product: a changed bit of either factor changes bits above it in one, and below it in the other.
uint64_t folded(uint64_t a, uint64_t b) {
  const Product product = static_cast<Product>(a) * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}
uint64_t word(const unsigned char* at) {
  uint64_t value;
  memcpy(&value, at, sizeof value);
  return value;
}
/// Digits of pi: what they are does not matter, but that no two are alike.
constexpr uint64_t kDigits[] = {0x243F6A8885A308D3, 0x13198A2E03707344, 0xA4093822299F31D0, 0x082EFA98EC4E6C89};

struct SealText {
  char magic[8];
  uint64_t page_bytes;
  uint64_t checksum;
};
static_assert(sizeof(SealText) == kSealBytes);
static_assert(std::endian::native == std::endian::little);

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int operator*() const { return fd_; }

 private:
  int fd_;
};

/// False: the file ends earlier, or cannot be read.
bool read_whole(int fd, void* to, size_t bytes, uint64_t offset) {
  for (size_t done = 0; done < bytes;) {
    const ssize_t got = pread(fd, static_cast<char*>(to) + done, bytes - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    done += static_cast<size_t>(got);
  }
  return true;
}

/// The checksum of the checksums of blocks, which several threads compute: of what lies in memory already, reading takes as long as
/// computing. False: the file ends earlier, or cannot be read.
bool checksum_of(int fd, uint64_t bytes, uint64_t& value) {
  constexpr size_t kValuesOfPiece = Checksum::kPieceBytes / sizeof(uint64_t);
  const uint64_t blocks = (bytes + kBlockBytes - 1) / kBlockBytes;
  std::vector<uint64_t> values((blocks + kValuesOfPiece - 1) / kValuesOfPiece * kValuesOfPiece);
  std::atomic<uint64_t> next = 0;
  std::atomic<bool> good = true;
  const auto work = [&] {
    std::vector<unsigned char> block(kBlockBytes);
    for (uint64_t i = 0; good && (i = next++) < blocks;) {
      const size_t count = static_cast<size_t>(std::min<uint64_t>(kBlockBytes, bytes - i * kBlockBytes));
      if (!read_whole(fd, block.data(), count, i * kBlockBytes)) good = false;
      Checksum sum;
      sum.add(block.data(), count);
      values[i] = sum.value();
    }
  };
  const uint64_t most = std::min<uint64_t>(blocks / kBlocksWorthAThread, std::min(std::thread::hardware_concurrency(), kMostThreads));
  std::vector<std::thread> helpers;
  try {
    for (uint64_t i = 1; i < most; ++i) helpers.emplace_back(work);
  } catch (const std::system_error&) {  // no more threads for this user: with those that there are
  }
  work();
  for (std::thread& helper : helpers) helper.join();
  Checksum sum;
  sum.add(reinterpret_cast<const unsigned char*>(values.data()), values.size() * sizeof values[0]);
  value = sum.value() ^ bytes;
  return good;
}

uint64_t big_endian(const unsigned char* bytes, size_t count) {
  uint64_t value = 0;
  for (size_t i = 0; i < count; ++i) value = value << 8 | bytes[i];
  return value;
}

/// Size of all pages by the header's word; 0: no SQLite file.
uint64_t page_bytes(int fd) {
  unsigned char header[kHeaderBytes];
  if (!read_whole(fd, header, sizeof header, 0) || memcmp(header, "SQLite format 3", 16) != 0) return 0;
  const uint64_t page = big_endian(header + 16, 2);
  return (page == 1 ? 65536 : page) * big_endian(header + 28, 4);
}

}  // namespace

void Checksum::add(const unsigned char* bytes, size_t count) {
  // Lanes by name, and words where they lie: arrays would go through the stack, which is half of the instructions.
  uint64_t a = lanes_[0], b = lanes_[1], c = lanes_[2], d = lanes_[3];
  for (const unsigned char* const end = bytes + count / kPieceBytes * kPieceBytes; bytes != end; bytes += kPieceBytes) {
    a = folded(word(bytes) ^ a, word(bytes + 8) ^ kDigits[0]);
    b = folded(word(bytes + 16) ^ b, word(bytes + 24) ^ kDigits[1]);
    c = folded(word(bytes + 32) ^ c, word(bytes + 40) ^ kDigits[2]);
    d = folded(word(bytes + 48) ^ d, word(bytes + 56) ^ kDigits[3]);
  }
  lanes_[0] = a, lanes_[1] = b, lanes_[2] = c, lanes_[3] = d;
  bytes_ += count;
}

uint64_t Checksum::value() const {
  uint64_t value = bytes_;
  for (size_t i = 0; i < kLanes; ++i) value = folded(value ^ lanes_[i], kDigits[i] | 1);
  return value;
}

Seal check_seal(const std::filesystem::path& path) {
  const Descriptor file(open_regular_file(path.string(), NamedBy::kFolder));
  struct stat status;
  SealText seal;
  if (fstat(*file, &status) != 0 || status.st_size < static_cast<off_t>(kSealBytes)) return Seal::kNone;
  const uint64_t bytes = static_cast<uint64_t>(status.st_size) - kSealBytes;
  if (!read_whole(*file, &seal, sizeof seal, bytes)) {
    throw Error(fmt::format("cannot read {}: {}", path.string(), strerror(errno)), "", ExitCode::kDataMissing);
  }
  if (memcmp(seal.magic, kSealMagic, sizeof seal.magic) != 0) return Seal::kNone;
  uint64_t found = 0;
  const bool whole =
      seal.page_bytes == bytes && bytes % Checksum::kPieceBytes == 0 && checksum_of(*file, bytes, found) && found == seal.checksum;
  return whole ? Seal::kWhole : Seal::kBroken;
}

void seal_store(const std::filesystem::path& path) {
  const auto cannot = [&] { return CannotWrite(fmt::format("cannot write {}: {}", path.string(), strerror(errno))); };
  const Descriptor file(open(path.c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (*file < 0) throw cannot();
  SealText seal = {};
  memcpy(seal.magic, kSealMagic, sizeof seal.magic);
  seal.page_bytes = page_bytes(*file);
  errno = EIO;
  if (seal.page_bytes == 0 || ftruncate(*file, static_cast<off_t>(seal.page_bytes)) != 0) throw cannot();
  if (!checksum_of(*file, seal.page_bytes, seal.checksum)) throw cannot();
  const ssize_t written = pwrite(*file, &seal, sizeof seal, static_cast<off_t>(seal.page_bytes));
  if (written >= 0 && written != static_cast<ssize_t>(sizeof seal)) errno = ENOSPC;
  if (written != static_cast<ssize_t>(sizeof seal)) throw cannot();
}

}  // namespace ddl
