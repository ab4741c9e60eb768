// The order of instances, however many events are held at once.
#include "analyzer/passes/instance_events.h"

#include <gtest/gtest.h>

#include <random>
#include <tuple>

#include "analyzer/tables.h"
#include "tests/analyzer/tables.h"

namespace ddl {
namespace {

using test::Tables;

/// Numbers as they come: small ones on many communicators, long runs on one, and repetitions of a captured collective, above 2^32.
Tables many_events() {
  Tables run(4);
  run.allreduce(1, {0, 0, 0, 0}, 1, 8);  // brings the operation
  std::mt19937 random(1);
  for (int i = 0; i < 3000; ++i) {
    const int64_t range = i % 3 == 0 ? 20 : i % 3 == 1 ? 30'000 : 5;
    const int64_t seq = std::uniform_int_distribution<int64_t>(-1, range)(random) + (i % 3 == 2 ? (int64_t{i} % 7) << 32 : 0);
    const int64_t comm = std::uniform_int_distribution<int64_t>(1, 5)(random);
    run.exec("INSERT INTO event(process, thread, kind, op, comm, seq, region, start_ns, duration_ns) VALUES (" + std::to_string(1 + i % 4) +
             ", 0, 1, 1, " + std::to_string(comm) + ", " + std::to_string(seq) + ", 0, " + std::to_string(i) + ", 1)");
  }
  make_tables(run.db());
  run.exec("UPDATE event SET comm = NULL WHERE id % 10 = 3; UPDATE event SET seq = NULL WHERE id % 10 = 4");
  run.exec("INSERT INTO coordination SELECT id FROM event WHERE id % 10 = 5");
  return run;
}

TEST(InstanceEvents, ComeInTheOrderOfTheirInstances) {
  Tables run = many_events();
  std::vector<std::tuple<int64_t, int64_t, int64_t>> expected;
  Query rows(run.db(),
             "SELECT seq, comm, id FROM event WHERE seq IS NOT NULL AND comm IS NOT NULL AND id NOT IN (SELECT event FROM coordination)"
             " ORDER BY seq, comm, id");
  while (rows.next()) expected.emplace_back(rows.integer(0), rows.integer(1), rows.integer(2));
  ASSERT_GT(expected.size(), 2000u);
  for (const int64_t held : {1, 7, 100, 1000, 1'000'000}) {
    std::vector<std::tuple<int64_t, int64_t, int64_t>> found;
    InstanceEvents events(run.db(), held);
    while (const InstanceEvent* e = events.next()) found.emplace_back(e->seq, e->communicator, e->id);
    EXPECT_EQ(found, expected) << held << " held";
    events.rewind();
    found.clear();
    while (const InstanceEvent* e = events.next()) found.emplace_back(e->seq, e->communicator, e->id);
    EXPECT_EQ(found, expected) << held << " held, once more";
  }
  for (const unsigned threads : {2u, 3u, 100u}) {
    std::vector<std::tuple<int64_t, int64_t, int64_t>> found;
    InstanceEvents events(run.db(), 1'000'000, threads);
    while (const InstanceEvent* e = events.next()) found.emplace_back(e->seq, e->communicator, e->id);
    EXPECT_EQ(found, expected) << threads << " threads";
  }
  Tables none(2);
  make_tables(none.db());
  InstanceEvents nothing(none.db());
  EXPECT_EQ(nothing.next(), nullptr);
}

}  // namespace
}  // namespace ddl
