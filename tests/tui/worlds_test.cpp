// Several worlds in one run directory: which of them is shown, and that the next one is taken up when the
// shown one has ended.
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>

#include "tests/analyzer/analyzed.h"
#include "tests/support/growing_run.h"
#include "tests/tui/watched.h"
#include "tui/stall_watch.h"
#include "tui/top.h"

namespace ddl::test {
namespace {

using tui::Feed;
using tui::Snapshot;

constexpr uint64_t kFirstKey = 0x1111, kSecondKey = 0x2222;
constexpr uint32_t kFirstPid = 1000, kSecondPid = 2000;

/// A world that is written bit by bit: it runs while its share is below 1.
struct World {
  World(SyntheticRun job, const std::filesystem::path& to) {
    job.write(finished.path());
    growing.emplace(finished.path(), to);
  }
  void grow(double share) { growing->grow(share); }

  ScratchFolder finished;
  std::optional<GrowingRun> growing;
};

SyntheticRun trainer(int ranks, uint64_t key, int64_t begin_ns, uint32_t first_pid, int slow_rank) {
  return run()
      .ranks(ranks)
      .steps(20)
      .compute(10_ms)
      .jitter(1_ms)
      .allreduce(4_MiB, 1_ms)
      .slow(slow_rank, 5_ms)
      .world(key, begin_ns, first_pid);
}

void expect_same_picture(const Snapshot& a, const Snapshot& b) {
  EXPECT_EQ(a.feed, b.feed);
  EXPECT_EQ(a.world_size, b.world_size);
  EXPECT_EQ(a.first_step, b.first_step);
  EXPECT_EQ(a.step, b.step);
  EXPECT_EQ(a.history.size(), b.history.size());
  EXPECT_EQ(a.headline.text, b.headline.text);
  ASSERT_EQ(a.ranks.size(), b.ranks.size());
  for (size_t r = 0; r < a.ranks.size(); ++r) {
    EXPECT_EQ(a.ranks[r].wait_ns, b.ranks[r].wait_ns) << r;
    EXPECT_EQ(a.ranks[r].compute_ns, b.ranks[r].compute_ns) << r;
  }
  ASSERT_EQ(a.collectives.size(), b.collectives.size());
  for (size_t i = 0; i < a.collectives.size(); ++i) EXPECT_EQ(a.collectives[i].time_ns, b.collectives[i].time_ns) << i;
}

/// The keys come of a hash, or are the same in a restart: neither decides.
struct Keys {
  uint64_t first, second;
};
class NextWorld : public testing::TestWithParam<Keys> {
 protected:
  World first_of(int ranks) { return World(trainer(ranks, GetParam().first, 0, kFirstPid, 1), live_.path()); }
  World second_of_three() { return World(trainer(3, GetParam().second, 5_s, kSecondPid, 2), live_.path()); }

