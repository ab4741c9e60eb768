// What the passes keep and insert millions of: against what SQLite and the standard library do.
#include <SQLiteCpp/Database.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "analyzer/each_row.h"
#include "analyzer/flat_map.h"
#include "analyzer/places_by_key.h"
#include "analyzer/query.h"
#include "store/made_rows.h"
#include "tests/analyzer/tables.h"

namespace ddl {
namespace {

TEST(ManyRows, SumsByNumberAreThoseOfATree) {
  std::mt19937_64 random(1);
  FlatMap<int64_t> flat;
  std::map<uint64_t, int64_t> tree;
  EXPECT_EQ(flat.find(0), nullptr);
  for (int64_t i = 0; i < 20'000; ++i) {
    const uint64_t key = i % 3 == 0 ? random() % 1000 : (random() % 500) << 32 | random() % 20;
    flat[key] += i;
    tree[key] += i;
  }
  EXPECT_EQ(flat.size(), tree.size());
  std::map<uint64_t, int64_t> found;
  flat.each([&](uint64_t key, int64_t sum) { found[key] = sum; });
  EXPECT_EQ(found, tree);
  for (uint64_t key = 0; key < 2000; ++key) {
    const int64_t* sum = flat.find(key);
    EXPECT_EQ(sum != nullptr ? std::optional(*sum) : std::nullopt,
              tree.contains(key) ? std::optional(tree.at(key)) : std::nullopt);
  }
  std::vector<std::pair<uint64_t, int64_t>> taken;
  for (const auto& [key, sum] : flat.take_sorted()) taken.emplace_back(key, sum);
  EXPECT_EQ(taken, (std::vector<std::pair<uint64_t, int64_t>>(tree.begin(), tree.end())));
  EXPECT_EQ(flat.size(), 0u);
  flat[7] += 1;
  EXPECT_EQ(*flat.find(7), 1);
}

TEST(ManyRows, PlacesComeInTheOrderOfKeysAndStayInTheirsWhereKeysAreEqual) {
  std::mt19937_64 random(2);
  for (const uint64_t most : {uint64_t{1}, uint64_t{100}, uint64_t{1} << 40, UINT64_MAX}) {
    std::vector<uint64_t> keys(3000);
    PlacesByKey places;
    for (uint64_t& key : keys) places.add(key = random() % most);
    std::vector<uint32_t> expected(keys.size());
    std::iota(expected.begin(), expected.end(), 0);
    std::stable_sort(expected.begin(), expected.end(), [&](uint32_t a, uint32_t b) { return keys[a] < keys[b]; });
    EXPECT_EQ(places.sorted(), expected) << most;
  }
  EXPECT_TRUE(PlacesByKey().sorted().empty());
}

TEST(ManyRows, MadeRowsAreInsertedAsTheyAre) {
  SQLite::Database db(":memory:", SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
  db.exec("CREATE TABLE t (a INTEGER PRIMARY KEY, b REAL, c TEXT, d INTEGER)");
  MadeRows rows(db);
  int64_t i = 0;
  rows.insert("INSERT INTO t (a, b, c, d) SELECT c0, c1, c2, c3 FROM made_rows", [&](MadeRow& row) {
    if (++i > 3) return false;
    row.set(i, i == 2 ? NAN : 0.5 * static_cast<double>(i), Lasting{i == 3 ? nullptr : "text"},
            i == 1 ? std::optional<int64_t>() : std::optional(INT64_MIN));
    return true;
  });
  EXPECT_EQ(
      db.execAndGet(
            "SELECT group_concat(a || ' ' || coalesce(b, '-') || ' ' || coalesce(c, '-') || ' ' || coalesce(d, '-'), '; ') FROM t")
          .getString(),
      "1 0.5 text -; 2 - text -9223372036854775808; 3 1.5 - -9223372036854775808");
}

TEST(ManyRows, WhatMakingARowThrowsComesOutAndTheTableCanBeUsedAgain) {
  SQLite::Database db(":memory:", SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
  db.exec("CREATE TABLE t (a INTEGER NOT NULL)");
  MadeRows rows(db);
  constexpr const char* kInsert = "INSERT INTO t (a) SELECT c0 FROM made_rows";
  EXPECT_THROW(rows.insert(kInsert, [](MadeRow&) -> bool { throw std::out_of_range("no more"); }), std::out_of_range);
  bool more = true;
  rows.insert(kInsert, [&](MadeRow& row) {
    row.set(7);
    return std::exchange(more, false);
  });
  EXPECT_EQ(db.execAndGet("SELECT sum(a) FROM t").getInt(), 7);
}

/// A connection with a table t of the rows (1, NULL), (2, 0.5), (3, 1.0), (4, 1.5).
SQLite::Database four_rows() {
  SQLite::Database db(":memory:", SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
  db.exec(
      "CREATE TABLE t (a INTEGER PRIMARY KEY, b REAL); INSERT INTO t VALUES (3, 1.0), (4, 1.5), (1, NULL), (2, 0.5)");
  return db;
}

TEST(ManyRows, EachRowIsUsedOnceInTheOrderOfItsTable) {
  SQLite::Database db = four_rows();
  EachRow rows(db, "a, b, 't' || a", "t NOT INDEXED WHERE a < ?1");
  for (const int64_t end : {4, 1, 9}) {
    std::string text;
    rows.run(
        [&](const RowValues& row) {
          text += row.text(2) + (row.is_null(1)                                                 ? " -; "
                                 : row.real(1) == 0.5 * static_cast<double>(row.integer(0) - 1) ? "; "
                                                                                                : " wrong; ");
        },
        end);
    EXPECT_EQ(text, std::string("t1 -; t2; t3; t4; ").substr(0, end == 4 ? 14 : end == 1 ? 0 : 18));
  }
}

TEST(ManyRows, RowsThatAreSortedFirstComeSorted) {
  SQLite::Database db = four_rows();
  std::vector<int64_t> order;
  EachRow(db, "e.a", "(SELECT a FROM t ORDER BY b DESC, a) o CROSS JOIN t e ON e.a = o.a")
      .run([&](const RowValues& row) { order.push_back(row.integer(0)); });
  EXPECT_EQ(order, (std::vector<int64_t>{4, 3, 2, 1}));
}

TEST(ManyRows, LoopsOverRowsLieWithinOthersAndWhatTheirUseThrowsComesOut) {
  SQLite::Database db = four_rows();
  std::vector<int64_t> sums;
  EachRow outer(db, "a", "t"), inner(db, "a", "t WHERE a <= ?1");
  const auto loop = [&] {
    outer.run([&](const RowValues& row) {
      int64_t sum = 0;
      inner.run(
          [&](const RowValues& below) {
            sum += below.integer(0);
            if (sum > 6) throw std::out_of_range("too much");
          },
          row.integer(0));
      sums.push_back(sum);
    });
  };
  EXPECT_THROW(loop(), std::out_of_range);
  EXPECT_EQ(sums, (std::vector<int64_t>{1, 3, 6}));
  int64_t count = 0;
  outer.run([&](const RowValues&) { ++count; });
  EXPECT_EQ(count, 4);
}

/// Facts of each rank are looked up one by one: with a scan for each of thousands the HTML report took as long for
/// this as for all else.
TEST(ManyRows, FactsOfAProcessAreFoundWithoutAScan) {
  test::Tables run(2);
  run.analyze();
  for (const char* sql :
       {"SELECT value FROM process_fact WHERE process = 1 AND key = 'cwd'",
        "SELECT 1 FROM background_process b JOIN process p ON p.id = b.process WHERE p.world = 0 AND NOT EXISTS"
        " (SELECT 1 FROM process_fact f WHERE f.process = p.id AND f.key = 'computes')"}) {
    Query plan(run.db(), std::string("EXPLAIN QUERY PLAN ") + sql);
    std::string steps;
    while (plan.next()) steps += std::string(plan.text(3)) + "\n";
    EXPECT_NE(steps.find("USING"), std::string::npos) << steps;
    EXPECT_EQ(steps.find("SCAN f"), std::string::npos) << steps;
    EXPECT_EQ(steps.find("SCAN process_fact"), std::string::npos) << steps;
  }
}

}  // namespace
}  // namespace ddl
