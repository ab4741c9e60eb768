// Numbers over the time of the run: their spans, queues and rates against the views, and what the figures say and draw.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "reports/copy_rates.h"
#include "reports/format.h"
#include "reports/held_memory.h"
#include "reports/html/figure.h"
#include "reports/html/page.h"
#include "reports/overview.h"
#include "reports/stream_queues.h"
#include "reports/time_bins.h"
#include "tests/reports/handmade_run.h"
#include "tests/support/synthetic_run.h"

namespace ddl::reports::html {
namespace {

TEST(TimeBins, KeepSumsAndMostWhateverTheLength) {
  std::mt19937_64 random(5);
  for (int round = 0; round < 50; ++round) {
    TimeBins bins;
    int64_t now_ns = static_cast<int64_t>(random() % 1'000'000) - 500'000, begin_ns = now_ns;
    double sum = 0, most = -std::numeric_limits<double>::infinity();
    for (int i = 0; i < 400; ++i) {
      const int64_t ns = random() % 5 == 0 ? 0 : static_cast<int64_t>(random() % (uint64_t{1} << (random() % 24)));
      const double value = static_cast<double>(random() % 2000) - 1000;
      bins.hold(now_ns, now_ns + ns, value);
      sum += value * static_cast<double>(ns), most = std::max(most, value);
      now_ns += ns;
    }
    double all = 0, highest = -std::numeric_limits<double>::infinity();
    int64_t known_ns = 0;
    for (const TimeBins::Bin& bin : bins.bins()) {
      all += bin.sum, known_ns += bin.ns;
      if (bin.seen) highest = std::max(highest, bin.most);
    }
    EXPECT_EQ(all, sum);
    EXPECT_EQ(highest, most);
    EXPECT_EQ(known_ns, now_ns - begin_ns);
    EXPECT_LE(bins.bins().size(), TimeBins::kMostBins);
    EXPECT_LE(bins.begin_ns(), begin_ns);
    EXPECT_GE(bins.end_ns(), now_ns);
  }
}

TEST(TimeBins, AlignToTheSameSpans) {
  TimeBins late, early;
  late.hold(1'000'000'000, 1'000'002'000, 3);
  early.hold(-5'000, 4'000, 1);
  TimeBins* all[] = {&late, &early};
  TimeBins::align(all);
  EXPECT_EQ(late.width_ns(), early.width_ns());
  EXPECT_LE((late.end_ns() - early.begin_ns()) / late.width_ns(), 256);
  EXPECT_GT((late.end_ns() - early.begin_ns()) / late.width_ns(), 120);
  EXPECT_EQ(late.bins()[0].most, 3);
}

class OverTime : public ::testing::Test {
 protected:
  void event(int process, int kind, const std::string& stream, int64_t launch_ns, int64_t start_ns, int64_t ns,
             const std::string& rest = "NULL, NULL") {
    run_.db().exec(
        "INSERT INTO gpu_event (process, kind, name, device, context, stream, region, start_ns, duration_ns, correlation, launch_ns,"
        " launch_duration_ns, copy, bytes) VALUES (" +
        std::to_string(process) + ", " + std::to_string(kind) + ", 1, 0, 1, " + stream + ", 3, " +
        std::to_string(start_ns) + ", " + std::to_string(ns) + ", 1, " + std::to_string(launch_ns) + ", 2000, " + rest +
        ")");
  }
  Figure only(const std::vector<Figure>& figures) {
    EXPECT_EQ(figures.size(), 1u);
    return figures.empty() ? Figure{} : figures.front();
  }

