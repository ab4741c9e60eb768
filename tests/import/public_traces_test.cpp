// Public traces: what HTA's rules give on them is published, and our own partition must add up on all of them. Too
// large for the repository (extra: needs ../shared, skipped without it).
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <memory>

#include "analyzer/facts.h"
#include "analyzer/models/replay_imported.h"
#include "analyzer/models/what_if.h"
#include "tests/import/imported.h"

namespace ddl::test {
namespace {

namespace fs = std::filesystem;

const fs::path kTraces = DDL_SOURCE_DIR "/../shared/traces";

#define SKIP_WITHOUT_TRACES() \
  if (!fs::exists(kTraces)) GTEST_SKIP() << "an extra that needs public traces in " << kTraces

/// Imported once for all tests, which only read: `file` below kTraces.
Imported& kineto(const std::string& file) {
  static std::map<std::string, std::unique_ptr<Imported>> known;
  auto& run = known[file];
  if (run == nullptr) run = std::make_unique<Imported>("kineto", std::vector<fs::path>{kTraces / file});
  return *run;
}

std::vector<fs::path> all_traces() {
  std::vector<fs::path> traces;
  for (const char* folder : {"hta", "kineto_tb"})
    for (const auto& entry : fs::recursive_directory_iterator(kTraces / folder))
      if (entry.path().extension() == ".gz") traces.push_back(fs::relative(entry.path(), kTraces));
  return traces;
}

/// specification.md G-B, the whole trace; ns, and percent with two digits. -1: n/a.
struct Published {
  const char* file;
  int64_t span_ns, idle_ns, compute_ns, non_compute_ns, comm_ns;
  double overlap;
};
constexpr Published kPublished[] = {
    {"hta/trace_diff/control/control.json.gz", 464594'000, 76007'000, 281336'000, 107251'000, 163535'000, 46.24},
    {"hta/trace_diff/test/test.json.gz", 745239'000, 27296'000, 548148'000, 169795'000, 251341'000, 70.84},
    {"hta/df_index_resolver/df_index_resolver.json.gz", 1732965'000, 732352'000, 620516'000, 380097'000, 357343'000,
     0.00},
    {"hta/nccl_parser_config/nccl_data.json.gz", 660551'000, 503050'900, 115655'800, 41844'200, 46876'500, 15.61},
    {"hta/critical_path/alexnet/benchmark_result_2869224_1695835535_trace.json.gz", 12920244'000, 12854103'000,
     10630'000, 55511'000, 0, -1},
};

TEST(PublicTraces, HtaRulesGiveItsValuesOfWholeTraces) {
  SKIP_WITHOUT_TRACES();
  for (const Published& published : kPublished) {
    SCOPED_TRACE(published.file);
    Imported& run = kineto(published.file);
    SQLite::Statement row(
        run.db,
        "SELECT kernel_time_ns, idle_ns, compute_ns, non_compute_ns, comm_ns, 100.0 * overlap_ns / nullif(comm_ns, 0)"
        " FROM hta_part WHERE whole = 1");
    ASSERT_TRUE(row.executeStep());
    const bool whole_us = published.idle_ns % 1000 == 0;  // the others are printed with a tenth of a us
    const int64_t off = whole_us ? 0 : 50;
    EXPECT_NEAR(static_cast<double>(row.getColumn(0).getInt64()), static_cast<double>(published.span_ns),
                whole_us ? 0 : 500);
    EXPECT_LE(std::abs(row.getColumn(1).getInt64() - published.idle_ns), whole_us ? 0 : 100);
    EXPECT_LE(std::abs(row.getColumn(2).getInt64() - published.compute_ns), off);
    EXPECT_LE(std::abs(row.getColumn(3).getInt64() - published.non_compute_ns), off);
    EXPECT_LE(std::abs(row.getColumn(4).getInt64() - published.comm_ns), off);
    if (published.overlap < 0) {
      EXPECT_TRUE(row.isColumnNull(5));
      EXPECT_EQ(run.text("SELECT why FROM metric WHERE id = 'hta_overlap'"), "ZERO_DENOM");
      // Without steps nothing is left out.
      EXPECT_NEAR(run.real("SELECT value FROM metric WHERE id = 'hta_non_compute'"),
                  static_cast<double>(published.non_compute_ns) / static_cast<double>(published.span_ns), 1e-9);
    } else {
      EXPECT_NEAR(row.getColumn(5).getDouble(), published.overlap, 0.005);
    }
  }
  Imported& without_gpu = kineto("hta/rank_non_gpu/rank_non_gpu.json.gz");
  EXPECT_EQ(without_gpu.integer("SELECT count(*) FROM v_hta"), 0);
  EXPECT_EQ(without_gpu.text("SELECT why FROM metric WHERE id = 'hta_idle'"), "NOT_APPLICABLE");
  EXPECT_EQ(without_gpu.text("SELECT resource FROM rank_resource"), "unseen")
      << "it has all-to-alls of NCCL, and no kernel";
  EXPECT_EQ(without_gpu.text("SELECT value FROM meta WHERE key = 'verdict'"), "n/a");
}

/// What HTA itself prints (f4d0062, May 2026), run on the same traces by tests/third_party/hta/check.py; of
/// nccl_parser_config with HTA_DISABLE_NS_ROUNDING=1. us.
struct HtaAnswers {
  const char* file;
  const char* breakdown;  ///< kernel time, idle, compute, non-compute, overlap in percent
  /// how many, in calls, on the GPU, delay; GPU shorter than the call, calls above 50 us, delays above 100 us
  const char* launches;
  const char* queues;   ///< by stream: changes and the longest
  const char* idle;     ///< by stream: host_wait, kernel_wait, other
  const char* kernels;  ///< without copies: names, sum, sum of the name that has most
};
constexpr HtaAnswers kHtaAnswers[] = {
    {"trace_diff/control/control.json.gz", "383404|62119|234760|86525|47.03",
     "7875|115050|413947|15865017|3067|25|5111", "7: 14940 287, 20: 470 10, 21: 100 2, 22: 240 22",
     "7: 102154 14226 32183, 20: 346996 621 7470, 21: 237710 71 0, 22: 271786 1253 0", "169|368519|105057"},
    {"trace_diff/test/test.json.gz", "628371|46910|429216|152245|68.8", "8310|297921|533840|316928263|4615|65|8142",
     "7: 15800 1013, 14: 480 9, 15: 100 5, 16: 240 23",
     "7: 2960 42372 41756, 14: 520794 1087 14536, 15: 348483 138 38936, 16: 422925 829 0", "130|621259|123375"},
    {"df_index_resolver/df_index_resolver.json.gz", "1396669|643612|496485|256572|0.0",
     "17832|156892|753057|10280212|9688|2|6605", "7: 32432 73, 14: 3232 20",
     "7: 791330 16727 73829, 14: 933139 5568 4444", "49|734759|238274"},
    {"nccl_parser_config/nccl_data.json.gz", "435588|336420|76936|22232|14.76", "2516|23788|102978|68121|1380|0|180",
     "7: 5004 10, 40: 28 1", "7: 355485 1414 0, 40: 381488 0 0", "70|101225|24212"},
};

TEST(PublicTraces, AnswersAreThoseThatHtaPrints) {
  SKIP_WITHOUT_TRACES();
  const auto us = [](const std::string& ns) { return "CAST(round(" + ns + " / 1e3) AS INTEGER)"; };
  // Launches of graphs, which give many kernels, HTA does not count.
  const std::string single =
      "(SELECT *, count(*) OVER (PARTITION BY correlation) AS of_launch FROM v_hta_event WHERE launch_ns IS NOT NULL)";
  for (const HtaAnswers& hta : kHtaAnswers) {
    SCOPED_TRACE(hta.file);
    Imported& run = kineto(std::string("hta/") + hta.file);
    EXPECT_EQ(
        run.text("SELECT " + us("kernel_time_ns") + " || '|' || " + us("idle_ns") + " || '|' || " + us("compute_ns") +
                 " || '|' || " + us("non_compute_ns") + " || '|' || round(comp_comm_overlap_pctg, 2) FROM v_hta"),
        hta.breakdown);
    EXPECT_EQ(
        run.text("SELECT count(*) || '|' || " + us("sum(launch_duration_ns)") + " || '|' || " + us("sum(duration_ns)") +
                 " || '|' || " + us("sum(max(0, start_ns - launch_ns - launch_duration_ns))") +
                 " || '|' || sum(duration_ns < launch_duration_ns) || '|' || sum(launch_duration_ns > 50000) || '|' ||"
                 " sum(start_ns - launch_ns - launch_duration_ns > 100000) FROM " +
                 single + " WHERE of_launch = 1"),
        hta.launches);
    EXPECT_EQ(
        run.text(
            "WITH e AS (SELECT * FROM " + single +
            " WHERE of_launch = 1), q AS (SELECT stream, launch_ns AS t, 1 AS c, event FROM e UNION ALL SELECT stream, start_ns, -1,"
            " event FROM e), s AS (SELECT stream, sum(c) OVER (PARTITION BY stream ORDER BY t, c DESC, event ROWS UNBOUNDED PRECEDING)"
            " AS n FROM q), g AS (SELECT stream, count(*) AS changes, max(n) AS most FROM s GROUP BY stream ORDER BY stream)"
            " SELECT group_concat(stream || ': ' || changes || ' ' || most, ', ') FROM g"),
        hta.queues);
    EXPECT_EQ(
        run.text(
            "WITH e AS (SELECT stream, start_ns, launch_ns, lag(start_ns + duration_ns) OVER (PARTITION BY stream ORDER BY start_ns, event)"
            " AS before_ns FROM v_hta_event), g AS (SELECT stream, " +
            us("sum(CASE WHEN launch_ns > before_ns THEN start_ns - before_ns ELSE 0 END)") + " AS host, " +
            us("sum(CASE WHEN launch_ns <= before_ns AND start_ns - before_ns < 30000 THEN start_ns - before_ns ELSE 0 END)") +
            " AS kernel, " +
            us("sum(CASE WHEN launch_ns <= before_ns AND start_ns - before_ns >= 30000 THEN start_ns - before_ns ELSE 0 END)") +
            " AS other FROM e GROUP BY stream ORDER BY stream)"
            " SELECT group_concat(stream || ': ' || host || ' ' || kernel || ' ' || other, ', ') FROM g"),
        hta.idle);
    EXPECT_EQ(run.text("SELECT count(*) || '|' || " + us("sum(t)") + " || '|' || " + us("max(t)") +
                       " FROM (SELECT sum(duration_ns) AS t FROM v_hta_event WHERE class <> 'MEMORY' GROUP BY name)"),
              hta.kernels);
    // The metrics are of the same events.
    EXPECT_NEAR(
        run.real(
            "SELECT value - (SELECT 1.0 * compute_ns / kernel_time_ns FROM v_hta) FROM metric WHERE id = 'hta_compute'"),
        0, 1e-12);
  }
}

/// What HTA's TraceDiff sums up of iteration 1010.
TEST(PublicTraces, EventsOfAStepAreThoseThatHtaCompares) {
  SKIP_WITHOUT_TRACES();
  const auto told = [](const char* file) {
    Imported& run = kineto(std::string("hta/trace_diff/") + file);
    return run.text(
        "SELECT count(*) || ' ' || sum(duration_ns) FROM v_gpu WHERE kind IN ('kernel', 'memcpy', 'memset') AND step = 1010");
  };
  EXPECT_EQ(told("control/control.json.gz"), "1575 78284000");
  EXPECT_EQ(told("test/test.json.gz"), "2503 151422000");
}

/// Shares of the GPU's time within the marked steps, in percent, from the JSON alone by unions of intervals in Python
/// (kernels whose name has nccl or rccl are collectives; copies and collectives count where nothing above them runs).
struct StepShares {
  const char* file;
  double compute, collectives, copies, idle;
};
constexpr StepShares kStepShares[] = {
    {"hta/nccl_parser_config/nccl_data.json.gz", 17.337, 5.930, 0.342, 76.391},
    {"hta/trace_diff/control/control.json.gz", 60.499, 18.910, 4.157, 16.433},
    {"hta/trace_diff/test/test.json.gz", 73.526, 9.847, 12.963, 3.665},
    {"hta/df_index_resolver/df_index_resolver.json.gz", 35.709, 20.564, 1.309, 42.418}};

TEST(PublicTraces, WhereItGoesIsWhatTheGpuDid) {
  SKIP_WITHOUT_TRACES();
  for (const StepShares& known : kStepShares) {
    SCOPED_TRACE(known.file);
    Imported& run = kineto(known.file);
    SQLite::Statement verdict(run.db, "SELECT value FROM meta WHERE key = 'verdict.text'");
    const Facts facts = read_facts(run.db, 0);
    EXPECT_EQ(facts.resource, Resource::kDevice);
    EXPECT_NEAR(100 * (facts.devices.share(&TimeParts::compute_ns) + facts.devices.share(&TimeParts::overlap_ns)),
                known.compute, 0.001);
    EXPECT_NEAR(100 * facts.devices.share(&TimeParts::unsplit_ns), known.collectives, 0.001)
        << "one rank: nobody knows what is waiting";
    EXPECT_NEAR(100 * facts.devices.share(&TimeParts::copy_ns), known.copies, 0.001);
    EXPECT_NEAR(100 * facts.devices.share(&TimeParts::idle_ns), known.idle, 0.001);
    ASSERT_TRUE(verdict.executeStep());
    const std::string text = verdict.getColumn(0).getString();
    EXPECT_EQ(text.find("wait 0.0%"), std::string::npos) << "what is not known is not 0: " << text;
  }
}

TEST(PublicTraces, PartitionAddsUpToTheNanosecond) {
  SKIP_WITHOUT_TRACES();
  int with_gpu = 0;
  for (const fs::path& path : all_traces()) {
    SCOPED_TRACE(path.string());
    Imported& run = kineto(path.string());
    with_gpu += run.integer("SELECT count(*) FROM gpu_part WHERE step IS NULL") > 0;
    EXPECT_EQ(
        run.integer(
            "SELECT count(*) FROM gpu_part WHERE compute_ns + exposed_comm_ns + exposed_copy_ns + idle_ns <> duration_ns"
            " OR idle_input_ns + idle_host_ns + idle_launch_ns + idle_kernel_ns + idle_dep_comm_ns + idle_dep_copy_ns + "
            "idle_other_ns <> idle_ns"
            " OR active_ns + idle_ns <> duration_ns"),
        0);
    // Each device's whole run against HTA's rules, computed by other code: busy time is the same, and idling
    // differs by the edges.
    EXPECT_EQ(run.integer("SELECT count(*) FROM gpu_part g JOIN hta_part h ON h.process = g.process AND h.whole = 1"
                          " WHERE g.step IS NULL AND (g.compute_ns <> h.compute_ns OR g.comm_ns <> h.comm_ns"
                          " OR g.active_ns <> h.kernel_time_ns - h.idle_ns)"),
              0);
    EXPECT_EQ(
        run.integer(
            "SELECT count(*) FROM finding WHERE id IN ('missing_rank', 'killed_rank', 'mismatched_calls', 'straggler')"),
        0);
  }
  EXPECT_EQ(with_gpu, 10);
}

TEST(PublicTraces, KnowsWhichStreamsWaitForWhich) {
  SKIP_WITHOUT_TRACES();
  const std::string folder = "hta/critical_path/";
  Imported& one = kineto(folder + "cuda_event_sync_multi_stream/event_sync_trace.json.gz");
  EXPECT_EQ(
      one.text(
          "SELECT group_concat(context || '/' || stream || '/' || correlation || ' on ' || on_context || '/' || on_stream || '/' ||"
          " on_correlation) FROM stream_wait"),
      "1/24/1389 on 1/20/1385");
  Imported& none = kineto(folder + "cuda_event_sync/event_sync_trace.json.gz");
  EXPECT_EQ(none.integer("SELECT count(*) FROM stream_wait"), 0) << "there only the host waits";
  Imported& many = kineto(folder + "alexnet/benchmark_result_2869224_1695835535_trace.json.gz");
  EXPECT_EQ(many.integer("SELECT count(*) FROM stream_wait"), 20);
  EXPECT_EQ(many.integer("SELECT count(*) FROM stream_wait WHERE on_correlation = correlation - 1"), 18)
      << "most were recorded just before";
}

TEST(PublicTraces, KnowsCollectivesOfATraceThatNamesThem) {
  SKIP_WITHOUT_TRACES();
  Imported& run = kineto("hta/nccl_parser_config/nccl_data.json.gz");
  EXPECT_EQ(run.integer("SELECT count(*) FROM v_collective"), 21);
  EXPECT_EQ(
      run.integer(
          "SELECT count(*) FROM v_collective WHERE op = 'ncclAllReduce' AND algorithm = 'RING' AND protocol = 'LL' AND comm_size = 2"),
      15);
  EXPECT_EQ(run.integer("SELECT count(DISTINCT seq) FROM v_collective"), 21);
  EXPECT_EQ(
      run.integer("SELECT bytes FROM v_collective WHERE step = 4 AND op = 'ncclAllReduce' ORDER BY enter_ns LIMIT 1"),
      2049000 * 4);
  EXPECT_EQ(run.text("SELECT group_concat(DISTINCT why) FROM v_collective"), "PARTIAL_RANKS");
  EXPECT_EQ(run.text("SELECT note FROM loss WHERE kind = 'missing_rank'"), "of 2 ranks without a trace: rank 1");
}

/// Counted and multiplied from the JSON alone, in Python: kernels by the range around the launch, bytes by
/// its "Input Dims".
TEST(PublicTraces, KnowsCollectivesOfTracesThatDoNotNameThem) {
  SKIP_WITHOUT_TRACES();
  Imported& one_of_eight = kineto("hta/trace_diff/control/control.json.gz");
  EXPECT_EQ(
      one_of_eight.text("SELECT group_concat(op || ' ' || n, ', ') FROM (SELECT op, count(*) AS n FROM v_collective"
                        " WHERE why = 'PARTIAL_RANKS' AND comm_size IS NULL GROUP BY op ORDER BY op)"),
      "ncclAllReduce 18, ncclAlltoAll 42");
  EXPECT_EQ(one_of_eight.integer(
                "SELECT count(*) FROM v_collective WHERE op = 'ncclAllReduce' AND payload_bytes = 4 * 45310188"),
            6);
  EXPECT_EQ(one_of_eight.integer(
                "SELECT count(*) FROM v_collective WHERE op = 'ncclAlltoAll' AND payload_bytes = 4 * 8 * 1024 * 8816"),
            6);
  EXPECT_EQ(one_of_eight.integer("SELECT count(*) FROM v_collective WHERE payload_bytes IS NULL"), 0);
  Imported& one_of_two = kineto("hta/df_index_resolver/df_index_resolver.json.gz");
  EXPECT_EQ(
      one_of_two.integer(
          "SELECT count(*) FROM v_collective WHERE op = 'ncclAllReduce' AND comm = 'world (inferred)' AND comm_size = 2"
          " AND payload_bytes IS NULL AND bytes IS NULL"),
      2020);
  // The launch of four kernels was not recorded: what SendRecv carries its name does not tell.
  Imported& begun_early = kineto("hta/trace_diff/test/test.json.gz");
  EXPECT_EQ(begun_early.integer("SELECT count(*) FROM v_collective"), 63);
  EXPECT_EQ(begun_early.integer("SELECT count FROM loss WHERE kind = 'nccl_kernels'"), 1);
}

/// specification.md G-C, and what the trace itself says: 32 steps, 4 micro-batches, a mean step of 2.2144 s.
TEST(PublicTraces, StragglerJobKeepsItsSteps) {
  SKIP_WITHOUT_TRACES();
  Imported run("pipedream", {kTraces / "straggler/trace-ST.csv.gz"});
  EXPECT_EQ(run.summary.ranks, 8u);
  EXPECT_EQ(run.integer("SELECT count(DISTINCT step) FROM v_step"), 32);
  EXPECT_NEAR(run.real("SELECT avg(duration_ns) * 1e-9 FROM v_step"), 2.2144, 5e-5);
  EXPECT_EQ(run.integer(
                "SELECT count(*) FROM range_event e JOIN region r ON r.id = e.region WHERE r.name = 'forward-compute'"),
            1024);
  EXPECT_EQ(run.integer("SELECT count(*) FROM v_message WHERE why IS NULL"), 2 * 768);
  EXPECT_EQ(run.integer("SELECT count(*) FROM v_collective WHERE wait_ns IS NULL"), 0);
}

/// Forward, backward and optimizer of the CSV itself, in Python: ms of a mean step, rank by rank.
TEST(PublicTraces, StragglerJobComputesInItsOperationsAlone) {
  SKIP_WITHOUT_TRACES();
  Imported run("pipedream", {kTraces / "straggler/trace-ST.csv.gz"});
  EXPECT_EQ(
      run.text(
          "SELECT group_concat(ms, ' ') FROM (SELECT printf('%.1f', avg(compute_ns) / 1e6) AS ms FROM v_step GROUP BY rank ORDER BY rank)"),
      "886.1 878.2 879.3 881.0 884.3 882.4 1411.2 1419.5");
}

/// The report's own tables, in SQL: kernels, their time, copies.
TEST(PublicTraces, NsightsReportHasItsKernelsAndCopies) {
  SKIP_WITHOUT_TRACES();
  Imported run("nsys", {kTraces / "nsys/perlmutter-cloverleaf-cuda.sqlite"});
  EXPECT_EQ(run.summary.ranks, 1u);
  EXPECT_EQ(run.text("SELECT count(*) || ' ' || sum(duration_ns) FROM v_kernel"), "1312 294404540");
  EXPECT_EQ(run.integer("SELECT count(*) FROM v_memcpy WHERE kind <> 'memset'"), 279);
}

/// specification.md G-C: S and M_S to three decimals, from the store.
TEST(PublicTraces, StragglerJobIsAsSlowAsPublished) {
  SKIP_WITHOUT_TRACES();
  Imported run("pipedream", {kTraces / "straggler/trace-ST.csv.gz"});
  const std::optional<models::ImportedReplay> job = models::imported_replay(run.db, 0);
  ASSERT_TRUE(job);
  const models::Slowdown slowdown = slowdown_of(job->run.replay, [&](int64_t rank) { return job->stages.at(rank); });
  EXPECT_NEAR(slowdown.slowdown, 1.179, 5e-4);
  EXPECT_NEAR(slowdown.slowdown, 1.1787021836556841, 1e-6);
  EXPECT_NEAR(*slowdown.fixed_by_last_stage, 1.219, 5e-4);
  EXPECT_NEAR(slowdown.step_s, 2.172696813310722, 1e-6);
  EXPECT_NEAR(job->run.recorded_step_s, 2.2144, 5e-5);
}

TEST(PublicTraces, InputBoundWithoutWorkersAndNotWithFour) {
  SKIP_WITHOUT_TRACES();
  Imported& none = kineto("kineto_tb/samples/resnet50_num_workers_0/worker0.1623143089861.pt.trace.json.gz");
  EXPECT_EQ(none.text("SELECT value FROM meta WHERE key = 'verdict'"), "input");
  EXPECT_EQ(none.text("SELECT id FROM finding WHERE position = 1"), "input_bound");
  EXPECT_NE(none.text("SELECT value FROM meta WHERE key = 'verdict.text'").find("input 33.9%, host 8.2%"),
            std::string::npos);
  // Every step, not only the first one.
  EXPECT_EQ(
      none.integer("SELECT count(*) FROM v_gpu_part WHERE step IS NOT NULL AND idle_input_ns > 0.29 * duration_ns"), 6);
  Imported& four = kineto("kineto_tb/samples/resnet50_num_workers_4/worker0.1623212756351.pt.trace.json.gz");
  EXPECT_NE(four.text("SELECT value FROM meta WHERE key = 'verdict'"), "input");
  EXPECT_EQ(four.integer("SELECT count(*) FROM finding WHERE id = 'input_bound'"), 0);
  // The host loads data in both; without workers for 70 ms of each step, with them for 1.4.
  const std::string loading =
      "SELECT sum(duration_ns) / 6 FROM range_event e JOIN region r ON r.id = e.region WHERE r.kind = 'phase' AND r.name = 'input'";
  EXPECT_GT(none.integer(loading), 60'000'000);
  EXPECT_LT(four.integer(loading), 2'000'000);
}

TEST(PublicTraces, LaunchesOfGraphsCountOnce) {
  SKIP_WITHOUT_TRACES();
  // From the JSON alone, in Python: every call that launched something once, and every one that synchronises,
  // by the step in which it began. 12 launches of graphs have up to 502 kernels each, and the trace does not
  // tell that these are nodes.
  Imported& run = kineto("hta/trace_diff/test/test.json.gz");
  EXPECT_EQ(run.text("SELECT group_concat(step || ' ' || ns, ', ') FROM (SELECT step, ns FROM host_gpu ORDER BY step)"),
            "1009 50144000, 1010 67468000, 1011 110775000, 1012 26788000, 1013 55439000, 1014 118127000");
}

TEST(PublicTraces, CriticalPathsAreThoseOfTheJson) {
  SKIP_WITHOUT_TRACES();
  // From the JSON alone, in Python, forwards: each thing carried what its path so far was made of.
  const auto path = [](Imported& run, int step) {
    return run.text(
        "SELECT group_concat(kind || ' ' || us, ', ') FROM (SELECT kind, sum(time_ns) / 1000 AS us FROM v_critical_path WHERE step = " +
        std::to_string(step) + " GROUP BY kind ORDER BY kind)");
  };
  Imported& none = kineto("kineto_tb/samples/resnet50_num_workers_0/worker0.1623143089861.pt.trace.json.gz");
  EXPECT_EQ(path(none, 6), "between 1358, compute 65394, copy 2035, host 117972, launch 35, unknown 161");
  EXPECT_EQ(path(none, 7), "between 1316, compute 63108, copy 2011, host 125987, launch 33, unknown 172");
  EXPECT_EQ(path(kineto("hta/trace_diff/control/control.json.gz"), 1014),
            "between 687, compute 8784, copy 454, host 53966, launch 53, unknown 17176");
  EXPECT_EQ(path(kineto("hta/df_index_resolver/df_index_resolver.json.gz"), 3), "copy 2, host 365233, launch 21");
  // What is on it most is the loading of data, as the first finding says.
  EXPECT_EQ(
      none.text(
          "SELECT range_name FROM v_critical_path GROUP BY kind, name, range_name ORDER BY sum(time_ns) DESC LIMIT 1"),
      "input");
}

TEST(PublicTraces, MemoryIsThatOfTheJson) {
  SKIP_WITHOUT_TRACES();
  // From the JSON alone, in Python.
  const auto most = [](Imported& run) {
    return run.text(
        "SELECT group_concat(device || ' ' || what || ' ' || most || ' ' || changes, ', ') FROM (SELECT device, what, max(bytes) AS most,"
        " count(*) AS changes FROM v_memory GROUP BY device, what ORDER BY device, what)");
  };
  EXPECT_EQ(
      most(kineto("hta/df_index_resolver/df_index_resolver.json.gz")),
      "cpu allocated 8 1240, cpu reserved 0 1240, cuda:1 allocated 6629508096 26770, cuda:1 reserved 12782141440 26770");
  EXPECT_EQ(most(kineto("kineto_tb/samples/resnet50_num_workers_0/worker0.1623143089861.pt.trace.json.gz")),
            "cpu since begin 57803264 4618, cuda:0 since begin 2791636480 8220");
}

TEST(PublicTraces, CountersOfOperatorsAreThoseThatHtaTells) {
  SKIP_WITHOUT_TRACES();
  // get_cupti_counter_data_with_operators() of HTA, by bottom_level_op.
  Imported& run = kineto("hta/cupti_profiler/benchmark_result_924719_1679055439_trace.json.gz");
  EXPECT_EQ(
      run.text(
          "SELECT group_concat(operator || ' ' || value, ', ') FROM (SELECT operator, sum(value) AS value FROM v_operator_counter"
          " WHERE counter LIKE '%_ffma_pred_on.sum' GROUP BY operator ORDER BY operator)"),
      "aten::_adaptive_avg_pool2d 20146616, aten::add_ 124157952, aten::addmm 15067250688, aten::clamp_min_ 0, aten::cudnn_convolution"
      " 23887265792, aten::max_pool2d_with_indices 0, aten::native_dropout 4816896, aten::uniform_ 38731776");
  EXPECT_EQ(run.integer("SELECT sum(kernels) FROM v_operator_counter WHERE counter LIKE '%_ffma_pred_on.sum'"), 77);
  // Where operators lie inside each other, the outermost counts.
  EXPECT_EQ(
      run.integer("SELECT sum(value) FROM v_counter WHERE counter LIKE '%_ffma_pred_on.sum' AND kind = 'operator'"),
      39142369720);
}

TEST(PublicTraces, SequencesAreThoseThatHtaTells) {
  SKIP_WITHOUT_TRACES();
  // get_frequent_cuda_kernel_sequences("aten::addmm") of HTA, which reads all steps but the last: count, GPU
  // and CPU time in us.
  Imported& run = kineto("hta/df_index_resolver/df_index_resolver.json.gz");
  EXPECT_EQ(
      run.text(
          "SELECT group_concat(calls || ' ' || gpu || ' ' || host || ' ' || substr(sequence, 1, instr(sequence, ' | void') - 1), ', ') FROM"
          " (SELECT sum(calls) AS calls, sum(gpu_ns) / 1000 AS gpu, sum(host_ns) / 1000 AS host, sequence FROM v_kernel_sequence"
          "  WHERE range_name = 'aten::addmm' AND kernels >= 3 AND step < (SELECT max(step) FROM v_step) GROUP BY sequence"
          "  ORDER BY calls DESC)"),
      "172 31264 18854 [CUDA memset] | volta_sgemm_32x128_tn, 72 8967 6928 [CUDA memset] | volta_sgemm_128x32_tn,"
      " 32 2669 3192 [CUDA memset] | volta_sgemm_128x32_sliced1x4_tn, 20 22848 1928 [CUDA memset] | volta_sgemm_128x128_tn,"
      " 12 6164 1164 [CUDA memset] | volta_sgemm_128x64_tn");
  // At two depths, of which HTA counts one. All, from the JSON alone, in Python: sequences, calls, GPU and host in us.
  EXPECT_EQ(
      kineto("hta/trace_diff/control/control.json.gz")
          .text(
              "SELECT count(DISTINCT sequence) || ' ' || sum(calls) || ' ' || (sum(gpu_ns) / 1000) || ' ' || (sum(host_ns) / 1000)"
              " FROM v_kernel_sequence WHERE range_name = 'aten::addmm' AND step < (SELECT max(step) FROM v_step)"),
      "19 495 20282 25340");
}

}  // namespace
}  // namespace ddl::test