  ScratchFolder live_;
};
INSTANTIATE_TEST_SUITE_P(Worlds, NextWorld, testing::Values(Keys{1, 2}, Keys{2, 1}, Keys{3, 3}));

TEST_P(NextWorld, IsShownOnceTheFirstOneHasEnded) {
  ScratchFolder alone;
  World first = first_of(3), second = second_of_three();
  first.grow(0.5);
  Watched watched(live_.path());
  EXPECT_NE(watched.look().feed, Feed::kEnded);
  first.grow(1);
  Snapshot s = watched.look();
  EXPECT_EQ(s.feed, Feed::kEnded);
  EXPECT_EQ(s.headline.rank, 1);
  EXPECT_EQ(watched.job.generation, 0u);
  second.grow(0.5);
  s = watched.look();
  EXPECT_NE(s.feed, Feed::kEnded);
  EXPECT_EQ(s.headline.rank, 2) << s.headline.text;
  EXPECT_EQ(s.other_worlds, 1);
  EXPECT_EQ(watched.job.generation, 1u);
  EXPECT_LT(s.history.size(), 20u) << "those of the first world are not its own";
  second.grow(1);
  s = watched.look();
  EXPECT_EQ(s.feed, Feed::kEnded);
  EXPECT_EQ(watched.job.generation, 1u);
  GrowingRun(second.finished.path(), alone.path()).grow(1);
  expect_same_picture(s, Watched(alone.path()).look());
}

TEST_P(NextWorld, IsShownAtOnceToWhoLooksWhileItRuns) {
  World first = first_of(4), second = second_of_three();
  first.grow(1);
  second.grow(0.6);
  const Snapshot s = Watched(live_.path()).look();
  EXPECT_NE(s.feed, Feed::kEnded);
  EXPECT_EQ(s.world_size, 3);
  EXPECT_EQ(s.headline.rank, 2) << s.headline.text;
}

/// `ddl report` shows world 0.
TEST_P(NextWorld, IsNotShownWhenBothHaveEnded) {
  World first = first_of(2), second = second_of_three();
  second.grow(1);
  first.grow(1);
  const Snapshot s = Watched(live_.path()).look();
  EXPECT_EQ(s.feed, Feed::kEnded);
  EXPECT_EQ(s.world_size, 2);
  EXPECT_EQ(s.headline.rank, 1) << s.headline.text;
}

TEST(Worlds, OfSeveralThatRunTheOneWithTheMostRanksIsShown) {
  ScratchFolder live;
  World small(trainer(2, kFirstKey, 0, kFirstPid, 1), live.path());
  World large(trainer(3, kSecondKey, 1_ms, kSecondPid, 2), live.path());
  small.grow(0.6);
  large.grow(0.6);
  Watched watched(live.path());
  EXPECT_EQ(watched.look().world_size, 3);
  large.grow(1);
  EXPECT_EQ(watched.look().world_size, 2) << "the other one still runs";
  EXPECT_EQ(watched.job.generation, 1u);
}

TEST(Worlds, AWorldThatStillRunsStays) {
  ScratchFolder live;
  World first(trainer(2, kFirstKey, 0, kFirstPid, 1), live.path());
  World second(trainer(3, kSecondKey, 1_ms, kSecondPid, 2), live.path());
  first.grow(0.3);
  Watched watched(live.path());
  watched.look();
  second.grow(0.3);
  first.growing->grow({1, 0.6});  // one of its two ranks has ended
  EXPECT_EQ(watched.look().world_size, 2);
  EXPECT_EQ(watched.job.generation, 0u);
}

/// A child of rank 0 has its announcement, and may outlive it. They are a few seconds old: if both had been silent for
/// a minute, it might be a restart that hangs.
TEST(Worlds, AChildThatInheritedItsRankIsNoWorld) {
  ScratchFolder live, of_child;
  const int64_t begin_ns = std::chrono::nanoseconds(std::chrono::system_clock::now().time_since_epoch()).count() -
                           1'760'000'000'000'000'000 - 2_s;
  World parent(trainer(1, kFirstKey, begin_ns, kFirstPid, 0), live.path());
  trainer(1, kFirstKey, begin_ns + 500_ms, kSecondPid, 0).write(of_child.path());
  parent.grow(0.5);
  Watched watched(live.path());
  watched.look();
  GrowingRun(of_child.path(), live.path()).grow(0.5);
  EXPECT_NE(watched.look().feed, Feed::kEnded);
  EXPECT_EQ(watched.job.generation, 0u) << "it may be a restart, but nothing shows that rank 0 is over";
  const auto spools = find_run(live.path().string()).spools();
  const auto end_ns = [](FileHeader& h) {
    h.flags |= kMpiFinalized | kExited;
    h.latest = {h.begin.ticks + 1'000'000'000, h.begin.monotonic_ns + 1'000'000'000,
                h.begin.realtime_ns + 1'000'000'000};
  };
  change_header(spools.front(), end_ns);
  const Snapshot s = watched.look();
  EXPECT_EQ(s.feed, Feed::kEnded);
  EXPECT_EQ(watched.job.generation, 0u);
  EXPECT_EQ(Watched(live.path()).look().feed, Feed::kEnded);
}

/// On another host nothing but silence tells that the first one is over, and the second one is as silent.
TEST(Worlds, ARestartThatHangsAtOnceIsShown) {
  ScratchFolder live;
  const auto job = [] { return run().ranks(3).steps(10).compute(5_ms).allreduce(1_MiB, 1_ms); };
  World first(job().killed(2, 4).world(kFirstKey, 0, kFirstPid), live.path());
  World second(job().hang(1, 6).world(kFirstKey, 3_s, kSecondPid), live.path());
  first.grow(1);
  Watched watched(live.path());
  watched.look();
  second.grow(1);
  const Snapshot s = watched.look();
  EXPECT_EQ(watched.job.generation, 1u);
  EXPECT_EQ(s.feed, Feed::kHung);
  EXPECT_EQ(s.headline.rank, 1) << s.headline.text;
}

TEST(Worlds, AnotherRecordingInTheSamePlaceIsShown) {
  ScratchFolder live, alone;
  World first(trainer(3, kFirstKey, 0, kFirstPid, 1), live.path());
  first.grow(1);
  Watched watched(live.path());
  EXPECT_EQ(watched.look().headline.rank, 1);
  std::filesystem::remove_all(live.path());
  EXPECT_EQ(watched.look().headline.rank, 1) << "there is nothing else yet";
  std::filesystem::create_directory(live.path());
  EXPECT_EQ(watched.look().headline.rank, 1);
  trainer(4, kFirstKey, 9_s, kSecondPid, 2).write(alone.path());
  GrowingRun second(alone.path(), live.path());
  second.grow(0.5);
  Snapshot s = watched.look();
  EXPECT_NE(s.feed, Feed::kEnded);
  EXPECT_EQ(s.world_size, 4);
  EXPECT_EQ(s.other_worlds, 0);
  EXPECT_EQ(s.unreadable_spools, 0) << s.unreadable_why;
  second.grow(1);
  expect_same_picture(watched.look(), Watched(live.path()).look());
}

/// Between two mpirun of one `ddl record`.
TEST(Worlds, ARecordingWhoseCommandHasNotEndedMayGoOn) {
  ScratchFolder live;
  World first(trainer(2, kFirstKey, 0, kFirstPid, 1), live.path());
  first.grow(1);
  Watched watched(live.path());
  watched.look();
  EXPECT_TRUE(watched.job.ended);
  EXPECT_FALSE(watched.job.may_go_on) << "without ddl record nobody knows";
  const auto write_job = [&](const char* ended) {
    const std::filesystem::path aside = live / "job.json.new";
    std::ofstream(aside)
        << R"({"schema": 1, "command": ["train"], "started_realtime_ns": 1760000000000000000, "ended_realtime_ns": )"
        << ended << "}";
    std::filesystem::rename(aside, live / "job.json");
  };
  write_job("null");
  watched.look();
  EXPECT_TRUE(watched.job.ended);
  EXPECT_TRUE(watched.job.may_go_on);
  World second(trainer(2, kSecondKey, 5_s, kSecondPid, 1), live.path());
  second.grow(0.5);
  watched.look();
  EXPECT_FALSE(watched.job.ended);
  EXPECT_FALSE(watched.job.may_go_on);
  second.grow(1);
  write_job("1760000000100000000");
  watched.look();
  EXPECT_TRUE(watched.job.ended);
  EXPECT_FALSE(watched.job.may_go_on);
}

/// A job that ends, goes on, and ends for good at its fourth look.
struct TwiceEnded : tui::Source {
  void poll(tui::Job& job, double) override {
    ++looks;
    job.ended = looks != 3;
    job.may_go_on = looks == 1 || looks == 2;
  }
  int looks = 0;
};

TEST(Worlds, FramesGoOnWhileTheJobMayGoOn) {
  TwiceEnded source;
  tui::TopOptions options;
  options.view.interval_s = 0.001;
  options.json = true;
  int frames = 0;
  tui::run_batch(source, options, [&](std::string_view) { ++frames; });
  EXPECT_EQ(frames, 4);
}

TEST(Worlds, AStallOfTheNextWorldIsTold) {
  ScratchFolder live;
  World first(run().ranks(2).steps(10).compute(5_ms).allreduce(1_MiB, 1_ms).hang(0, 4).world(kFirstKey, 0, kFirstPid),
              live.path());
  World second(
      run().ranks(3).steps(10).compute(5_ms).allreduce(1_MiB, 1_ms).hang(1, 6).world(kSecondKey, 100_s, kSecondPid),
      live.path());
  first.grow(1);  // all that there is, and it hangs
  tui::SpoolSource source(find_run(live.path().string()), "run.ddl", tui::SpoolSource::Join::kWhole);
  tui::Job job;
  tui::StallWatch watch(3'000'000'000);
  const auto look = [&] {
    source.poll(job, 0);
    int64_t last_ns = INT64_MIN;
    for (const tui::Rank& rank : job.ranks) last_ns = std::max(last_ns, rank.clock.time_ns(rank.finished_ticks));
    job.now_ns = last_ns + 4'000'000'000;
    const auto news = watch.look(job);
    tui::forget_events(job);
    return news;
  };
  auto news = look();
  ASSERT_TRUE(news);
  EXPECT_EQ(news->missing, std::vector<int64_t>{0});
  for (const auto& spool : find_run(live.path().string()).spools())
    change_header(spool, [](FileHeader& h) { h.flags |= kExited; });
  EXPECT_FALSE(look()) << "it was ended";
  second.grow(1);
  news = look();
  ASSERT_TRUE(news);
  EXPECT_EQ(news->kind, tui::StallNews::Kind::kStall);
  EXPECT_EQ(news->missing, std::vector<int64_t>{1});
  EXPECT_EQ(news->waiting, (std::vector<int64_t>{0, 2}));
  EXPECT_NE(news->sentence.find("rank 1 never entered MPI_Allreduce number 7 on MPI_COMM_WORLD"), std::string::npos)
      << news->sentence;
}

}  // namespace
}  // namespace ddl::test