  test::HandmadeRun run_;
  RunView view_ = test::view_of(run_.db());
};

bool says(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// Against the view, which sorts all changes: launches and begins in any order, many of them at the same time.
TEST_F(OverTime, QueuesAreThoseOfTheView) {
  std::mt19937_64 random(11);
  run_.db().exec("INSERT INTO gpu_name VALUES (1, 'gemm', 'compute')");
  for (int i = 0; i < 600; ++i) {
    const auto launch_ns = static_cast<int64_t>(random() % 60 * 1000),
               delay_ns = static_cast<int64_t>(random() % 20 * 1000) - 2000;
    event(1 + i / 300, 1 + static_cast<int>(random() % 3),
          random() % 9 == 0 ? "NULL" : std::to_string(7 + random() % 2), launch_ns, launch_ns + delay_ns, 500);
  }
  const std::vector<StreamQueue> queues = read_queues(view_, 2);
  ASSERT_EQ(queues.size(), 6u);
  size_t drawn = 0;
  for (const StreamQueue& queue : queues) {
    const std::string of_this = "FROM v_queue WHERE rank = " + std::to_string(queue.rank) + " AND stream IS " +
                                (queue.stream ? std::to_string(*queue.stream) : "NULL");
    const auto number = [&](const std::string& what) { return run_.db().execAndGet(what).getDouble(); };
    EXPECT_EQ(queue.changes, number("SELECT count(*) " + of_this));
    EXPECT_EQ(queue.most, number("SELECT max(length) " + of_this));
    // The last row of a moment holds until the next moment.
    const std::string moments =
        "(SELECT time_ns, lead(time_ns) OVER (ORDER BY time_ns) - time_ns AS ns, length FROM (SELECT time_ns, min(length) AS length FROM"
        " (SELECT time_ns, length, row_number() OVER (PARTITION BY time_ns) AS n, count(*) OVER (PARTITION BY time_ns) AS of " +
        of_this + ") WHERE n = of GROUP BY time_ns))";
    EXPECT_EQ(queue.time_ns, number("SELECT total(ns) FROM " + moments));
    EXPECT_EQ(queue.length_ns, number("SELECT total(ns * length) FROM " + moments));
    EXPECT_EQ(queue.empty_ns, number("SELECT total(ns) FROM " + moments + " WHERE length = 0"));
    if (queue.bins.empty()) continue;
    ++drawn;
    double sum = 0;
    for (const TimeBins::Bin& bin : queue.bins.bins()) sum += bin.sum;
    EXPECT_EQ(sum, queue.length_ns);
  }
  EXPECT_EQ(drawn, 2u) << "those with most changes";
}

TEST_F(OverTime, QueuesSayHowLongTheBusiestIsEmpty) {
  run_.db().exec("INSERT INTO gpu_name VALUES (1, 'gemm', 'compute')");
  // Queued from 0 to 10 us and from 30 to 40, two of them; ends with the last begin.
  event(1, 1, "7", 0, 10'000, 5000);
  event(1, 1, "7", 30'000, 40'000, 5000);
  event(1, 1, "7", 30'000, 40'000, 5000);
  const Figure figure = only(queues_over_time(view_));
  EXPECT_EQ(
      figure.caption,
      "The busiest stream (rank 0, GPU 0, stream 7) has 0.750 queued in the mean and 2 at most, and is empty 50.0% of its time.");
  EXPECT_EQ(figure.data.rows.at(0).at(6).as_integer(), 20'000);
  EXPECT_TRUE(says(figure.svg, "rank 0, GPU 0, stream 7")) << figure.svg;
  EXPECT_TRUE(queues_over_time(test::view_of(test::HandmadeRun().db())).empty());
}

TEST_F(OverTime, CopiesAreTheRatesOfTheView) {
  run_.db().exec(
      "INSERT INTO gpu_name VALUES (1, '[CUDA memcpy HtoD]', 'copy'); INSERT INTO gpu VALUES (1, 0, 'A100', '0000:3b:00.0', 'PCIe 4.0 x16', 32e9)");
  // 10 GB/s for 100 us, beside it 5 GB/s for 50 us; the next begins as they end.
  event(1, 2, "7", 0, 0, 100'000, "'HtoD', 1000000");
  event(1, 2, "8", 0, 50'000, 50'000, "'HtoD', 250000");
  event(1, 2, "7", 0, 100'000, 20'000, "'HtoD', 240000");
  event(1, 2, "7", 0, 300'000, 0, "'HtoD', 5");
  event(1, 2, "7", 0, 310'000, 10, "'HtoD', NULL");
  event(2, 3, "7", 0, 200'000, 1000, "NULL, 1000");
  const std::vector<CopyRate> rates = read_copy_rates(view_, 6);
  ASSERT_EQ(rates.size(), 2u);
  EXPECT_EQ(rates[0].kind, "HtoD");
  EXPECT_EQ(rates[0].most,
            run_.db().execAndGet("SELECT max(bytes_per_second) FROM v_copy_rate WHERE kind = 'HtoD'").getDouble());
  EXPECT_EQ(rates[0].most, 15e9);
  EXPECT_EQ(rates[0].busy_ns, 120'000);
  EXPECT_EQ(rates[0].unknown, 2);
  EXPECT_EQ(rates[1].kind, "memset");
  const Figure figure = only(copies_over_time(view_));
  EXPECT_EQ(
      figure.caption,
      "Most is moved by rank 0, HtoD: 1.42MiB in 3 copies, 12.4GB/s while any copy runs, 38.8% of the link's 32.0GB/s.");
  EXPECT_EQ(figure.data.rows.size(), 2u);
  EXPECT_TRUE(says(figure.svg, "class=\"model\"")) << "the link's peak";
}

TEST_F(OverTime, MemoryIsThatOfTheSection) {
  run_.db().exec(
      "INSERT INTO value VALUES (1, 3, 1000, 'memory allocated cuda:0', 1048576), (1, 4, 3000, 'memory allocated cuda:0', 3145728),"
      " (1, 4, 4000, 'memory allocated cuda:0', 2097152), (1, 3, 1000, 'memory reserved cuda:0', 8388608),"
      " (2, NULL, 2000, 'memory change cpu', 2048), (2, NULL, 5000, 'memory change cpu', -1024)");
  const Figure figure = only(memory_over_time(view_));
  EXPECT_EQ(figure.caption,
            "Rank 0, cuda:0 holds most: 3MiB (allocated) at 3.00 us, in step 4; its allocator reserves 8MiB at most.");
  EXPECT_TRUE(says(figure.reading, "Where only changes are known")) << figure.reading;
  const Document section = build_section(view_, "memory");
  ASSERT_EQ(figure.data.rows.size(), section.tables[0].rows.size());
  for (size_t row = 0; row < figure.data.rows.size(); ++row)
    for (size_t column = 0; column < figure.data.columns.size(); ++column)
      EXPECT_EQ(table_text(figure.data.rows[row][column]), table_text(section.tables[0].rows[row][column]))
          << row << ", " << column;
}

TEST_F(OverTime, HostileNamesStayWords) {
  for (const std::string& name : test::hostile_names()) {
    SQLite::Statement copy(
        run_.db(),
        "INSERT INTO gpu_event (process, kind, name, device, context, stream, region, start_ns, duration_ns, correlation, copy, bytes)"
        " VALUES (1, 2, 1, 0, 1, 7, 3, 0, 100, 1, ?, 100)");
    copy.bind(1, name);
    copy.exec();
    SQLite::Statement memory(run_.db(), "INSERT INTO value VALUES (1, 3, 1000, 'memory allocated ' || ?, 1048576)");
    memory.bind(1, name);
    memory.exec();
  }
  run_.db().exec("INSERT INTO gpu_name VALUES (1, '[CUDA memcpy]', 'copy')");
  const std::string page = render_page(build_page(view_, "x.ddl"), build_figures(view_));
  EXPECT_TRUE(says(page, "id=\"copies\"") && says(page, "id=\"memory\""));
  EXPECT_FALSE(says(page, "<script") || says(page, "<img"));
}

}  // namespace
}  // namespace ddl::reports::html
