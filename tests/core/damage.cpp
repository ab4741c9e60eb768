#include "tests/core/damage.h"

#include <SQLiteCpp/Database.h>
#include <SQLiteCpp/Exception.h>
#include <SQLiteCpp/Statement.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "core/format.h"

namespace ddl::test {

namespace {

class Damage {
 public:
  Damage(Image& image, std::mt19937_64& random) : image_(image), random_(random) {}

  void once() {
    if (image_.empty()) return;
    switch (below(12)) {
      case 0:
      case 1:
      case 2:
        flip_bits();
        break;
      case 3:
      case 4:
        set_word();
        break;
      case 5:
      case 6:
        chunk_header();
        break;
      case 7:
        fill_page(0);
        break;
      case 8:
        swap_pages();
        break;
      case 9:
        copy_bytes();
        break;
      case 10:
        garbage();
        break;
      default:
        resize();
        break;
    }
  }

 private:
  uint64_t below(uint64_t n) { return n == 0 ? 0 : random_() % n; }
  size_t pages() const { return image_.size() / kPageBytes; }

  /// An offset, most of the time one where something is written.
  size_t somewhere() {
    if (below(8) == 0) return below(std::min<size_t>(image_.size(), sizeof(FileHeader)));
    if (below(4) == 0) return std::min(below(pages() + 1) * kPageBytes + below(sizeof(ChunkHeader)), image_.size() - 1);
    size_t at = below(image_.size());
    for (int tries = 0; tries < 64 && image_[at] == 0; ++tries) at = below(image_.size());
    return at;
  }

  void flip_bits() {
    for (uint64_t n = 1 + below(below(4) == 0 ? 200 : 4); n > 0; --n)
      image_[somewhere()] ^= static_cast<unsigned char>(1u << below(8));
  }

  void set_word() {
    static const uint64_t kExtremes[] = {0,          1,          0x7f,       0xff,       0xffff,
                                         0x7fffffff, 0xffffffff, 1ull << 32, 1ull << 47, 1ull << 63,
                                         INT64_MAX,  UINT64_MAX, 4096,       4 << 20};
    const uint64_t value = kExtremes[below(std::size(kExtremes))] + below(3) - 1;
    const size_t width = below(2) ? 4 : 8;
    const size_t at = somewhere() / width * width;
    if (at + width <= image_.size()) memcpy(&image_[at], &value, width);
  }

  /// Changes one field of a chunk's header.
  void chunk_header() {
    const size_t at = below(pages()) * kPageBytes;
    if (at + sizeof(ChunkHeader) > image_.size()) return;
    ChunkHeader h;
    memcpy(&h, &image_[at], sizeof h);
    if (h.magic != kChunkMagic && below(4) != 0) return;
    switch (below(7)) {
      case 0:
        h.kind = static_cast<uint32_t>(below(8));
        break;
      case 1:
        h.bytes = static_cast<uint32_t>(below(2048) * kPageBytes);
        break;
      case 2:
        h.bytes = static_cast<uint32_t>(random_());
        break;
      case 3:
        h.index = below(8);
        break;
      case 4:
        h.begin_ticks = random_();
        break;
      case 5:
        h.ring_written = random_();
        break;
      default:
        h.magic = kChunkMagic;
        break;
    }
    if (below(2)) h.check = chunk_check(h);
    memcpy(&image_[at], &h, sizeof h);
  }

  void fill_page(int value) {
    const size_t at = below(pages()) * kPageBytes;
    memset(&image_[at], value, std::min<size_t>(kPageBytes, image_.size() - at));
  }

  void swap_pages() {
    if (pages() < 2) return;
    const size_t a = below(pages()) * kPageBytes, b = below(pages()) * kPageBytes;
    for (size_t i = 0; i < kPageBytes; ++i) std::swap(image_[a + i], image_[b + i]);
  }

  void copy_bytes() {
    const size_t from = somewhere(), to = somewhere();
    const size_t bytes = std::min({1 + below(below(2) ? 64 : 20000), image_.size() - from, image_.size() - to});
    memmove(&image_[to], &image_[from], bytes);
  }

  void garbage() {
    const size_t at = somewhere();
    const size_t bytes = std::min<size_t>(1 + below(2000), image_.size() - at);
    for (size_t i = 0; i < bytes; ++i) image_[at + i] = static_cast<unsigned char>(random_());
  }

  void resize() {
    if (below(3) == 0) {
      image_.resize(image_.size() + below(100000), static_cast<unsigned char>(below(2) ? 0 : random_()));
    } else {
      image_.resize(below(2) ? below(image_.size()) : image_.size() - below(std::min<size_t>(image_.size(), 100)));
    }
  }

  Image& image_;
  std::mt19937_64& random_;
};

/// Cut, wrong types, huge numbers, deep nesting, hostile strings, swapped and repeated pieces, any byte.
class TextDamage {
 public:
  explicit TextDamage(std::mt19937_64& random) : random_(random) {}

  std::string operator()(std::string text) {
    for (uint64_t n = 1 + below(3); n > 0; --n) change(text);
    return text;
  }

