// What nvprof printed of a transposition, in IBM's slides on parallel training and in the forms of nvprof itself: all say the same.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>

#include "tests/import/imported.h"
#include "tests/import/samples.h"

namespace ddl::test {
namespace {

/// As the slides print it, the head once so and once so.
std::string slide(const std::string& head, const std::string& open, const std::string& close) {
  return head + " Time Calls Avg Name\n49.35% 29.581ms 1 29.581ms " + open + "CUDA memcpy DtoH" + close + "\n47.48% 28.462ms 1 28.462ms " +
         open + "CUDA memcpy HtoD" + close + "\n3.17% 1.9000ms 1 1.9000ms naiveTransposeKernel\n";
}

constexpr const char* kText = R"X(==4242== Profiling result:
            Type  Time(%)      Time     Calls       Avg       Min       Max  Name
 GPU activities:   49.35%  29.581ms         1  29.581ms  29.581ms  29.581ms  [CUDA memcpy DtoH]
                   47.48%  28.462ms         1  28.462ms  28.462ms  28.462ms  [CUDA memcpy HtoD]
                    3.17%  1.9000ms         1  1.9000ms  1.9000ms  1.9000ms  naiveTransposeKernel
      API calls:   71.63%  150.03ms         2  75.014ms  29.6ms  120.43ms  cudaMemcpy
                   28.37%  59.421ms         1  59.421ms  59.421ms  59.421ms  cudaMalloc
)X";

constexpr const char* kCsv = R"X(==4242== Profiling result:
"Type","Time(%)","Time","Calls","Avg","Min","Max","Name"
,%,ms,,ms,ms,ms,
"GPU activities",49.348548,29.581000,1,29.581000,29.581000,29.581000,"[CUDA memcpy DtoH]"
"GPU activities",47.481774,28.462000,1,28.462000,28.462000,28.462000,"[CUDA memcpy HtoD]"
"GPU activities",3.169678,1.900000,1,1.900000,1.900000,1.900000,"naiveTransposeKernel"
"API calls",71.630000,150.030000,2,75.014000,29.600000,120.430000,"cudaMemcpy"
)X";

std::map<std::string, std::pair<int64_t, int64_t>> sums(Imported& run) {
  std::map<std::string, std::pair<int64_t, int64_t>> result;  // calls, ns
  SQLite::Statement row(run.db, "SELECT n.name, count(*), sum(e.duration_ns) FROM gpu_event e JOIN gpu_name n ON n.id = e.name GROUP BY 1");
  while (row.executeStep()) result[row.getColumn(0).getString()] = {row.getColumn(1).getInt64(), row.getColumn(2).getInt64()};
  return result;
}

TEST(ImportNvprof, EverySummaryOfTheSlidesHasTheirSums) {
  const std::map<std::string, std::pair<int64_t, int64_t>> told = {
      {"[CUDA memcpy DtoH]", {1, 29'581'000}}, {"[CUDA memcpy HtoD]", {1, 28'462'000}}, {"naiveTransposeKernel", {1, 1'900'000}}};
  for (const std::string& text : {slide("Time(%)", "[", "]"), slide("Time (%)", "[ ", " ]"), std::string(kText), std::string(kCsv)}) {
    Imported run("nvprof", Imported::Files{{"nvprof.txt", text}});
    EXPECT_EQ(sums(run), told) << text;
    EXPECT_EQ(run.text("SELECT group_concat(DISTINCT copy) FROM gpu_event WHERE kind = 2"), "DtoH,HtoD");
    EXPECT_EQ(run.integer("SELECT count FROM loss WHERE kind = 'no_times'"), 3) << "where they lie is not known";
  }
}

TEST(ImportNvprof, CallsKeepNumberSumShortestAndLongest) {
  Imported run("nvprof",
               Imported::Files{{"nvprof.txt",
                                "Time(%)      Time     Calls       Avg       Min       Max  Name\n"
                                "100.00%  1.0000ms         7  142.86us  50.000us  400.00us  void gemm<float, 128>(float*, int)\n"}});
  EXPECT_EQ(run.integer("SELECT count(*) FROM gpu_event"), 7);
  EXPECT_EQ(run.integer("SELECT sum(duration_ns) FROM gpu_event"), 1'000'000);
  EXPECT_EQ(run.integer("SELECT min(duration_ns) FROM gpu_event"), 50'000);
  EXPECT_EQ(run.integer("SELECT max(duration_ns) FROM gpu_event"), 400'000);
}

TEST(ImportNvprof, TracesHaveMomentsBytesAndDevices) {
  Imported run("nvprof", Imported::Files{{"nvprof.4242.csv", nvprof_trace()}});
  EXPECT_EQ(run.integer("SELECT count(*) FROM gpu_event"), 3);
  EXPECT_EQ(run.integer("SELECT count(*) FROM loss WHERE kind = 'no_times'"), 0);
  EXPECT_EQ(run.integer("SELECT max(start_ns) - min(start_ns) FROM gpu_event"), 30'755'000);
  EXPECT_EQ(run.integer("SELECT bytes FROM gpu_event WHERE copy = 'HtoD'"), 200'000'000);
  EXPECT_EQ(run.text("SELECT n.name FROM gpu_event e JOIN gpu_name n ON n.id = e.name WHERE e.kind = 1"),
            "naiveTransposeKernel(float*, float const *, int)");
  EXPECT_EQ(run.integer("SELECT min(stream) FROM gpu_event"), 7);
}

TEST(ImportNvprof, WhatIsNoneIsRefused) {
  for (const auto& [text, words] : {std::pair<const char*, const char*>{"hello\n", "no summary of nvprof"},
                                    {"a,b\n1,2\n", "neither a trace"},
                                    {"\"Start\",\"Duration\",\"Name\"\nms,ms,\n1,1,\"cudaMalloc\"\n", "--print-gpu-trace"},
                                    {"Time(%) Time Calls Avg Name\n10% 5 1 5 x\n", "is no row of a summary"},
                                    {"Time(%) Time Calls Avg Name\n10% 5ms 0 5ms x\n", "cannot be"}}) {
    try {
      Imported run("nvprof", Imported::Files{{"nvprof.txt", text}});
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace ddl::test
