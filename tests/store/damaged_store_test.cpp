// Stores with flipped bits, cut, and with pages of another run in them: never another answer, whether all of
// them is compared with the seal or what is read. DDL_FUZZ_CASES: how many with flipped bits (200), a tenth of
// it of the other kinds.
#include <SQLiteCpp/Exception.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <random>
#include <set>

#include "store/database.h"
#include "store/ingest.h"
#include "store/seal.h"
#include "store/sealed_file.h"
#include "tests/store/store_fixture.h"

namespace ddl {
namespace {

namespace fs = std::filesystem;
class DamagedStoreTest : public StoreTest {
 protected:
  DamagedStoreTest() {
    make("x.ddl", 2, 6);
    make("y.ddl", 3, 4);
    SQLite::Database db = open_store(store());
    EXPECT_EQ(db.execAndGet("PRAGMA freelist_count").getInt(), 0) << "pages that nobody reads";
    for (SQLite::Statement table(db, "SELECT name FROM sqlite_master WHERE type = 'table'"); table.executeStep();) {
      const std::string name = table.getColumn(0).getString();
      rows_[name] = rows_of(db, name);
    }
  }
  static Rows rows_of(SQLite::Database& db, const std::string& table) {
    return StoreTest::rows_of(db, "SELECT * FROM " + table);
  }
  static std::string bytes_of(const fs::path& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void make(const char* name, int ranks, uint64_t steps) {
    test::run().ranks(ranks).steps(steps).compute(10_ms).allreduce(1_MiB, 1_ms).write(scratch_ / name);
    ingest(find_run((scratch_ / name).string()));
  }
  fs::path store() const { return scratch_ / "x.ddl" / "run.sqlite"; }
  fs::path written(const std::string& bytes) const {
    const fs::path place = scratch_ / "damaged.sqlite";
    std::ofstream(place, std::ios::binary) << bytes;
    return place;
  }
  /// Is `bytes` refused as a store? Also looks how it is read where pages are compared as they are read.
  bool refused(const std::string& bytes) {
    const fs::path place = written(bytes);
    const bool at_once = refuses([&] { open_store(place); });
    EXPECT_EQ(found_when_read(place), at_once);
    return at_once;
  }
  template <class Function>
  static bool refuses(const Function& function) {
    try {
      function();
    } catch (const Error& error) {
      return error.code() == ExitCode::kDataMissing;
    }
    return false;
  }
  /// Reads all pages; no row may be another one than in the store.
  bool found_when_read(const fs::path& place) {
    const uint64_t damaged = damaged_reads();
    const auto read = [&] {
      SQLite::Database db = open_store(place, Access::kReadCompared);
      for (const auto& [table, rows] : rows_) {
        try {
          EXPECT_TRUE(rows_of(db, table) == rows) << table;
        } catch (const SQLite::Exception& error) {
          EXPECT_GT(damaged_reads(), damaged) << table << ": " << error.what();
        }
      }
      try {
        db.execAndGet("PRAGMA integrity_check");  // indexes as well
      } catch (const SQLite::Exception&) {
      }
    };
    return refuses(read) || damaged_reads() != damaged;
  }

  void flip(int cases) {
    const std::string whole = bytes_of(store());
    for (int i = 0; i < cases; ++i) {
      std::string damaged = whole;
      const int bits = i % 2 == 0 ? 1 : 20;
      for (int bit = 0; bit < bits; ++bit) damaged[random_() % damaged.size()] ^= static_cast<char>(1 << random_() % 8);
      if (damaged != whole) {
        EXPECT_TRUE(refused(damaged)) << "case " << i;
      }
    }
  }
  void cut(int cases) {
    const std::string whole = bytes_of(store());
    for (int i = 0; i < cases; ++i)
      EXPECT_TRUE(
          refused(whole.substr(0, i % 2 == 0 ? whole.size() - 1 - static_cast<size_t>(i) : random_() % whole.size())))
          << i;
    EXPECT_TRUE(refused(""));
    EXPECT_TRUE(refused(whole + "x"));
    EXPECT_TRUE(refused(whole + whole));
  }
  void mix(int cases) {
    const std::string whole = bytes_of(store()), other = bytes_of(scratch_ / "y.ddl" / "run.sqlite");
    constexpr size_t kPage = 8192;
    const size_t pages = std::min(whole.size(), other.size()) / kPage;
    for (int i = 0; i < cases; ++i) {
      std::string damaged = whole;
      for (size_t count = 1 + random_() % 4; count > 0; --count) {
        const size_t page = random_() % pages;
        damaged.replace(page * kPage, kPage, other, page * kPage, kPage);
      }
      if (damaged != whole) {
        EXPECT_TRUE(refused(damaged)) << "case " << i;
      }
      std::string swapped = whole;  // its own pages, in another order
      const size_t a = random_() % pages, b = random_() % pages;
      swapped.replace(a * kPage, kPage, whole, b * kPage, kPage).replace(b * kPage, kPage, whole, a * kPage, kPage);
      if (swapped != whole) {
        EXPECT_TRUE(refused(swapped)) << "case " << i;
      }
    }
  }

  std::map<std::string, Rows> rows_;
  std::mt19937_64 random_{7};
};

TEST_F(DamagedStoreTest, AWholeOneIsRead) {
  EXPECT_FALSE(refused(bytes_of(store())));
  EXPECT_EQ(check_seal(store()), Seal::kWhole);
  seal_store(store());
  EXPECT_EQ(check_seal(store()), Seal::kWhole) << "sealing again changes nothing";
}

int cases() {
  const char* given = std::getenv("DDL_FUZZ_CASES");
  return given == nullptr ? 200 : std::atoi(given);
}

TEST_F(DamagedStoreTest, FlippedBits) { flip(cases()); }
TEST_F(DamagedStoreTest, Cut) { cut(cases() / 10); }
TEST_F(DamagedStoreTest, PagesOfAnotherRun) { mix(cases() / 10); }

TEST_F(DamagedStoreTest, ASecondConnectionIsComparedAsTheFirst) {
  std::string damaged = bytes_of(store());
  const SQLite::Database whole = open_store(written(damaged), Access::kReadCompared);
  SQLite::Database beside = open_beside(whole);
  EXPECT_NO_THROW(beside.exec("PRAGMA integrity_check"));
  for (size_t page = 1; page < damaged.size() / 8192; ++page) damaged[8192 * page + 100] ^= 1;
  const SQLite::Database broken = open_store(written(damaged), Access::kReadCompared);
  const uint64_t before = damaged_reads();
  const auto read_beside = [&] {
    SQLite::Database beside_broken = open_beside(broken);
    rows_of(beside_broken, "event");
  };
  EXPECT_THROW(read_beside(), SQLite::Exception);
  EXPECT_GT(damaged_reads(), before);
}

TEST_F(DamagedStoreTest, WhatAnotherProgramWroteIsRefused) {
  open_store(store(), Access::kReadWrite).exec("INSERT INTO meta VALUES ('mine', 'x')");
  EXPECT_THROW(open_store(store()), DamagedStore);
  seal_store(store());
  EXPECT_NO_THROW(open_store(store()));
}

TEST_F(DamagedStoreTest, TheChecksumSeesEveryBitAndTheOrder) {
  std::vector<unsigned char> bytes(4096);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<unsigned char>(i * 7);
  const auto sum = [&] { return checksum(bytes.data(), bytes.size()); };
  std::set<uint64_t> seen = {sum()};
  for (size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    bytes[bit / 8] ^= static_cast<unsigned char>(1 << bit % 8);
    EXPECT_TRUE(seen.insert(sum()).second) << "bit " << bit;
    bytes[bit / 8] ^= static_cast<unsigned char>(1 << bit % 8);
  }
  // highest bits of one lane, which multiplication does not move on
  for (size_t i = 0; i + 64 < bytes.size(); i += 64) {
    bytes[i + 7] ^= 0x80;
    bytes[i + 71] ^= 0x80;
    EXPECT_TRUE(seen.insert(sum()).second) << i;
    bytes[i + 7] ^= 0x80;
    bytes[i + 71] ^= 0x80;
  }
  for (uint64_t small = 0; small < 16; ++small) {  // as pages begin, and numbers in them
    std::vector<uint64_t> words(8, small);
    const auto sum_of_words = [&] { return checksum(reinterpret_cast<const unsigned char*>(words.data()), 64); };
    EXPECT_TRUE(seen.insert(sum_of_words()).second) << small;
    for (size_t bit = 0; bit < 512; ++bit) {
      words[bit / 64] ^= uint64_t{1} << bit % 64;
      EXPECT_TRUE(seen.insert(sum_of_words()).second) << small << ", bit " << bit;
      words[bit / 64] ^= uint64_t{1} << bit % 64;
    }
  }
}

}  // namespace
}  // namespace ddl
