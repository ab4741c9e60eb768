// Traces that are small when packed and large in what they hold: memory and time are bounded, progress is told, and
// whoever is told may stop it.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <set>

#include "tests/core/allocation_meter.h"
#include "tests/import/imported.h"

namespace ddl::test {
namespace {

constexpr size_t kMemoryLimit = 48 << 20;  // SQLite's own cache is not counted: it has its own bound

/// `event(i)` for each of `count`.
template <class Event>
std::string trace(size_t count, Event event) {
  std::string json = "[";
  for (size_t i = 0; i < count; ++i) json += (i > 0 ? ",\n" : "") + event(i);
  return json + "]";
}

std::string range(size_t i, int64_t duration_us = 1) {
  return fmt::format(R"({{"ph": "X", "name": "r", "pid": 0, "tid": 1, "ts": {}, "dur": {}}})", i, duration_us);
}

TEST(ImportBounds, MemoryDoesNotGrowWithEvents) {
  size_t peaks[2];
  for (int i = 0; i < 2; ++i) {
    const ScratchFolder folder;
    std::ofstream(folder / "trace.json") << trace(i == 0 ? 20'000 : 80'000, [](size_t n) { return range(n); });
    ImportOptions options;
    options.output = folder / "run.sqlite";
    const AllocationLimit limit(kMemoryLimit);
    EXPECT_GE(import_traces(import_format("chrome"), {folder / "trace.json"}, options).events, 20'000u);
    peaks[i] = limit.peak_bytes();
  }
  EXPECT_LT(peaks[1], peaks[0] + (256 << 10)) << "four times the events";
}

TEST(ImportBounds, RangesThatAllOverlapAreRefused) {
  const std::string error = import_error("chrome", trace(5000, [](size_t i) { return range(i, 1'000'000'000); }));
  EXPECT_NE(error.find("more than 4096 ranges of a thread are open at a time"), std::string::npos) << error;
  // Those that have ended below one that goes on are not open: two threads' ranges that were written as one thread's.
  Imported run(
      "chrome",
      Imported::Files{{"trace.json", trace(10'000, [](size_t i) { return range(i, i == 0 ? 1'000'000'000 : 3); })}});
  EXPECT_EQ(run.integer("SELECT count(*) FROM range_event"), 10'000);
}

TEST(ImportBounds, ThousandsOfThreadsAndCommunicatorsAreTold) {
  const auto threads = trace(
      300'000, [](size_t i) { return fmt::format(R"({{"ph":"X","name":"r","pid":0,"tid":{},"ts":1,"dur":1}})", i); });
  EXPECT_NE(import_error("chrome", threads).find("more than 262144 threads"), std::string::npos);
  const auto communicators = [](size_t count, const char* name) {
    return trace(count, [&](size_t i) {
      return fmt::format(
          R"({{"ph":"X","name":"MPI_Barrier","cat":"mpi","pid":0,"tid":1,"ts":{},"dur":1,"args":{{"comm":"{}","comm_size":{}}}}})",
          i, fmt::format(fmt::runtime(name), i), i % 2 == 0 ? i + 2 : 1);
    });
  };
  EXPECT_NE(import_error("chrome", communicators(70'000, "c{}")).find("more than 65536 communicators"),
            std::string::npos);
  // All of one name: each gets a number behind it.
  Imported alike("chrome", Imported::Files{{"trace.json", communicators(20'000, "c")}});
  EXPECT_EQ(alike.integer("SELECT count(DISTINCT label) FROM communicator WHERE label LIKE 'c%'"), 10'001);
}

TEST(ImportBounds, ProgressIsToldInBothStagesAndStops) {
  const ScratchFolder folder;
  std::ofstream(folder / "trace.json") << trace(200'000, [](size_t n) { return range(n); });
  ImportOptions options;
  options.output = folder / "run.sqlite";
  std::set<std::string> stages;
  uint64_t told = 0, within = 0;
  options.progress = [&](const Progress& p) {
    stages.insert(p.stage);
    ++told;
    EXPECT_LE(p.done_bytes, p.total_bytes);
    within += p.done_bytes > 0 && p.done_bytes < p.total_bytes ? 1 : 0;
  };
  import_traces(import_format("chrome"), {folder / "trace.json"}, options);
  EXPECT_EQ(stages, (std::set<std::string>{"reading", "sorting"}));
  EXPECT_GT(told, 20u);
  EXPECT_GT(within, 10u);
  // Stopped at any place: the exception is the one that was thrown, and nothing is left.
  for (const uint64_t at : {uint64_t{1}, told / 2, told - 1}) {
    options.output = folder / fmt::format("stopped-{}.sqlite", at);
    uint64_t calls = 0;
    options.progress = [&](const Progress&) {
      if (++calls == at) throw Error("stopped");
    };
    try {
      import_traces(import_format("chrome"), {folder / "trace.json"}, options);
      ADD_FAILURE() << "went on";
    } catch (const Error& error) {
      EXPECT_STREQ(error.what(), "stopped");
    }
    EXPECT_FALSE(std::filesystem::exists(options.output));
  }
  for (const auto& entry : std::filesystem::directory_iterator(folder.path()))
    EXPECT_EQ(entry.path().string().find("stopped-"), std::string::npos) << entry.path();
}

}  // namespace
}  // namespace ddl::test
