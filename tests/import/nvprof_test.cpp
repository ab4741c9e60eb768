// The transposition that nvprof's summary in IBM's slides on parallel training is of, as a trace of nvprof.
#include <gtest/gtest.h>

#include "tests/import/imported.h"
#include "tests/import/samples.h"

namespace ddl::test {
namespace {

TEST(ImportNvprof, TracesHaveMomentsBytesAndDevices) {
  Imported run("nvprof", Imported::Files{{"nvprof.4242.csv", nvprof_trace()}});
  EXPECT_EQ(run.integer("SELECT count(*) FROM gpu_event"), 3);
  EXPECT_EQ(run.integer("SELECT max(start_ns) - min(start_ns) FROM gpu_event"), 30'755'000);
  EXPECT_EQ(run.integer("SELECT bytes FROM gpu_event WHERE copy = 'HtoD'"), 200'000'000);
  EXPECT_EQ(run.text("SELECT n.name FROM gpu_event e JOIN gpu_name n ON n.id = e.name WHERE e.kind = 1"),
            "naiveTransposeKernel(float*, float const *, int)");
  EXPECT_EQ(run.integer("SELECT min(stream) FROM gpu_event"), 7);
  // The shares that the slides print: 49.35, 47.48 and 3.17 % of 59.943 ms.
  EXPECT_NEAR(
      run.real(
          "SELECT 100.0 * duration_ns / (SELECT sum(duration_ns) FROM gpu_event) FROM gpu_event WHERE copy = 'DtoH'"),
      49.3485, 5e-5);
}

// As nvprof 10 wrote it of a job with managed memory (TITAN Xp): faults have no duration, or lie within kernels.
TEST(ImportNvprof, UnifiedMemoryIsCopiedAndItsFaultsAreCounted) {
  Imported run(
      "nvprof",
      Imported::Files{
          {"nvprof.1.csv",
           "==308065== Profiling result:\n"
           "\"Start\",\"Duration\",\"Grid X\",\"Grid Y\",\"Grid Z\",\"Block X\",\"Block Y\",\"Block Z\",\"Registers Per Thread\","
           "\"Static SMem\",\"Dynamic SMem\",\"Size\",\"Throughput\",\"SrcMemType\",\"DstMemType\",\"Device\",\"Context\",\"Stream\","
           "\"Unified Memory\",\"Virtual Address\",\"Name\",\"Correlation_ID\"\n"
           "s,ms,,,,,,,,B,B,MB,GB/s,,,,,,B,,,\n"
           "1.183779,0.000992,,,,,,,,,,0.000019,0.018777,\"Pageable\",\"Device\",\"TITAN Xp (0)\",\"1\",\"7\",,,\"[CUDA memcpy HtoD]\",105\n"
           "1.204081,,,,,,,,,,,,,,,,,,\"PC 0x5e240510\",\"0x7f54d8000000\",\"[Unified Memory CPU page faults]\",\n"
           "1.801239,0.276608,,,,,,,,,,,,,,\"TITAN Xp (0)\",,,\"18\",\"0x7f54d8800000\",\"[Unified Memory GPU page faults]\",\n"
           "1.802441,0.007360,,,,,,,,,,,,,,\"TITAN Xp (0)\",,,65536.000000,\"0x7f54d8000000\",\"[Unified Memory Memcpy HtoD]\",\n"}});
  EXPECT_EQ(run.text("SELECT group_concat(kind || ' ' || copy || ' ' || duration_ns || ' ' || bytes) FROM gpu_event"),
            "2 HtoD 992 20,2 HtoD 7360 65536");
  EXPECT_EQ(
      run.text("SELECT count || ' ' || note FROM loss WHERE kind = 'not_understood'"),
      "2 rows that ddl does not understand: [Unified Memory CPU page faults] (1), [Unified Memory GPU page faults] (1): left out");
}

TEST(ImportNvprof, WhatIsNoneIsRefused) {
  for (const auto& [text, words] :
       {std::pair<const char*, const char*>{"hello\n", "not a trace of nvprof"},
        {"a,b\n1,2\n", "not a trace of nvprof"},
        {"\"Start\",\"Duration\",\"Name\"\nms,ms,\n1,1,\"cudaMalloc\"\n", "a trace without devices"},
        {"\"Time(%)\",\"Time\",\"Calls\",\"Avg\",\"Name\"\n%,ms,,ms,\n10,5,1,5,\"x\"\n",
         "a summary: sums, without the times of single events"}}) {
    try {
      Imported run("nvprof", Imported::Files{{"nvprof.csv", text}});
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace ddl::test
