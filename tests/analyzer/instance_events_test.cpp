// The order of instances, however many events are held at once.
#include "analyzer/passes/instance_events.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <tuple>

#include "analyzer/tables.h"
#include "tests/analyzer/tables.h"

namespace ddl {
namespace {

using test::Tables;

/// Numbers as they come: small ones on many communicators, long runs on one, and repetitions of a captured
/// collective, above 2^32.
Tables many_events() {
  Tables run(4);
  run.allreduce(1, {0, 0, 0, 0}, 1, 8);  // brings the operation
  std::mt19937 random(1);
  for (int i = 0; i < 3400; ++i) {
    const int64_t range = i % 3 == 0 ? 20 : i % 3 == 1 ? 30'000 : 5;
    const int64_t seq =
        std::uniform_int_distribution<int64_t>(-1, range)(random) + (i % 3 == 2 ? (int64_t{i} % 7) << 32 : 0);
    const int64_t comm = std::uniform_int_distribution<int64_t>(1, 5)(random);
    run.exec("INSERT INTO event(process, thread, kind, op, comm, seq, region, start_ns, duration_ns) VALUES (" +
             std::to_string(1 + i % 4) + ", 0, 1, 1, " + std::to_string(comm) + ", " + std::to_string(seq) + ", 0, " +
             std::to_string(i) + ", 1)");
  }
  for (int comm = 1; comm <= 5; ++comm) {
    const std::string id = std::to_string(comm);
    run.exec("INSERT OR IGNORE INTO communicator VALUES (" + id + ", 0, " + id + ", 'group " + id +
             "', 4, NULL, NULL, 'intra', NULL)");
  }
  make_tables(run.db());
  run.exec("UPDATE event SET comm = 77 WHERE id % 10 = 6");  // which the store does not describe
  run.exec("UPDATE event SET comm = NULL WHERE id % 10 = 3; UPDATE event SET seq = NULL WHERE id % 10 = 4");
  run.exec("INSERT INTO coordination SELECT id FROM event WHERE id % 10 = 5");
  return run;
}

using Key = std::tuple<int64_t, int64_t, int64_t>;

std::vector<Key> all_of(InstanceEvents& events) {
  std::vector<Key> found;
  while (events.next_piece())
    while (const InstanceEvent* e = events.next()) found.emplace_back(e->seq, e->communicator, e->id);
  return found;
}

TEST(InstanceEvents, ComeInTheOrderOfTheirInstances) {
  Tables run = many_events();
  std::vector<Key> expected;
  Query rows(run.db(),
             "SELECT seq, comm, id FROM event WHERE seq IS NOT NULL AND comm IN (SELECT id FROM communicator)"
             " AND id NOT IN (SELECT event FROM coordination) ORDER BY seq, comm, id");
  while (rows.next()) expected.emplace_back(rows.integer(0), rows.integer(1), rows.integer(2));
  ASSERT_GT(expected.size(), 2000u);
  for (const int64_t held : {1, 7, 100, 1000, 1'000'000}) {
    InstanceEvents events(run.db(), held);
    EXPECT_EQ(all_of(events), expected) << held << " held";
    events.rewind();
    EXPECT_EQ(all_of(events), expected) << held << " held, once more";
  }
  for (const unsigned threads : {2u, 3u, 100u}) {
    InstanceEvents events(run.db(), 1'000'000, threads);
    EXPECT_EQ(all_of(events), expected) << threads << " threads";
  }
  Tables none(2);
  make_tables(none.db());
  InstanceEvents nothing(none.db());
  EXPECT_TRUE(all_of(nothing).empty());
}

TEST(InstanceEvents, WhatComesOfThemComesInTheOrderOfTheStore) {
  Tables run = many_events();
  for (const int64_t held : {100, 1'000'000}) {
    for (const unsigned threads : {1u, 3u}) {
      InstanceEvents events(run.db(), held, threads);
      std::map<int64_t, int64_t> durations, found;
      while (events.next_piece()) {
        while (const InstanceEvent* e = events.next()) {
          durations[e->id] = 7 * e->id + e->seq;
          InstanceEvents::put(*e, {e->id, 7 * e->id + e->seq, 0, 0, 0, 0, WaitMethod::kNone, Why::kNone});
        }
        int64_t before = 0;
        InstanceEvents::Rows rows(events);
        while (const SplitEvent* row = rows()) {
          EXPECT_LT(before, row->event);
          before = row->event;
          found[row->event] = row->duration_ns;
        }
      }
      EXPECT_EQ(found, durations) << held << " held, " << threads << " threads";
    }
  }
}

}  // namespace
}  // namespace ddl
