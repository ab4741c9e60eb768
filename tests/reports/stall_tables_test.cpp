// Sections stalls and stacks, of rows as the ingest writes them.
#include <gtest/gtest.h>

#include "reports/overview.h"
#include "tests/reports/handmade_run.h"

namespace ddl::reports {
namespace {

TEST(StallTables, TellWhatWasToldAndStacksThatAreEqualOnce) {
  test::HandmadeRun run;
  run.db().exec(
      "INSERT INTO stall VALUES (1, 0, 'waiting', 20, 10, 5, 'x', 'others wait', NULL, NULL), (2, 0, 'stall', 900, 100, 300, 'x', 'nobody moves', 'abort', 1100);"
      "INSERT INTO stall_rank VALUES (1, 0, 1, 'waiting', NULL, 'runs', 0.5, NULL, NULL), (2, 0, 1, 'waiting', 'x', 'runs', 0.5, NULL, NULL),"
      " (2, 1, 2, 'missing', NULL, 'sleeps', 0, NULL, 'gdb: no'), (2, 2, 3, 'waiting', 'x', 'sleeps', 0, NULL, NULL),"
      " (2, 3, 4, 'other', NULL, NULL, NULL, 'it runs on n1', 'it runs on n1');"
      "INSERT INTO stall_stack VALUES (2, 0, 'python', 0, 'main', 'f (/a/train.py:3) < g (/a/train.py:9)'), (2, 0, 'c', 0, 'main', 'poll < _PyEval_Vector'),"
      " (2, 2, 'python', 0, 'main', 'f (/a/train.py:3) < g (/a/train.py:9)'), (2, 1, 'python', 0, 'main', 'load (/a/train.py:5)'),"
      " (2, 1, 'python', 1, '0x7f', 'wait (threading.py:1)')");
  const RunView view = test::view_of(run.db());
  const Table stalls = stalls_table(view);
  ASSERT_EQ(stalls.rows.size(), 2u);
  EXPECT_EQ(stalls.rows[1][2].as_integer(), 100);
  EXPECT_EQ(stalls.rows[1][3].as_integer(), 1000) << "until something was finished again";
  EXPECT_TRUE(stalls.rows[0][3].is_absent()) << "a wait while others go on has no end of its own";
  EXPECT_EQ(stalls.rows[1][4].as_text(), "nobody moves");
  const Table stacks = stacks_table(view);
  ASSERT_EQ(stacks.rows.size(), 3u);
  EXPECT_EQ(stacks.rows[0][1].as_text(), "0, 2");
  EXPECT_EQ(stacks.rows[0][3].as_text(), "waiting");
  EXPECT_EQ(stacks.rows[0][5].as_text(), "f train.py:3 <- g train.py:9");
  EXPECT_EQ(stacks.rows[0][6].as_text(), "poll");
  for (size_t i : {1u, 2u}) {
    const bool is_missing = stacks.rows[i][1].as_text() == "1";
    EXPECT_EQ(stacks.rows[i][5].as_text(), is_missing ? "load train.py:5" : "n/a (it runs on n1)");
  }
  EXPECT_EQ(build_section(view, "stacks").tables.at(0).rows.size(), 3u);
}

// A rank that waits records nothing: its own record ends with the call that it entered.
TEST(StallTables, WhatLastedToTheEndOfTheJobDidNotLastFor0Ns) {
  test::HandmadeRun run;
  run.db().exec(
      "DELETE FROM meta WHERE key IN ('epoch_realtime_ns', 'ended_realtime_ns'); DELETE FROM open_call;"
      "INSERT INTO meta VALUES ('epoch_realtime_ns', '1000000000000'), ('ended_realtime_ns', '1009000000000');"
      "UPDATE process SET ended = 'lost', end_ns = 1500000000;"
      "INSERT INTO open_call SELECT 1, 0, min(id), NULL, NULL, 0, NULL, NULL, 1500000000, 0, 1, 7 FROM op;"
      "INSERT INTO stall VALUES (1, 0, 'stall', 900, 1500000000, 300, 'x', 'nobody moves', 'abort', NULL)");
  const Table calls = open_calls_table(test::view_of(run.db()));
  ASSERT_EQ(calls.rows.size(), 1u);
  EXPECT_EQ(calls.rows[0][1].as_integer(), 1'500'000'000) << "since when in the run";
  EXPECT_EQ(calls.rows[0][2].as_integer(), 7'500'000'000) << "to the end that ddl record saw";
  EXPECT_EQ(stalls_table(test::view_of(run.db())).rows.at(0)[3].as_integer(), 7'500'000'000);
  run.db().exec("DELETE FROM meta WHERE key = 'ended_realtime_ns'");
  EXPECT_TRUE(open_calls_table(test::view_of(run.db())).rows.at(0)[2].is_absent()) << "nobody knows";
}

}  // namespace
}  // namespace ddl::reports
