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
#include <utility>

#include "core/error.h"
#include "core/regular_file.h"

namespace ddl {

namespace {

constexpr char kSealMagic[9] = "ddlseal3";
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
/// Digits of pi: what they are does not matter, but that no two are alike, and that no page holds them. A word that
/// is equal to what it is combined with makes a factor of 0, which hides the other one: so lanes do not begin with
/// small numbers either.
constexpr uint64_t kDigits[] = {0x243F6A8885A308D3, 0x13198A2E03707344, 0xA4093822299F31D0, 0x082EFA98EC4E6C89};
constexpr uint64_t kBegin[] = {0x452821E638D01377, 0xBE5466CF34E90C6C, 0xC0AC29B7C97C50DD, 0x3F84D5B5B5470917};

struct SealText {
  char magic[8];
  uint64_t bytes;
  uint64_t page_bytes;
  uint64_t checksum;
};
static_assert(sizeof(SealText) == 32);
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

/// The checksums of all pages, which several threads compute: of what lies in memory already, reading takes as long as
/// computing. False: the file ends earlier, or cannot be read.
bool sum_pages(int fd, SealedPages& pages) {
  const uint64_t page = pages.page_bytes, count = pages.bytes / page,
                 at_once = std::max<uint64_t>(kBlockBytes / page, 1);
  pages.sums.resize(count);
  std::atomic<uint64_t> next = 0;
  std::atomic<bool> good = true;
  const auto work = [&] {
    std::vector<unsigned char> block(at_once * page);
    for (uint64_t first = 0; good && (first = next.fetch_add(at_once)) < count;) {
      const uint64_t read = std::min(at_once, count - first);
      if (!read_whole(fd, block.data(), read * page, first * page)) good = false;
      for (uint64_t i = 0; i < read; ++i) pages.sums[first + i] = checksum(block.data() + i * page, page);
    }
  };
  const uint64_t most = std::min<uint64_t>(count / at_once / kBlocksWorthAThread,
                                           std::min(std::thread::hardware_concurrency(), kMostThreads));
  std::vector<std::thread> helpers;
  try {
    for (uint64_t i = 1; i < most; ++i) helpers.emplace_back(work);
  } catch (const std::system_error&) {  // no more threads for this user: with those that there are
  }
  work();
  for (std::thread& helper : helpers) helper.join();
  return good;
}

template <class Failure>
void write_whole(int fd, const void* from, size_t bytes, uint64_t offset, const Failure& cannot) {
  for (size_t done = 0; done < bytes;) {
    errno = ENOSPC;
    const ssize_t got =
        pwrite(fd, static_cast<const char*>(from) + done, bytes - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) throw cannot();
    done += static_cast<size_t>(got);
  }
}

uint64_t sum_of(const SealedPages& pages) {
  std::vector<uint64_t> words = {pages.bytes, pages.page_bytes};
  words.insert(words.end(), pages.sums.begin(), pages.sums.end());
  constexpr size_t kWordsOfPiece = kPieceBytes / sizeof words[0];
  words.resize((words.size() + kWordsOfPiece - 1) / kWordsOfPiece * kWordsOfPiece);
  return checksum(reinterpret_cast<const unsigned char*>(words.data()), words.size() * sizeof words[0]);
}

uint64_t big_endian(const unsigned char* bytes, size_t count) {
  uint64_t value = 0;
  for (size_t i = 0; i < count; ++i) value = value << 8 | bytes[i];
  return value;
}

/// By the words of the header; no bytes: no SQLite file.
SealedPages pages_of(int fd) {
  unsigned char header[kHeaderBytes];
  if (!read_whole(fd, header, sizeof header, 0) || memcmp(header, "SQLite format 3", 16) != 0) return {};
  const uint64_t page = big_endian(header + 16, 2) == 1 ? 65536 : big_endian(header + 16, 2);
  if (page == 0 || page % kPieceBytes != 0) return {};
  return {page * big_endian(header + 28, 4), page, {}};
}

Descriptor opened(const std::filesystem::path& path) {
  return Descriptor(open_regular_file(path.string(), NamedBy::kFolder));
}

}  // namespace

bool read_whole(int fd, void* to, size_t bytes, uint64_t offset) {
  for (size_t done = 0; done < bytes;) {
    const ssize_t got = pread(fd, static_cast<char*>(to) + done, bytes - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    done += static_cast<size_t>(got);
  }
  return true;
}

uint64_t checksum(const unsigned char* bytes, size_t count) {
  // Lanes by name, independent of each other, since a core multiplies one a cycle; words where they lie: arrays would
  // go through the stack, which is half of the instructions.
  uint64_t a = kBegin[0], b = kBegin[1], c = kBegin[2], d = kBegin[3];
  for (const unsigned char* const end = bytes + count / kPieceBytes * kPieceBytes; bytes != end; bytes += kPieceBytes) {
    a = folded(word(bytes) ^ a, word(bytes + 8) ^ kDigits[0]);
    b = folded(word(bytes + 16) ^ b, word(bytes + 24) ^ kDigits[1]);
    c = folded(word(bytes + 32) ^ c, word(bytes + 40) ^ kDigits[2]);
    d = folded(word(bytes + 48) ^ d, word(bytes + 56) ^ kDigits[3]);
  }
  uint64_t value = count;
  for (const auto& [lane, digits] :
       {std::pair(a, kDigits[0]), std::pair(b, kDigits[1]), std::pair(c, kDigits[2]), std::pair(d, kDigits[3])})
    value = folded(value ^ lane, digits | 1);
  return value;
}

Seal read_seal(int fd, const std::filesystem::path& path, SealedPages& pages) {
  const auto cannot = [&] {
    return Error(fmt::format("cannot read {}: {}", path.string(), strerror(errno)), "", ExitCode::kDataMissing);
  };
  struct stat status;
  SealText seal;
  if (fstat(fd, &status) != 0 || status.st_size < static_cast<off_t>(sizeof seal)) return Seal::kNone;
  const uint64_t before = static_cast<uint64_t>(status.st_size) - sizeof seal;
  if (!read_whole(fd, &seal, sizeof seal, before)) throw cannot();
  if (memcmp(seal.magic, kSealMagic, sizeof seal.magic) != 0) return Seal::kNone;
  // What the words say must be what lies before them, before anything is allocated for it.
  if (seal.page_bytes == 0 || seal.page_bytes % kPieceBytes != 0 || seal.bytes % seal.page_bytes != 0)
    return Seal::kBroken;
  const uint64_t count = seal.bytes / seal.page_bytes;
  if (seal.bytes > before || (before - seal.bytes) % sizeof count != 0 || count != (before - seal.bytes) / sizeof count)
    return Seal::kBroken;
  pages = {seal.bytes, seal.page_bytes, std::vector<uint64_t>(count)};
  if (!read_whole(fd, pages.sums.data(), count * sizeof count, seal.bytes)) throw cannot();
  return sum_of(pages) == seal.checksum ? Seal::kWhole : Seal::kBroken;
}

Seal check_seal(const std::filesystem::path& path) {
  const Descriptor file = opened(path);
  SealedPages sealed;
  const Seal seal = read_seal(*file, path, sealed);
  if (seal != Seal::kWhole) return seal;
  SealedPages found = {sealed.bytes, sealed.page_bytes, {}};
  return sum_pages(*file, found) && found.sums == sealed.sums ? Seal::kWhole : Seal::kBroken;
}

Seal glance_at_seal(const std::filesystem::path& path) {
  SealedPages sealed;
  return read_seal(*opened(path), path, sealed);
}

void seal_store(const std::filesystem::path& path) {
  const auto cannot = [&] { return CannotWrite(fmt::format("cannot write {}: {}", path.string(), strerror(errno))); };
  const Descriptor file(open(path.c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (*file < 0) throw cannot();
  SealedPages pages = pages_of(*file);
  errno = EIO;
  if (pages.bytes == 0 || ftruncate(*file, static_cast<off_t>(pages.bytes)) != 0 || !sum_pages(*file, pages))
    throw cannot();
  SealText seal = {{}, pages.bytes, pages.page_bytes, sum_of(pages)};
  memcpy(seal.magic, kSealMagic, sizeof seal.magic);
  write_whole(*file, pages.sums.data(), pages.sums.size() * sizeof pages.sums[0], pages.bytes, cannot);
  write_whole(*file, &seal, sizeof seal, pages.bytes + pages.sums.size() * sizeof pages.sums[0], cannot);
}

}  // namespace ddl
