// What comes out of the ingest, against the truth of the generator.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <set>

#include "tests/store/store_fixture.h"

namespace ddl {
namespace {

using test::Truth;

class IngestTest : public StoreTest {
 protected:
  /// A job with a bit of everything.
  static test::SyntheticRun mixed_run() {
    return test::run()
        .ranks(4)
        .steps(25)
        .jitter(300_us, 7)
        .split("tp", 2)
        .forward("fc1", 2_ms)
        .forward("fc2", 1_ms)
        .on_comm("tp")
        .allreduce(64_KiB, 200_us)
        .backward("fc2", 2_ms)
        .iallreduce(4_MiB, 3_ms)
        .backward("fc1", 2_ms)
        .iallreduce(1_MiB, 1_ms)
        .waitall()
        .bcast(8_KiB, 50_us, 2)
        .reduce(8_KiB, 70_us, 1)
        .sendrecv_ring(16_KiB, 40_us)
        .message(0, 3, 100, 10_us)
        .polls(5, 200_ns)
        .value("loss", 0.25)
        .barrier();
  }
};

TEST_F(IngestTest, EveryInstanceOfEveryCollectiveIsThereToTheNanosecond) {
  const Truth truth = ingest_run(mixed_run());
  std::map<std::tuple<std::string, uint32_t, int>, std::vector<std::string>> found;  // communicator, seq, rank
  for (
      const auto& r : rows(
          "SELECT c.label, e.seq, p.rank, o.name, e.start_ns, e.start_ns + e.duration_ns, e.bytes, e.step, e.kind FROM event e "
          "JOIN process p ON p.id = e.process JOIN communicator c ON c.id = e.comm JOIN op o ON o.id = e.op WHERE e.seq IS NOT NULL")) {
    const bool is_new = found
                            .emplace(std::make_tuple(r[0], static_cast<uint32_t>(std::stoul(r[1])), std::stoi(r[2])),
                                     std::vector(r.begin() + 3, r.end()))
                            .second;
    EXPECT_TRUE(is_new) << r[0] << " " << r[1] << " rank " << r[2] << " twice";
  }
  size_t members = 0;
  for (const test::InstanceTruth& instance : truth.instances) {
    for (const test::MemberTruth& m : instance.members) {
      ++members;
      const auto row = found.find({instance.comm, instance.seq, m.rank});
      ASSERT_NE(row, found.end()) << instance.op << " " << instance.comm << " " << instance.seq << " rank " << m.rank;
      const std::vector<std::string> expected = {instance.op,
                                                 std::to_string(m.enter_ns),
                                                 std::to_string(*m.leave_ns),
                                                 std::to_string(m.payload_bytes),
                                                 instance.step ? std::to_string(*instance.step) : "NULL",
                                                 instance.nonblocking ? "2" : "1"};
      EXPECT_EQ(row->second, expected) << instance.op << " " << instance.seq << " rank " << m.rank;
    }
  }
  EXPECT_GT(members, 25u * 4 * 6);
  EXPECT_EQ(found.size(), members);
  EXPECT_EQ(number("SELECT count(*) FROM loss"), 0);
}

TEST_F(IngestTest, TicksOfATscComeOutWithinANanosecond) {
  const Truth truth = ingest_run(mixed_run().tsc(2.6e9));
  EXPECT_EQ(text("SELECT clock FROM host"), "tsc");
  EXPECT_NEAR(std::stod(text("SELECT ticks_per_second FROM host")), 2.6e9, 50);
  int64_t worst = 0;
  std::map<std::tuple<std::string, uint32_t, int>, std::pair<int64_t, int64_t>> found;
  for (const auto& r :
       rows("SELECT c.label, e.seq, p.rank, e.start_ns, e.duration_ns FROM event e JOIN process p ON p.id = e.process "
            "JOIN communicator c ON c.id = e.comm WHERE e.seq IS NOT NULL")) {
    found[{r[0], static_cast<uint32_t>(std::stoul(r[1])), std::stoi(r[2])}] = {std::stoll(r[3]), std::stoll(r[4])};
  }
  for (const test::InstanceTruth& instance : truth.instances) {
    for (const test::MemberTruth& m : instance.members) {
      const auto [start, duration] = found.at({instance.comm, instance.seq, m.rank});
      worst = std::max({worst, std::abs(start - m.enter_ns), std::abs(start + duration - *m.leave_ns)});
    }
  }
  EXPECT_LE(worst, 2);
}

TEST_F(IngestTest, TheProfileIsExact) {
  const Truth truth = ingest_run(mixed_run());
  using Key = std::tuple<int, std::string, std::string, std::string>;
  std::map<Key, std::vector<int64_t>> expected, found;
  for (const test::ProfileTruth& p : truth.profile) {
    auto& sums = expected[{p.rank, p.op, p.comm, p.region}];
    sums.resize(3);
    sums[0] += p.calls, sums[1] += p.bytes, sums[2] += p.time_ns;
  }
  const std::string paths =
      "WITH RECURSIVE path(id, name) AS (SELECT 0, '' UNION ALL SELECT r.id,"
      " CASE WHEN path.name = '' THEN '' ELSE path.name || '/' END || CASE r.kind WHEN 'step' THEN 'step' ELSE r.name END FROM region r"
      " JOIN path ON r.parent = path.id) ";
  for (
      const auto& r : rows(
          paths +
          "SELECT p.rank, o.name, coalesce(c.label, ''), path.name, sum(f.calls), sum(f.bytes), sum(f.time_ns) FROM profile f "
          "JOIN process p ON p.id = f.process JOIN op o ON o.id = f.op JOIN path ON path.id = f.region "
          "LEFT JOIN communicator c ON c.id = f.comm GROUP BY 1, 2, 3, 4")) {
    found[{std::stoi(r[0]), r[1], r[2], r[3]}] = {std::stoll(r[4]), std::stoll(r[5]), std::stoll(r[6])};
  }
  for (
      const auto& r : rows(
          paths +
          "SELECT p.rank, r.kind, path.name, f.calls, f.mpi_ns, f.time_ns FROM range_profile f JOIN process p ON p.id = f.process "
          "JOIN region r ON r.id = f.region JOIN path ON path.id = f.region")) {
    found[{std::stoi(r[0]), r[1], "", r[2]}] = {std::stoll(r[3]), std::stoll(r[4]), std::stoll(r[5])};
  }
  EXPECT_EQ(found, expected);
  EXPECT_EQ(number("SELECT calls FROM v_call WHERE rank = 0 AND op = 'MPI_Test'"), 5 * 25);
}

TEST_F(IngestTest, StepsRangesAndValues) {
  const Truth truth = ingest_run(mixed_run());
  ASSERT_EQ(truth.steps.size(), 100u);
  EXPECT_EQ(number("SELECT count(*) FROM step"), 100);
  for (const test::StepTruth& s : truth.steps) {
    const std::string where =
        " FROM v_step WHERE rank = " + std::to_string(s.rank) + " AND step = " + std::to_string(s.step);
    EXPECT_EQ(number("SELECT start_ns" + where), s.start_ns);
    EXPECT_EQ(number("SELECT duration_ns" + where), s.duration_ns);
  }
  EXPECT_EQ(number("SELECT sum(mpi_ns) FROM step"), [&] {
    int64_t sum = 0;
    for (const test::StepTruth& s : truth.steps) sum += s.exposed_ns;
    return sum;
  }());
  // forward: fc1, fc2; backward: fc2, then fc1 behind a collective, so a phase of its own
  EXPECT_EQ(
      number(
          "SELECT count(*) FROM range_event e JOIN region r ON r.id = e.region WHERE r.kind = 'layer' AND e.step IS NOT NULL"),
      100 * 4);
  EXPECT_EQ(rows("SELECT DISTINCT phase, layer FROM region WHERE kind = 'layer' ORDER BY 1, 2"),
            (Rows{{"backward", "fc1"}, {"backward", "fc2"}, {"forward", "fc1"}, {"forward", "fc2"}}));
  EXPECT_EQ(rows("SELECT count(*), count(DISTINCT step), min(value), max(value), min(name) FROM value"),
            (Rows{{"100", "25", "0.25", "0.25", "loss"}}));
  EXPECT_EQ(number("SELECT count(*) FROM value v JOIN step s ON s.process = v.process AND s.step = v.step"
                   " WHERE v.time_ns < s.start_ns OR v.time_ns > s.start_ns + s.duration_ns"),
            0);
}

TEST_F(IngestTest, EventsAreNumberedByProcessThreadAndStart) {
  // Requests that stay open over many others lie far behind their start in the log, here over several chunks.
  ingest_run(test::run()
                 .ranks(2)
                 .steps(1500)
                 .every(500)
                 .iallreduce(1_KiB, 1_ms)
                 .compute(10_us)
                 .allreduce(1_KiB, 1_us)
                 .sendrecv_ring(8, 1_us)
                 .every(500)
                 .waitall());
  EXPECT_GT(number("SELECT count(*) FROM event"), 5000);
  EXPECT_EQ(number("SELECT count(*) FROM (SELECT process AS p, thread AS t, start_ns AS s, lag(process) OVER w AS lp,"
                   " lag(thread) OVER w AS lt, lag(start_ns) OVER w AS ls FROM event WINDOW w AS (ORDER BY id))"
                   " WHERE (p, t, s) < (lp, lt, ls)"),
            0);
  EXPECT_EQ(number("SELECT max(id) FROM event"), number("SELECT count(*) FROM event"));
}

TEST_F(IngestTest, TheSameSpoolsGiveTheSameTables) {
  ingest_run(mixed_run().hosts(2).killed(3, 20).job_json());
  const auto dump = [&] {
    std::map<std::string, Rows> tables;
    for (const auto& table : rows("SELECT name FROM sqlite_schema WHERE type = 'table'")) {
      tables[table[0]] =
          rows("SELECT * FROM \"" + table[0] + "\"" + (table[0] == "meta" ? " WHERE key != 'ingested_at'" : ""));
    }
    return tables;
  };
  const auto first = dump();
  EXPECT_GT(first.at("event").size(), 800u);
  ingest_again();
  EXPECT_EQ(dump(), first);

  // Also from a copy of the folder whose files came in another order.
  std::vector<std::filesystem::path> spools = run().spools();
  std::reverse(spools.begin(), spools.end());
  const std::filesystem::path copy = scratch_ / "copy.ddl";
  std::filesystem::create_directory(copy);
  for (const auto& spool : spools) std::filesystem::copy_file(spool, copy / spool.filename());
  std::filesystem::copy_file(run().job(), copy / "job.json");
  std::filesystem::remove_all(folder());
  std::filesystem::rename(copy, folder());
  ingest_again();
  EXPECT_EQ(dump(), first);
}

TEST_F(IngestTest, LabelsOfCommunicatorsAreUniqueWithinAWorld) {
  ingest_run(test::run().ranks(4).steps(1).split("named", 2).split("", 2, true, false).compute(1_ms).barrier());
  std::set<std::string> labels;
  for (const auto& r : rows("SELECT label FROM communicator")) labels.insert(r[0]);
  labels.erase("MPI_COMM_SELF");
  EXPECT_EQ(labels,
            (std::set<std::string>{"MPI_COMM_WORLD", "named.0", "named.1", "MPI_Comm_split#1", "MPI_Comm_split#2"}));
  EXPECT_EQ(rows("SELECT m.comm_rank, m.rank FROM communicator_member m JOIN communicator c ON c.id = m.communicator"
                 " WHERE c.label = 'named.1' ORDER BY 1"),
            (Rows{{"0", "2"}, {"1", "3"}}));
  EXPECT_EQ(rows("SELECT m.rank FROM communicator_member m JOIN communicator c ON c.id = m.communicator"
                 " WHERE c.label LIKE 'MPI_Comm_split#%' ORDER BY c.label, m.comm_rank"),
            (Rows{{"0"}, {"2"}, {"1"}, {"3"}}));
  EXPECT_EQ(number("SELECT count(*) FROM communicator c JOIN communicator w ON w.id = c.parent JOIN op o ON o.id = c.op"
                   " WHERE w.kind = 'world' AND o.name = 'MPI_Comm_split'"),
            4);
}

TEST_F(IngestTest, TwoHostsWithoutACollectiveAreJoinedByTheirDates) {
  ingest_run(test::run().ranks(4).hosts(2, 3_ms).steps(5).compute(10_ms).message(0, 3, 1_KiB, 20_us));
  EXPECT_EQ(rows("SELECT method, sigma_ns, drift_ppm FROM host"),
            (Rows{{"realtime", "NULL", "NULL"}, {"realtime", "NULL", "NULL"}}));
  // The second host's date is 3 ms ahead: exactly that shows, because nothing else is known.
  EXPECT_EQ(number("SELECT max(start_ns) - min(start_ns) FROM process"), 3_ms);
  EXPECT_EQ(number("SELECT count(*) FROM loss WHERE kind = 'clock'"), 1);
}

TEST_F(IngestTest, OneHostHasOneClock) {
  ingest_run(test::run().ranks(3).steps(1).compute(1_ms).barrier());
  EXPECT_EQ(rows("SELECT clock, sigma_ns, drift_ppm, ticks_per_second, method FROM host"),
            (Rows{{"monotonic", "0.0", "0.0", "1000000000.0", "single-host"}}));
}

TEST_F(IngestTest, TwoLaunchesIntoOneFolderAreTwoWorlds) {
  test::run().ranks(2).steps(2).compute(1_ms).barrier().world(7, 0, 100).write(folder());
  ingest_run(test::run().ranks(3).steps(2).compute(1_ms).barrier().world(5, 1_s, 200));
  EXPECT_EQ(rows("SELECT world, group_concat(rank), max(world_size) FROM process GROUP BY world ORDER BY world"),
            (Rows{{"0", "0,1", "2"}, {"1", "0,1,2", "3"}}));
  EXPECT_EQ(rows("SELECT world, label FROM communicator WHERE kind = 'world' ORDER BY world"),
            (Rows{{"0", "MPI_COMM_WORLD"}, {"1", "MPI_COMM_WORLD"}}));
  EXPECT_EQ(number("SELECT count(*) FROM loss"), 0);
}

TEST_F(IngestTest, TheSameLaunchTwiceIsTwoWorldsToo) {
  test::run().ranks(2).steps(1).compute(1_ms).barrier().world(7, 0, 100).write(folder());
  ingest_run(test::run().ranks(2).steps(1).compute(1_ms).barrier().world(7, 1_s, 200));
  EXPECT_EQ(rows("SELECT world, rank, pid FROM process ORDER BY id"),
            (Rows{{"0", "0", "100"}, {"0", "1", "101"}, {"1", "0", "200"}, {"1", "1", "201"}}));
}

TEST_F(IngestTest, AnotherSizeIsAnotherWorldEvenIfTheLauncherGivesNoKey) {
  test::run().ranks(2).steps(1).compute(1_ms).barrier().world(0, 0, 100).write(folder());
  ingest_run(test::run().ranks(4).steps(1).compute(1_ms).barrier().world(0, 1_s, 200));
  EXPECT_EQ(rows("SELECT world, rank, pid FROM process ORDER BY id"), (Rows{{"0", "0", "100"},
                                                                            {"0", "1", "101"},
                                                                            {"1", "0", "200"},
                                                                            {"1", "1", "201"},
                                                                            {"1", "2", "202"},
                                                                            {"1", "3", "203"}}));
  EXPECT_EQ(number("SELECT count(*) FROM loss"), 0);
}

TEST_F(IngestTest, ViewsHaveTheColumnsThatTheyPromise) {
  ingest_run(test::run().ranks(2).steps(1).compute(1_ms).barrier());
  const std::map<std::string, std::vector<std::string>> promised = {
      {"v_collective",
       {"world", "rank", "step", "layer", "op", "comm", "comm_size", "seq", "bytes", "enter_ns", "leave_ns",
        "duration_ns", "wait_ns", "xfer_ns", "wait_method"}},
      {"v_call", {"world", "rank", "op", "comm", "calls", "bytes", "time_ns", "min_ns", "max_ns", "time_estimated"}},
      {"v_layer", {"world", "rank", "layer", "phase", "calls", "compute_ns", "comm_ns", "exposed_ns", "wait_ns"}},
      {"v_step",
       {"world", "rank", "step", "start_ns", "duration_ns", "compute_ns", "comm_ns", "exposed_ns", "wait_ns", "xfer_ns",
        "idle_ns"}},
      {"v_rank", {"world", "rank", "host", "pid", "node", "local_rank", "cpus", "numa"}},
      {"loss", {"rank", "kind", "count", "note"}}};
  for (const auto& [view, columns] : promised) {
    const std::vector<std::string> there = column_names(view);
    for (const std::string& column : columns)
      EXPECT_TRUE(std::count(there.begin(), there.end(), column)) << view << "." << column;
    rows("SELECT * FROM " + view);
  }
  for (const auto& view : rows("SELECT name FROM sqlite_schema WHERE type = 'view'")) {
    EXPECT_EQ(column_names(view[0]).front(), "world") << view[0];
  }
}

TEST_F(IngestTest, MetaTellsWhatJobJsonTold) {
  ingest_run(test::run()
                 .ranks(2)
                 .steps(1)
                 .compute(1_ms)
                 .barrier()
                 .command({"mpirun", "-np", "2", "./my train", "it's"})
                 .job_json(3));
  EXPECT_EQ(text("SELECT value FROM meta WHERE key = 'command'"), "mpirun -np 2 './my train' 'it'\\''s'");
  EXPECT_EQ(text("SELECT value FROM meta WHERE key = 'exit_code'"), "3");
  EXPECT_EQ(text("SELECT value FROM meta WHERE key = 'schema_version'"), std::to_string(kSchemaVersion));
  EXPECT_GT(number("SELECT value FROM meta WHERE key = 'duration_ns'"), 1_ms);
}

TEST_F(IngestTest, WhenAJobWasLastSeenIsToldWhereItsEndIsNot) {
  const std::string look = "SELECT max(value) FROM meta WHERE key = 'last_look_realtime_ns'";
  for (const auto& [text_of_file, told] :
       {std::pair<const char*, const char*>("00001700000000123456\n", "1700000000123456"),
        {"", "NULL"},
        {"soon", "NULL"}}) {
    ingest_run(test::run().ranks(2).steps(1).compute(1_ms).barrier());
    std::ofstream(run().last_look()) << text_of_file;
    EXPECT_GE(run().changed_realtime_ns(), *changed_ns(run().last_look()));
    ingest_again();
    EXPECT_EQ(rows(look)[0][0], told);
    std::filesystem::remove_all(folder());
  }
  ingest_run(test::run().ranks(2).steps(1).compute(1_ms).barrier().job_json(0));
  std::ofstream(run().last_look()) << "00001700000000123456\n";
  ingest_again();
  EXPECT_EQ(rows(look)[0][0], "NULL") << "its end was seen";
}

TEST_F(IngestTest, IdsOfTheBatchSystemAreThoseThatTheProcessesAgreeOn) {
  const auto job = [](const char* step) {
    return test::run()
        .ranks(2)
        .steps(1)
        .compute(1_ms)
        .barrier()
        .fact("job_id", "4711")
        .fact("job_step_id", step)
        .fact("cpus", "2-3");
  };
  const std::string ids = "SELECT key, value FROM meta WHERE key LIKE 'job%' ORDER BY key";
  ingest_run(job("0"));
  EXPECT_EQ(rows(ids), (Rows{{"job_id", "4711"}, {"job_step_id", "0"}}));
  EXPECT_EQ(rows("SELECT rank, node, cpus, local_rank IS NULL, numa IS NULL FROM v_rank ORDER BY rank"),
            (Rows{{"0", "1", "2-3", "1", "1"}, {"1", "1", "2-3", "1", "1"}}));
  ingest_run(job("1").world(7, 1_s, 500));  // a second step into the same folder
  EXPECT_EQ(rows(ids), (Rows{{"job_id", "4711"}}));
}

TEST_F(IngestTest, ABrokenJobJsonIsALossAndNoFailure) {
  test::run().ranks(2).steps(1).compute(1_ms).barrier().write(folder());
  std::ofstream(folder() / "job.json") << "{\"command\": [\"mpirun\"";
  ingest_again();
  EXPECT_EQ(rows("SELECT kind, count FROM loss"), (Rows{{"job_file", "1"}}));
}

TEST_F(IngestTest, NamesAreTextWhateverTheyWere) {
  ingest_run(test::run().ranks(2).steps(1).names(test::hostile_names()).compute(1_ms).barrier());
  EXPECT_EQ(number("SELECT count(*) FROM region WHERE kind = 'layer'"),
            static_cast<int64_t>(test::hostile_names().size()));
  for (int c = 0; c < 32; ++c) {  // SQLite's own idea of the stored characters
    EXPECT_EQ(number("SELECT count(*) FROM region WHERE instr(name, char(" + std::to_string(c) + ")) > 0 AND " +
                     std::to_string(c) + " > 0"),
              0)
        << c;
  }
}

}  // namespace
}  // namespace ddl
