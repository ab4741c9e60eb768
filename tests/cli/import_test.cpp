// ddl import, from the command line to what the other verbs say of the run.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/cli/ddl_command.h"
#include "tests/import/samples.h"
#include "tests/support/synthetic_run.h"

namespace ddl::cli {
namespace {

namespace fs = std::filesystem;

class Import : public testing::Test {
 protected:
  std::string file(const std::string& name, const std::string& contents) {
    std::ofstream(folder_ / name, std::ios::binary) << contents;
    return (folder_ / name).string();
  }
  std::string run() const { return (folder_ / "job.ddl").string(); }
  test::ScratchFolder folder_;
};

TEST_F(Import, MakesARunThatEveryVerbReads) {
  for (const test::Sample& sample : test::samples()) {
    SCOPED_TRACE(sample.format);
    fs::remove_all(run());
    const Result imported = ddl_command({"import", sample.format, file(sample.file, sample.contents), "-o", run()});
    ASSERT_EQ(imported.code, 0) << imported.err;
    EXPECT_EQ(imported.out, "");
    EXPECT_TRUE(has(imported.err, "see: ddl report ")) << imported.err;
    for (const Arguments& arguments : {Arguments{"report", run()},
                                       {"report", run(), "--json"},
                                       {"analyze", run()},
                                       {"query", run(), "SELECT * FROM v_rank"}}) {
      const Result result = ddl_command(arguments);
      EXPECT_EQ(result.code, 0) << arguments[0] << ": " << result.err;
      EXPECT_FALSE(result.out.empty());
    }
    EXPECT_TRUE(
        has(ddl_command({"query", run(), "SELECT value FROM meta WHERE key = 'imported_from'"}).out, sample.format));
  }
}

TEST_F(Import, LeavesNothingBehindWhenItFails) {
  const Result cut = ddl_command({"import", "kineto", file("t.json", "{\"traceEvents\": [{"), "-o", run()});
  EXPECT_EQ(cut.code, 3);
  EXPECT_TRUE(has(cut.err, "t.json, byte 18: the file ends in the middle")) << cut.err;
  EXPECT_FALSE(fs::exists(run()));
  const Result absent = ddl_command({"import", "kineto", (folder_ / "none.json").string(), "-o", run()});
  EXPECT_EQ(absent.code, 3);
  EXPECT_TRUE(has(absent.err, "none.json: No such file or directory")) << absent.err;
  const Result folder = ddl_command({"import", "kineto", folder_.path().string(), "-o", run()});
  EXPECT_EQ(folder.code, 3);
  EXPECT_FALSE(fs::exists(run()));
}

TEST_F(Import, SaysWhatIsWrongWithTheCommand) {
  EXPECT_EQ(ddl_command({"import"}).code, 2);
  const Result format = ddl_command({"import", "kinetto", "t.json"});
  EXPECT_EQ(format.code, 2);
  EXPECT_TRUE(has(format.err, "did you mean kineto?")) << format.err;
  EXPECT_EQ(ddl_command({"import", "kineto"}).code, 2);
  const std::string trace = file("t.json", test::chrome_trace());
  fs::create_directory(run());
  file("job.ddl/theirs", "x");
  const Result taken = ddl_command({"import", "chrome", trace, "-o", run()});
  EXPECT_EQ(taken.code, 2);
  EXPECT_TRUE(fs::exists(run() + "/theirs"));
  EXPECT_TRUE(has(ddl_command({"import", "--help"}).out, "nccl-inspector"));
}

/// What hints say of recording is not true of other tools' traces, and their events are of every table.
TEST_F(Import, DoctorKnowsWhatAnImportHolds) {
  const auto doctor = [&](const std::string& format, const std::string& trace) {
    fs::remove_all(run());
    EXPECT_EQ(ddl_command({"import", format, trace, "-o", run()}).code, 0);
    return ddl_command({"doctor", run()});
  };
  // A step, a layer, a kernel and its launch, of rank 1 of 2: no calls.
  const Result kernels =
      doctor("kineto", file("rank1.json", R"J({"distributedInfo": {"rank": 1, "world_size": 2}, "traceEvents": [
      {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#1", "pid": 9, "tid": 9, "ts": 1000, "dur": 900},
      {"ph": "X", "cat": "cpu_op", "name": "aten::linear", "pid": 9, "tid": 9, "ts": 1100, "dur": 200},
      {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 9, "tid": 9, "ts": 1150, "dur": 10, "args": {"correlation": 5}},
      {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 1200, "dur": 100, "args": {"stream": 7, "correlation": 5}}]})J"));
  EXPECT_EQ(kernels.code, 3);
  EXPECT_TRUE(has(kernels.out, "problem  ranks        1 of 2")) << kernels.out;
  EXPECT_TRUE(has(kernels.out, "off      MPI          0 calls\n")) << kernels.out;
  EXPECT_TRUE(has(kernels.out, "ok       events       2 events\n")) << kernels.out;
  for (const char* hint : {"ddl record", "same run directory", "no MPI call"})
    EXPECT_FALSE(has(kernels.out, hint)) << kernels.out;
  const Result dump = doctor(
      "flight-recorder", file("dump_0", R"J({"version": "2.9", "pg_config": {"0": {"name": "0", "desc": "default_pg",
      "ranks": "[0]"}}, "entries": [{"record_id": 0, "collective_seq_id": 1, "p2p_seq_id": 0, "op_id": 1, "profiling_name": "nccl:all_reduce",
      "process_group": ["0", "default_pg"], "time_created_ns": 1700000000000000000, "state": "completed", "is_p2p": false, "retired": true}]})J"));
  EXPECT_TRUE(has(dump.out, "ok       events       1 event\n")) << dump.out;
  EXPECT_FALSE(has(dump.out, "window")) << dump.out;
}

TEST_F(Import, ReplaysAWhatIfTrace) {
  ASSERT_EQ(ddl_command({"import", "pipedream", file("t.csv", test::what_if_csv()), "-o", run()}).code, 0);
  const Result result = ddl_command({"model", "whatif", run()});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_TRUE(has(result.out, "only forward-compute")) << result.out;
}

TEST_F(Import, DoesNotReplayInterleavedStages) {
  const std::string csv =
      "dp_rank,stage,rank,step,optype,start_ts,duration,seq_id,mc\n0,0,0,1,forward-compute,0,1,0,0\n0,0,0,1,forward-compute,2,1,1,1\n";
  ASSERT_EQ(ddl_command({"import", "pipedream", file("t.csv", csv), "-o", run()}).code, 0);
  const Result result = ddl_command({"model", "whatif", run()});
  EXPECT_EQ(result.code, 3);
  EXPECT_TRUE(has(result.err, "stages hold several model chunks each")) << result.err;
}

}  // namespace
}  // namespace ddl::cli
