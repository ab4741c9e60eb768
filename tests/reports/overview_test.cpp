#include "reports/overview.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "core/error.h"
#include "reports/csv.h"
#include "reports/format.h"
#include "reports/json.h"
#include "reports/rows.h"
#include "reports/safe_text.h"
#include "reports/text.h"
#include "tests/analyzer/analyzed.h"
#include "tests/reports/golden.h"
#include "tests/reports/handmade_run.h"

namespace ddl::reports {
namespace {

using test::EmptyRun;
using test::expect_golden;
using test::HandmadeRun;

std::string overview_of(SQLite::Database& db, const TextOptions& options = {}) {
  const RunView view = test::view_of(db);
  return render_text(build_overview(view, "train.ddl"), options);
}

std::string section_of(SQLite::Database& db, const char* name) {
  const RunView view = test::view_of(db);
  return render_text(build_section(view, name), {});
}

nlohmann::json json_of(SQLite::Database& db) {
  const RunView view = test::view_of(db);
  return nlohmann::json::parse(render_json(build_everything(view, "train.ddl")));
}

void expect_exit_code(ExitCode code, const auto& action) {
  try {
    action();
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
  }
}

TEST(Golden, Piped) {
  HandmadeRun run;
  expect_golden(overview_of(run.db()), "overview.txt");
}

TEST(Golden, Narrow) {
  HandmadeRun run;
  expect_golden(overview_of(run.db(), {.width = 80, .color = false}), "overview-80.txt");
}

// A job that hung and was killed together with `ddl record`: the 60 ms before are not the run.
TEST(Overview, ARunThatEndsInCallsWithoutReturnSaysForHowLong) {
  test::Analyzed run(test::run().ranks(3).steps(3).no_steps().compute(20_ms).allreduce(1_MiB, 1_ms).hang(1, 2));
  const std::string unseen = overview_of(run.db, {.width = 300, .color = false});
  EXPECT_TRUE(test::has(unseen, "no steps marked, then not known")) << unseen;
  EXPECT_TRUE(test::has(unseen, "RUN             at least ")) << unseen;
  EXPECT_TRUE(test::has(unseen, "2 ranks then sat in calls that never returned, nobody saw for how long")) << unseen;
  EXPECT_TRUE(test::has(
      unseen, "VERDICT         withheld: ranks sat in calls that never returned, and nobody saw for how long"))
      << unseen;
  run.db.exec(
      "INSERT INTO meta SELECT 'last_look_realtime_ns', CAST(value AS INTEGER) + (SELECT max(end_ns) FROM process) + 90000000000 FROM meta"
      " WHERE key = 'epoch_realtime_ns'");
  const std::string looked = overview_of(run.db, {.width = 300, .color = false});
  EXPECT_TRUE(test::has(looked, "no steps marked, then nothing for at least 1m 30s")) << looked;
  EXPECT_TRUE(test::has(looked, "2 ranks then sat in calls that never returned, for at least 1m 30s")) << looked;
}

TEST(Overview, WhoWaitedForWhomIsAShareOfAllWaiting) {
  test::HandmadeRun run;
  run.db().exec(
      "DELETE FROM blame; DELETE FROM message_blame;"
      "INSERT INTO blame (world, late, waiter, instances, wait_ns, sigma_ns) VALUES (0, 1, 0, 12, 30000000, 0);"
      "INSERT INTO message_blame (world, late, waiter, kind, calls, wait_ns, sigma_ns) VALUES (0, 0, 1, 'late_sender', 4, 10000000, 0)");
  const Document document = build_section(test::view_of(run.db()), "blame");
  ASSERT_EQ(document.tables.at(0).rows.size(), 2u);
  const std::vector<Value>& most = document.tables[0].rows[0];
  EXPECT_EQ(most[0].as_double(), 0.75);
  EXPECT_EQ(most[4].as_integer(), 1) << "late";
  EXPECT_EQ(most[5].as_integer(), 0) << "waits";
  EXPECT_EQ(most[6].as_text(), "collective");
}

TEST(Overview, ProcessesSayHowTheyEnded) {
  test::HandmadeRun run;
  run.db().exec("UPDATE process SET ended = 'aborted', abort_code = 7, rank = NULL WHERE id = 2");
  const Document document = build_section(test::view_of(run.db()), "processes");
  ASSERT_EQ(document.tables.at(0).rows.size(), 2u);
  EXPECT_EQ(document.tables[0].rows[0][4].as_text(), "finalized");
  EXPECT_EQ(document.tables[0].rows[1][4].as_text(), "aborted(7)");
  EXPECT_TRUE(document.tables[0].rows[1][1].is_absent()) << "it has no rank";
}

/// For one axis nothing is shown that the table of collectives does not say.
TEST(Overview, AxesAreToldApart) {
  test::HandmadeRun run;
  const RunView view = test::view_of(run.db());
  const auto section = [&] { return render_text(build_section(view, "axes"), {.width = 140, .color = false}); };
  const auto is_in_overview = [&] {
    return render_text(build_overview(view, "train.ddl"), {.width = 140, .color = false})
               .find("by axis of parallelism") != std::string::npos;
  };
  run.db().exec("INSERT INTO communicator_axis VALUES (1, 'data', 'name')");
  EXPECT_FALSE(is_in_overview());
  run.db().exec(
      "INSERT INTO communicator_axis VALUES (2, 'stride 1', 'shape');"
      "INSERT INTO late (world, step, rank, ties, wait_ns, longest_ns, instances, message, comm) VALUES"
      " (0, 1, 1, 1, 30000000, 30000000, 1, 0, 1), (0, 2, 0, 1, 10000000, 10000000, 1, 0, 1);"
      "INSERT INTO gpu_axis_part VALUES (1, 0, NULL, 'data', 9, 1, 7000000, 1), (2, 0, NULL, 'data', 9, 1, 5000000, 1),"
      " (1, 0, 3, 'data', 9, 1, 8, 1)");
  EXPECT_TRUE(is_in_overview());
  const std::string text = section();
  EXPECT_NE(text.find("12.000ms"), std::string::npos) << "exposed on both GPUs, the steps not counted twice: " << text;
  EXPECT_NE(text.find("75.0%"), std::string::npos) << "rank 1 caused 30 of 40 ms: " << text;
  EXPECT_NE(text.find("-          -          -  shape     stride 1"), std::string::npos)
      << "no GPU carried out the others: " << text;
}

TEST(Overview, AxesAreToldRankByRank) {
  test::HandmadeRun run;
  const RunView view = test::view_of(run.db());
  const auto rows = [&](const char* name) { return build_section(view, name).tables.at(0).rows; };
  run.db().exec(
      "DELETE FROM late; INSERT OR REPLACE INTO communicator_axis VALUES (1, 'data', 'name'), (2, 'tensor', 'name');"
      "INSERT INTO late (world, step, rank, ties, wait_ns, longest_ns, instances, message, comm) VALUES"
      " (0, 1, 1, 1, 30, 20, 1, 0, 1), (0, 2, 0, 1, 10, 10, 1, 0, 1), (0, 3, 1, 1, 5, 5, 1, 0, 2), (0, 3, 1, 1, 5, 5, 1, 0, 2)");
  const auto blame = rows("axis_blame");
  ASSERT_EQ(blame.size(), 3u);
  EXPECT_EQ(blame[0][0].as_double(), 0.75) << "of 40 on the axis";
  EXPECT_EQ(blame[0][4].as_integer(), 1);
  EXPECT_EQ(blame[2][3].as_integer(), 2) << "collectives";
  EXPECT_EQ(blame[2][5].as_text(), "tensor");
  EXPECT_TRUE(rows("traffic").empty()) << "no all-to-all ran";
  run.db().exec(
      "UPDATE op SET name = 'MPI_Alltoallv' WHERE name = 'MPI_Allreduce'; UPDATE event SET bytes = NULL WHERE process = 2");
  const auto traffic = rows("traffic");
  ASSERT_GE(traffic.size(), 2u);
  EXPECT_FALSE(traffic[0][0].is_absent());
  EXPECT_TRUE(traffic[1][0].is_absent()) << "not known of rank 1";
  EXPECT_TRUE(traffic[1][1].is_absent());
}

TEST(Overview, NoLineIsWiderThanAsked) {
  for (const size_t width : {60, 72, 80, 104, 132, 200}) {
    HandmadeRun run;
    run.db().exec(
        "UPDATE host SET name = 'a-host-name-that-is-much-too-long.for.any.terminal.example.org';"
        " UPDATE communicator SET label = label || '" +
        std::string(500, 'x') + "'");
    std::istringstream lines(overview_of(run.db(), {.width = width, .color = false}));
    for (std::string line; std::getline(lines, line);) EXPECT_LE(display_width(line), width) << line;
  }
}

TEST(Overview, SharesAddUp) {
  HandmadeRun run;
  const auto where = json_of(run.db())["where_it_goes"];
  EXPECT_DOUBLE_EQ(where["compute_ratio"].get<double>() + where["exposed_transfer_ratio"].get<double>() +
                       where["waiting_ratio"].get<double>() + where["idle_ratio"].get<double>(),
                   1.0);
  EXPECT_DOUBLE_EQ(where["waiting_ratio"].get<double>(), 0.15);
}

TEST(Overview, LatenessOfTheSlowRank) {
  HandmadeRun run;
  const auto ranks = json_of(run.db())["ranks"];
  ASSERT_EQ(ranks.size(), 2u);
  EXPECT_EQ(ranks[0]["late_ns"], 0);
  EXPECT_EQ(ranks[1]["late_ns"], 30'000'000);
  EXPECT_EQ(ranks[0]["wait_ns"], 30'000'000);
  EXPECT_EQ(ranks[1]["compute_ns"], 90'000'000);
}

TEST(Overview, WithoutACpu) {
  HandmadeRun run;
  EXPECT_EQ(json_of(run.db())["ranks"][1]["no_cpu_ratio_why"], "NO_DATA");
  EXPECT_EQ(overview_of(run.db()).find("No CPU"), std::string::npos);
  for (const char* fact :
       {"'run_queue_wait_ns', 3000000000", "'on_cpu_ns', 5000000000", "'cpu_account_ns', 12000000000"})
    run.db().exec(std::string("INSERT INTO process_fact VALUES (2, ") + fact + ")");
  const auto ranks = json_of(run.db())["ranks"];
  EXPECT_TRUE(ranks[0]["no_cpu_ratio"].is_null());
  EXPECT_DOUBLE_EQ(ranks[1]["no_cpu_ratio"].get<double>(), 0.25);
  const std::string text = overview_of(run.db());
  EXPECT_NE(text.find("No CPU(%)"), std::string::npos) << text;
  EXPECT_NE(text.find("25.0%"), std::string::npos) << text;
}

TEST(Overview, UnknownWaitingIsNotZero) {
  HandmadeRun run;
  run.db().exec("UPDATE step_part SET wait_ns = NULL, xfer_ns = NULL, why = 'PARTIAL_RANKS' WHERE process = 2");
  const std::string some = overview_of(run.db());
  EXPECT_NE(some.find("exposed transfer 5.0%   waiting 15.0%   not split 5.0% (PARTIAL_RANKS)"), std::string::npos)
      << some;
  HandmadeRun unknown;
  unknown.db().exec("UPDATE step_part SET wait_ns = NULL, xfer_ns = NULL, why = 'PARTIAL_RANKS'");
  const std::string nothing = overview_of(unknown.db());
  EXPECT_NE(nothing.find("in MPI 25.0%   of which waiting n/a(PARTIAL_RANKS)"), std::string::npos) << nothing;
}

TEST(Overview, MpiIsSaidOnlyOfJobsThatCallIt) {
  for (const bool mpi : {true, false}) {
    HandmadeRun run;
    if (!mpi)
      run.db().exec("UPDATE op SET name = 'gloo::' || name WHERE name LIKE 'MPI%'; UPDATE process SET init_ns = NULL");
    run.db().exec(
        "UPDATE step_part SET wait_ns = NULL, xfer_ns = NULL, why = 'PARTIAL_RANKS'; UPDATE process SET ended = 'lost' WHERE rank = 0;"
        "UPDATE process SET ended = 'exec' WHERE rank = 1;"
        "INSERT INTO process SELECT id + 10, 1, rank, world_size, host, pid + 1000, end_ns + 1, end_ns + 2, NULL, NULL, 'exited', NULL,"
        " thread_level, clock, 0, 0, exe, command, 't', 0 FROM process");
    const std::string text = overview_of(run.db(), {.width = 500, .color = false});
    const std::string head = text.substr(0, text.find("BY RANK"));
    EXPECT_EQ(head.find("MPI") != std::string::npos, mpi) << head;
    EXPECT_NE(head.find(mpi ? "The run holds 2 worlds (MPI_Comm_spawn, or several mpirun)"
                            : "The run holds 2 worlds (torchrun started the ranks again, or several jobs ran)"),
              std::string::npos)
        << head;
    EXPECT_NE(head.find(mpi ? "rank 0 ended without MPI_Finalize or exit" : "rank 0 ended without exit"),
              std::string::npos)
        << head;
    EXPECT_NE(head.find(mpi ? "in MPI 25.0%" : "in collectives 25.0%"), std::string::npos) << head;
  }
}

TEST(Overview, SaysHowFarClocksMayBeOff) {
  const auto two_hosts = [](HandmadeRun& run, const std::string& first, const std::string& second) {
    run.db().exec("UPDATE host SET sigma_ns = " + first + "; UPDATE process SET host = 1 + rank;" +
                  "INSERT INTO host VALUES (2, 'nid0043', 'b2', 'tsc', 2.1e9, 20, 7, -3, " + second +
                  ", 'collectives')");
    return overview_of(run.db());
  };
  HandmadeRun one, bound, both, unknown;
  EXPECT_NE(overview_of(one.db()).find("one clock"), std::string::npos);
  EXPECT_NE(two_hosts(bound, "0", "4000").find("clock error < 12.0 us"), std::string::npos) << "three sigma";
  EXPECT_NE(two_hosts(both, "3000", "4000").find("clock error < 15.0 us"), std::string::npos) << "variances add up";
  EXPECT_NE(two_hosts(unknown, "0", "NULL").find("clock error unknown"), std::string::npos);
}

TEST(Overview, HowLongTheRunTookIsNotKnownByAClockThatWasSetBack) {
  HandmadeRun run;
  EXPECT_TRUE(json_of(run.db())["run"]["duration_ns"].is_number());
  run.db().exec("INSERT INTO loss VALUES (0, 1, 'clock_back', 100, 'records from before their process began')");
  const std::string text = overview_of(run.db());
  EXPECT_NE(text.find("steps in n/a(CLOCK_UNTRUSTED)"), std::string::npos) << text.substr(0, 200);
  const nlohmann::json told = json_of(run.db())["run"];
  EXPECT_TRUE(told["duration_ns"].is_null());
  EXPECT_EQ(told["duration_ns_why"], "CLOCK_UNTRUSTED");
}

TEST(Overview, TheRunIsAsLongAsItsWholeHeadersSay) {
  HandmadeRun run;
  const nlohmann::json before = json_of(run.db())["run"]["duration_ns"];
  run.db().exec("UPDATE process SET end_ns = end_ns + 500000000000000000 WHERE rank = 1");
  EXPECT_NE(json_of(run.db())["run"]["duration_ns"], before);
  run.db().exec("INSERT INTO loss VALUES (0, 1, 'damaged_header', 4096, 'its header says what cannot be')");
  EXPECT_EQ(json_of(run.db())["run"]["duration_ns"], before);
}

TEST(Overview, WithoutStepsTheRunIsTheStep) {
  HandmadeRun run;
  run.db().exec(
      "DELETE FROM step; DELETE FROM step_part;"
      "INSERT INTO rank_part VALUES (1, 1000000000, 600000000, 400000000, 400000000, 300000000, 100000000, 0, NULL, 0),"
      "  (2, 1000000000, 900000000, 100000000, 100000000, 0, 100000000, 0, NULL, 0)");
  const std::string text = overview_of(run.db());
  EXPECT_NE(text.find("saves/run"), std::string::npos) << text;
  EXPECT_NE(text.find("no steps marked"), std::string::npos) << text;
  EXPECT_NE(text.find("compute 75.0%"), std::string::npos) << text;
}

/// Lateness is the median rank's waiting less its own, whatever it waits in.
TEST(Overview, LateToMessagesIsNotLateToCollectives) {
  HandmadeRun run;
  EXPECT_NE(overview_of(run.db()).find("Late: enters collectives later than the median rank."), std::string::npos);
  run.db().exec("INSERT INTO message_blame VALUES (0, 1, 0, 'late_sender', 7, 40000000, 0)");
  EXPECT_NE(overview_of(run.db()).find("Late: the median rank's waiting less its own, in messages."), std::string::npos)
      << overview_of(run.db());
  run.db().exec("INSERT INTO blame SELECT 0, 1, 0, 7, 40000000, 0");
  EXPECT_NE(overview_of(run.db()).find("its own, in collectives and messages."), std::string::npos)
      << overview_of(run.db());
}

/// What the report of a run without findings says in their place, its lines joined.
std::string nothing_to_fix(HandmadeRun& run) {
  run.db().exec("DELETE FROM finding");
  std::string text = overview_of(run.db());
  text.erase(0, text.find("WHAT TO FIX"));
  text.erase(text.find("\n\n"));
  for (size_t at; (at = text.find('\n')) != std::string::npos;) text.erase(at, 1);
  return text;
}

TEST(Overview, NoFindingSaysSo) {
  HandmadeRun run;
  run.db().exec("UPDATE step_part SET wait_ns = 0, xfer_ns = exposed_ns");
  const std::string text = nothing_to_fix(run);
  EXPECT_NE(text.find("nothing: no straggler, no crowd of small collectives"), std::string::npos) << text;
}

/// Half of rank 1's exposed communication is waiting; nobody is found to blame for it.
TEST(Overview, NoFindingIsNotNothingWhereRanksWait) {
  HandmadeRun run;
  const std::string text = nothing_to_fix(run);
  EXPECT_EQ(text.find("nothing"), std::string::npos) << text;
  EXPECT_NE(text.find("no single rank explains the waiting, 15.0% of the step (who waited for whom: ddl report blame)"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("no crowd of small collectives"), std::string::npos) << text;
}

TEST(Overview, NoFindingTellsWhatNeedsSteps) {
  HandmadeRun run;
  run.db().exec(
      "DELETE FROM step; DELETE FROM step_part;"
      "INSERT INTO rank_part VALUES (1, 1000000000, 900000000, 100000000, 100000000, 0, 100000000, 0, NULL, 0),"
      "  (2, 1000000000, 900000000, 100000000, 100000000, 0, 100000000, 0, NULL, 0)");
  const std::string text = nothing_to_fix(run);
  EXPECT_NE(text.find("nothing: no straggler; the job marks no steps"), std::string::npos) << text;
  EXPECT_NE(text.find("were not looked for"), std::string::npos) << text;
  EXPECT_EQ(text.find("no crowd"), std::string::npos) << text;
}

TEST(Overview, SaysHowTheJobEnded) {
  HandmadeRun run;
  run.db().exec(
      "INSERT INTO meta VALUES ('signal', '9'); UPDATE process SET ended = 'lost', finalize_ns = NULL WHERE rank = 1");
  const std::string text = overview_of(run.db());
  EXPECT_NE(text.find("killed by SIGKILL"), std::string::npos) << text;
  EXPECT_NE(text.find("rank 1 ended without MPI_Finalize"), std::string::npos) << text;
}

TEST(Overview, NoRankCannotBeAnswered) {
  EmptyRun run;
  expect_exit_code(ExitCode::kDataMissing, [&] { overview_of(run.db()); });
}

TEST(Overview, WithoutRanksThereAreProcesses) {
  HandmadeRun run;
  run.db().exec(
      "UPDATE process SET rank = NULL, world_size = NULL; UPDATE process SET ended = 'lost', exe = '/bin/worker' WHERE id = 2;"
      " DELETE FROM finding");
  const std::string text = overview_of(run.db());
  EXPECT_NE(text.find("2 processes without a rank on 1 host"), std::string::npos) << text;
  EXPECT_NE(text.find("(worker), which had no rank, ended abnormally"), std::string::npos) << text;
  EXPECT_NE(text.find("Processes that recorded something"), std::string::npos) << text;
  EXPECT_NE(text.find("findings compare ranks"), std::string::npos) << text;
}

TEST(Overview, UnknownWorldIsAUsageError) {
  HandmadeRun run;
  expect_exit_code(ExitCode::kUsage, [&] { RunView(run.db(), 7); });
}

TEST(Sections, EachPrintsItsTableOnly) {
  for (const Section& section : sections()) {
    HandmadeRun run;
    const std::string text = section_of(run.db(), section.name);
    EXPECT_FALSE(text.empty()) << section.name;
    EXPECT_EQ(text.find("train.ddl"), std::string::npos) << section.name;
  }
  HandmadeRun run;
  expect_exit_code(ExitCode::kUsage, [&] { section_of(run.db(), "nonsense"); });
}

TEST(Sections, EveryLossIsShown) {
  HandmadeRun run;
  for (int i = 0; i < 40; ++i)
    run.db().exec("INSERT INTO loss VALUES (0, 0, 'kind" + std::to_string(i) + "', 1, 'note')");
  const std::string text = overview_of(run.db());
  for (int i = 0; i < 40; ++i) EXPECT_NE(text.find("kind" + std::to_string(i)), std::string::npos);
}

TEST(Json, KeepsTheContract) {
  HandmadeRun run;
  const auto report = json_of(run.db());
  EXPECT_EQ(report["schema"], 1);
  for (const char* key : {"run", "findings", "metrics", "collectives", "calls", "layers", "ranks", "steps", "loss",
                          "open_calls", "where_it_goes", "verdict"})
    EXPECT_TRUE(report.contains(key)) << key;
  for (const char* key : {"id", "sentence", "rank", "saving_ns", "share_ratio", "confidence", "evidence", "try"})
    EXPECT_TRUE(report["findings"][0].contains(key)) << key;
  for (const char* key : {"id", "value", "unit", "why", "lo", "hi"})
    EXPECT_TRUE(report["metrics"][0].contains(key)) << key;
  for (const char* key : {"rank", "kind", "count", "note"}) EXPECT_TRUE(report["loss"][0].contains(key)) << key;
  EXPECT_EQ(report["findings"][0]["rank"], 1);
  EXPECT_EQ(report["findings"][0]["saving_ns"], 30'000'000);
  EXPECT_TRUE(report["findings"][1]["rank"].is_null());
  for (const auto& metric : report["metrics"])
    if (metric["id"] == "ccr_xfer") {
      EXPECT_TRUE(metric["value"].is_null());
      EXPECT_EQ(metric["why"], "ZERO_DENOM");
    }
  for (const auto& group : report["collectives"])
    if (group["op"] == "MPI_Iallreduce") {
      EXPECT_TRUE(group["wait_ns"].is_null());
      EXPECT_EQ(group["wait_ns_why"], "PARTIAL_RANKS");
    }
  EXPECT_EQ(report["run"]["ranks"], 2);
}

std::string written(const RunView& view, size_t rows_by_rank) {
  std::string text;
  write_everything(view, "train.ddl", rows_by_rank, [&text](std::string_view piece) { text += piece; });
  return text;
}

TEST(Json, WrittenRowByRowItIsTheSame) {
  HandmadeRun run;
  const RunView view = test::view_of(run.db());
  const std::string text = written(view, SIZE_MAX);
  EXPECT_EQ(text, render_json(build_everything(view, "train.ddl")));
  EXPECT_EQ(text, nlohmann::ordered_json::parse(text).dump(2) + "\n") << "as a library would have laid it out";
}

TEST(Json, TablesByRankEndWhereTheyAreToldTo) {
  HandmadeRun run;
  const RunView view = test::view_of(run.db());
  const nlohmann::json all = nlohmann::json::parse(written(view, SIZE_MAX)),
                       some = nlohmann::json::parse(written(view, 1));
  ASSERT_GT(all["ranks"].size(), 1u);
  ASSERT_GT(all["processes"].size(), 1u);
  EXPECT_FALSE(all.contains("left_out"));
  for (const auto& [key, value] : all.items()) {
    const bool by_rank =
        key == "ranks" || key == "blame" || key == "processes" || key == "axis_blame" || key == "traffic";
    if (!by_rank || value.size() <= 1) {
      EXPECT_EQ(some[key], value) << key;
      EXPECT_FALSE(some["left_out"].contains(key)) << key;
      continue;
    }
    ASSERT_EQ(some[key].size(), 1u) << key;
    EXPECT_EQ(some[key][0], value[0]) << key;
    EXPECT_EQ(some["left_out"][key], value.size() - 1) << key;
  }
}

TEST(Json, HostileNamesStayValidUtf8) {
  HandmadeRun run;
  SQLite::Statement update(run.db(), "UPDATE communicator SET label = ?");
  update.bindNoCopy(1, "x\xff\x1b[31m\xe2\x80\xae\xc0", 11);
  update.exec();
  const RunView view = test::view_of(run.db());
  const std::string text = render_json(build_everything(view,
                                                        "a\xff"
                                                        "b.ddl"));
  EXPECT_TRUE(nlohmann::json::accept(text));
  for (size_t offset = 0; offset < text.size();) ASSERT_NE(next_code_point(text, offset), kNotUtf8);
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  EXPECT_EQ(render_text(build_overview(view,
                                       "a\xff"
                                       "b.ddl"),
                        {})
                .find('\x1b'),
            std::string::npos);
}

TEST(Csv, QuotesAndDefusesFormulas) {
  EXPECT_EQ(csv_text("plain"), "plain");
  EXPECT_EQ(csv_text("a,b"), "\"a,b\"");
  EXPECT_EQ(csv_text("say \"hi\"\n"), "\"say \"\"hi\"\"\n\"");
  EXPECT_EQ(csv_text("=1+2"), "'=1+2");
  EXPECT_EQ(csv_text("@SUM(A1),x"), "\"'@SUM(A1),x\"");
  EXPECT_EQ(csv_text("-x"), "'-x");
  EXPECT_EQ(csv_text(""), "");
}

TEST(Csv, OneViewWithHeader) {
  HandmadeRun run;
  std::string text;
  write_csv(run.db(), "rank", [&](std::string_view part) { text += part; });
  EXPECT_TRUE(text.starts_with("world,rank,host,pid,")) << text;
  EXPECT_NE(text.find("\r\n0,1,nid0042,101,2,0,1500000000,"), std::string::npos) << text;
  text.clear();
  write_csv(run.db(), "loss", [&](std::string_view part) { text += part; });
  EXPECT_NE(text.find("0,1,not_kept,40,"), std::string::npos) << text;
  expect_exit_code(ExitCode::kUsage, [&] { write_csv(run.db(), "nonsense", [](std::string_view) {}); });
}

TEST(Csv, NumbersAreNotFormulas) {
  HandmadeRun run;
  Rows rows(run.db(), "SELECT -5 AS a, -0.5 AS b, NULL AS c, '-5' AS d");
  std::string text;
  write_csv(rows, [&](std::string_view part) { text += part; });
  EXPECT_EQ(text, "a,b,c,d\r\n-5,-0.5,,'-5\r\n");
}

TEST(Rows, RefuseToWrite) {
  HandmadeRun run;
  for (const char* sql : {"DELETE FROM meta", "INSERT INTO meta VALUES ('a', 'b')", "ATTACH ':memory:' AS x",
                          "VACUUM INTO '/tmp/ddl-test-vacuum'", "CREATE TEMP TABLE x (a)", "PRAGMA journal_mode = WAL",
                          "DROP VIEW v_rank", "SELECT 1; DELETE FROM meta", "", "SELEC 1", "SELECT * FROM nonsense",
                          "SELECT nonsense FROM v_rank"}) {
    SCOPED_TRACE(sql);
    expect_exit_code(ExitCode::kUsage, [&] { Rows rows(run.db(), sql); });
  }
  Rows rows(run.db(),
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3)"
            " SELECT i, i * 0.5 AS half, NULL AS none, 'x' AS name FROM n; ");
  EXPECT_EQ(render_table(to_table(rows), {}),
            " i  half  none  name\n 1   0.5        x\n 2     1        x\n 3   1.5        x\n");
}

TEST(Rows, ColumnsOfOneNameHaveDifferentKeys) {
  HandmadeRun run;
  Rows rows(run.db(), "SELECT 1 AS rank, 2 AS rank, 3 AS rank_2, 4 AS rank");
  const Table table = to_table(rows);
  EXPECT_EQ(render_json(table),
            "[\n  {\n    \"rank\": 1,\n    \"rank_2\": 2,\n    \"rank_2_2\": 3,\n    \"rank_3\": 4\n  }\n]\n");
  EXPECT_EQ(render_table(table, {}), " rank  rank  rank_2  rank\n    1     2       3     4\n");
}

TEST(Rows, HintNamesTheViews) {
  HandmadeRun run;
  try {
    Rows rows(run.db(), "SELECT * FROM nonsense");
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(error.hint().find("v_collective"), std::string::npos);
  }
}

TEST(LikeGroups, AreOneRowWithTheirSpreadAndTheWorstByName) {
  const auto row = [](const char* op, const std::string& comm, int64_t calls, int64_t time_ns, Value wait) {
    return std::vector<Value>{Value::ratio(static_cast<double>(time_ns) / 1000),
                              Value::duration_ns(time_ns),
                              Value::count(calls),
                              Value::duration_ns(time_ns / calls),
                              Value::duration_ns(time_ns / calls - 1),
                              Value::duration_ns(time_ns / calls + 1),
                              std::move(wait),
                              Value::bandwidth(1e9 * static_cast<double>(calls)),
                              Value::text(std::string(op) + " 1MiB " + comm),
                              Value::text(op),
                              Value::text(comm),
                              Value::bytes(1 << 20)};
  };
  Table table;
  table.rows = {row("MPI_Allreduce", "MPI_COMM_WORLD", 10, 300, Value::duration_ns(7)),
                row("MPI_Allreduce", "dp#0", 10, 100, Value::duration_ns(1)),
                row("MPI_Allreduce", "dp#11", 10, 400, Value::duration_ns(2).bounded(Value::Bound::kLower)),
                row("MPI_Allgather", "dp#0", 5, 50, Value::duration_ns(5)),
                row("MPI_Allreduce", "dp#2", 20, 120, Value::duration_ns(3)),
                row("MPI_Allgather", "tp#1", 5, 30, Value::absent(Unit::kDuration, "PARTIAL_RANKS"))};
  merge_like_groups(table);
  ASSERT_EQ(table.rows.size(), 4u);
  const std::vector<Value>& merged = table.rows[0];  // the longest: 620 of 1,000 ns
  EXPECT_EQ(merged[8].as_text(), "MPI_Allreduce 1MiB dp#*: 3 groups, avg 6ns to 40ns, worst dp#11");
  EXPECT_EQ(merged[0].as_double(), 0.62);
  EXPECT_EQ(merged[1].as_integer(), 620);
  EXPECT_EQ(merged[2].as_integer(), 40);
  EXPECT_EQ(merged[3].as_integer(), 16);
  EXPECT_EQ(merged[4].as_integer(), 5);
  EXPECT_EQ(merged[5].as_integer(), 41);
  EXPECT_EQ(table_text(merged[6]), ">=6ns");
  EXPECT_EQ(merged[7].as_double(), 10e9);
  EXPECT_EQ(table.rows[1][8].as_text(), "MPI_Allreduce 1MiB MPI_COMM_WORLD");
  EXPECT_EQ(table.rows[2][8].as_text(), "MPI_Allgather 1MiB dp#0");
  EXPECT_TRUE(table.rows[3][6].is_absent());
}

}  // namespace
}  // namespace ddl::reports