 private:
  uint64_t below(uint64_t n) { return random_() % n; }

  void change(std::string& text) {
    if (text.empty()) return;
    static const char* const kValues[] = {"1e999",
                                          "-1e999",
                                          "99999999999999999999999",
                                          "9223372036854775807",
                                          "-9223372036854775808",
                                          "4000000000000000000",
                                          "0.0000000000000000000001",
                                          "-1",
                                          "0",
                                          "4294967296",
                                          "2147483648",
                                          "null",
                                          "true",
                                          "[]",
                                          "{}",
                                          "\"\"",
                                          "\"x\"",
                                          "NaN",
                                          "\"<script>alert(1)</script>\"",
                                          "\"\\u001b[2J\\u0000\"",
                                          "\"\xff\xfe\xed\xa0\x80\"",
                                          "\"'; DROP TABLE event; --\"",
                                          "[[1]]",
                                          "{\"a\": {\"b\": 1}}",
                                          "1,2",
                                          ",",
                                          ":",
                                          ""};
    const size_t at = below(text.size());
    switch (below(9)) {
      case 0:
        text.resize(at);
        break;
      case 1:
        text[at] = static_cast<char>(below(256));
        break;
      case 2:
      case 3:
      case 4:
        replace_value(text, at, kValues[below(std::size(kValues))]);
        break;
      case 5: {
        const char open = below(2) ? '[' : '{';
        text.insert(at, std::string(1 + below(3000), open));
        break;
      }
      case 6:
        text.erase(at, 1 + below(200));
        break;
      case 7:
        text.insert(below(text.size()), text.substr(at, 1 + below(400)));
        break;
      default:
        text.insert(at, std::string(1 + below(70000), "x\\\"\n0"[below(5)]));
    }
  }

  /// The number or text nearest behind `at` becomes another value.
  static void replace_value(std::string& text, size_t at, const std::string& value) {
    const size_t begin = text.find_first_of("0123456789\"", at);
    if (begin == std::string::npos) return;
    size_t end = begin + 1;
    if (text[begin] == '"') {
      end = text.find('"', end);
      end = end == std::string::npos ? text.size() : end + 1;
    } else {
      end = std::min(text.find_first_not_of("0123456789.eE+-", end), text.size());
    }
    text.replace(begin, end - begin, value);
  }

  std::mt19937_64& random_;
};

uint64_t number_from(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text ? std::strtoull(text, nullptr, 10) : otherwise;
}

}  // namespace

void damage(Image& image, std::mt19937_64& random) {
  Damage damage(image, random);
  for (uint64_t n = 1 + random() % 4; n > 0; --n) damage.once();
}

std::string damage_text(std::string text, std::mt19937_64& random) { return TextDamage(random)(std::move(text)); }

std::string damage_cells(const std::string& database, std::mt19937_64& random) {
  static const char* const kValues[] = {"NULL",
                                        "'text'",
                                        "x'00ff1b'",
                                        "9223372036854775807",
                                        "-9223372036854775808",
                                        "-1",
                                        "0",
                                        "4294967296",
                                        "1e300",
                                        "1.5",
                                        "'<script>alert(1)</script>'",
                                        "char(27, 91, 50, 74, 0)",
                                        "zeroblob(70000)",
                                        "randomblob(8)"};
  std::string path = (std::filesystem::temp_directory_path() / "ddl-cells-XXXXXX").string();
  const int fd = mkstemp(path.data());
  if (fd < 0) throw std::runtime_error("cannot make " + path);
  close(fd);
  std::ofstream(path, std::ios::binary) << database;
  try {
    SQLite::Database db(path, SQLite::OPEN_READWRITE);
    std::vector<std::pair<std::string, std::string>> columns;
    SQLite::Statement all(
        db, "SELECT t.name, c.name FROM sqlite_master t, pragma_table_info(t.name) c WHERE t.type = 'table'");
    while (all.executeStep()) columns.emplace_back(all.getColumn(0).getString(), all.getColumn(1).getString());
    all.reset();
    for (uint64_t n = 1 + random() % 3; n > 0 && !columns.empty(); --n) {
      const auto& [table, column] = columns[random() % columns.size()];
      if (random() % 8 == 0) {
        db.tryExec(fmt::format("DROP TABLE IF EXISTS \"{}\"", table));
      } else {
        db.tryExec(fmt::format("UPDATE \"{}\" SET \"{}\" = {}", table, column, kValues[random() % std::size(kValues)]));
      }
    }
  } catch (const SQLite::Exception&) {  // it was damaged before
  }
  std::ifstream file(path, std::ios::binary);
  const std::string damaged = {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  std::filesystem::remove(path);
  return damaged;
}

uint64_t fuzz_seed() {
  const uint64_t seed = number_from("DDL_FUZZ_SEED", 1);
  std::printf("DDL_FUZZ_SEED=%llu\n", static_cast<unsigned long long>(seed));
  return seed;
}

int fuzz_cases(int cases) { return static_cast<int>(number_from("DDL_FUZZ_CASES", static_cast<uint64_t>(cases))); }

}  // namespace ddl::test
