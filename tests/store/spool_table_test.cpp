// The virtual table: values, NULLs, and exceptions that must pass through SQLite's C frames unseen.
#include "store/ingest/spool_table.h"

#include <SQLiteCpp/Exception.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/store/store_fixture.h"

namespace ddl::store {
namespace {

class ThreeRows : public RowSource {
 public:
  explicit ThreeRows(int throw_at = -1) : throw_at_(throw_at) {}
  bool next(SpoolRow& row) override {
    if (count_ == throw_at_) throw Error("the source broke", "a hint");
    row = {};
    row.thread = count_;
    if (count_ == 1) {
      static const std::string kName = "n\xc3\xa9";
      row.comm = row.seq = row.site = row.datatype = row.reduction = 5;
      row.step = row.peer = row.tag = 0;
      row.name = &kName;
      row.number = 0.5;
    } else {
      row.number = std::nan("");
    }
    return count_++ < 3;
  }

 private:
  int throw_at_;
  int count_ = 0;
};

class SpoolTableTest : public ::testing::Test {
 protected:
  SpoolTableTest() {
    db_.exec("CREATE TABLE t(process, thread, comm, seq, site, step, peer, tag, datatype, reduction, name, number)");
  }
  static constexpr const char* kPull =
      "INSERT INTO t SELECT ?1, thread, comm, seq, site, step, peer, tag, datatype, reduction, name, number FROM spool_records";

  SQLite::Database db_{":memory:", SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE};
  Statements statements_{db_};
  SpoolTable table_{statements_};
};

TEST_F(SpoolTableTest, ZeroIdsAndUnsetValuesAreNull) {
  ThreeRows source;
  EXPECT_EQ(table_.pull(source, kPull, 9), 3);
  const auto row = [&](int thread) {
    std::string text;
    SQLite::Statement query(
        db_,
        "SELECT process, comm, seq, site, step, peer, tag, datatype, reduction, name, number FROM t WHERE thread = ?");
    query.bind(1, thread);
    EXPECT_TRUE(query.executeStep());
    for (int i = 0; i < query.getColumnCount(); ++i)
      text += (query.getColumn(i).isNull() ? "-" : query.getColumn(i).getString()) + " ";
    return text;
  };
  EXPECT_EQ(row(0), "9 - - - - - - - - - - ");
  EXPECT_EQ(row(1), "9 5 5 5 0 0 0 5 5 n\xc3\xa9 0.5 ");
}

TEST_F(SpoolTableTest, WhatTheSourceThrowsComesOut) {
  for (const int at : {0, 2}) {
    ThreeRows source(at);
    try {
      table_.pull(source, kPull, 1);
      FAIL();
    } catch (const Error& error) {
      EXPECT_EQ(error.hint(), "a hint");
    }
  }
  ThreeRows source;  // and the table can be used again
  EXPECT_EQ(table_.pull(source, kPull, 1), 3);
  EXPECT_THROW(table_.pull(source, "INSERT INTO nowhere SELECT ?1 FROM spool_records", 1), SQLite::Exception);
}

TEST_F(SpoolTableTest, OutsideOfAPullItIsEmpty) {
  EXPECT_EQ(db_.execAndGet("SELECT count(*) FROM spool_records").getInt(), 0);
}

}  // namespace
}  // namespace ddl::store
