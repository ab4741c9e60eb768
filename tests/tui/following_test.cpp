// A job looked at more than once while it runs: what has been read is not read again, nothing is missed in silence, and
// nothing grows without bound.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <set>
#include <thread>

#include "core/error.h"
#include "tests/analyzer/analyzed.h"
#include "tests/support/growing_run.h"
#include "tests/support/synthetic_run_spool.h"
#include "tests/tui/watched.h"
#include "tui/draw.h"
#include "tui/top.h"

namespace ddl::test {
namespace {

using tui::Snapshot;

SyntheticRun training_job() {
  return run()
      .ranks(4)
      .steps(40)
      .compute(10_ms)
      .jitter(2_ms)
      .layer("conv")
      .compute(3_ms)
      .allreduce(4_MiB, 1_ms)
      .end_layer()
      .iallreduce(1_MiB, 2_ms)
      .compute(1_ms)
      .waitall()
      .slow(2, 5_ms);
}

void expect_same(const Snapshot& a, const Snapshot& b) {
  EXPECT_EQ(a.first_step, b.first_step);
  EXPECT_EQ(a.step, b.step);
  ASSERT_EQ(a.ranks.size(), b.ranks.size());
  for (size_t r = 0; r < a.ranks.size(); ++r) {
    EXPECT_EQ(a.ranks[r].wait_ns, b.ranks[r].wait_ns) << r;
    EXPECT_EQ(a.ranks[r].compute_ns, b.ranks[r].compute_ns) << r;
    EXPECT_EQ(a.ranks[r].exposed_ns, b.ranks[r].exposed_ns) << r;
    EXPECT_EQ(a.ranks[r].layers, b.ranks[r].layers) << r;
  }
  ASSERT_EQ(a.collectives.size(), b.collectives.size());
  for (size_t i = 0; i < a.collectives.size(); ++i) {
    EXPECT_EQ(a.collectives[i].per_step, b.collectives[i].per_step);
    EXPECT_EQ(a.collectives[i].time_ns, b.collectives[i].time_ns);
    EXPECT_EQ(a.collectives[i].busbw, b.collectives[i].busbw);
  }
  EXPECT_EQ(a.blame, b.blame);
  EXPECT_EQ(a.headline.text, b.headline.text);
}

TEST(Following, ManyLooksSeeWhatOneLookSees) {
  ScratchFolder finished, live;
  training_job().write(finished.path());
  GrowingRun growing(finished.path(), live.path());
  growing.grow(0.1);
  Watched watched(live.path());
  uint64_t step = 0;
  for (const double share : {0.1, 0.3, 0.3, 0.31, 0.7, 1.0}) {
    growing.grow(share);
    const Snapshot s = watched.look();
    ASSERT_TRUE(s.step) << share;
    EXPECT_GE(*s.step, step);
    step = *s.step;
    EXPECT_EQ(s.headline.rank, share < 0.2 ? s.headline.rank : std::optional<int32_t>(2)) << share;
  }
  EXPECT_EQ(step, 39u);
  expect_same(watched.look(), Watched(finished.path()).look());
}

/// `ddl top -b` in a script, started with the job.
TEST(Following, ABatchBegunBeforeTheFirstCallWaitsForIt) {
  ScratchFolder folder;
  struct FromThirdLook : tui::Source {
    explicit FromThirdLook(const std::filesystem::path& path) : source(find_run(path.string()), "run.ddl") {}
    void poll(tui::Job& job, double interval_s) override {
      if (++looks == 3) begin();
      source.poll(job, interval_s);
    }
    std::function<void()> begin;
    tui::SpoolSource source;
    int looks = 0;
  };
  const auto job_json = [&](const char* end) {
    std::ofstream(folder.path() / "job.json") << R"({"command": ["./train"], "started_realtime_ns": 1)" << end << "}";
  };
  tui::TopOptions options;
  options.json = true;
  options.view.interval_s = 0.01;
  std::string printed;
  const auto run = [&](tui::Source& source) {
    return tui::run_batch(source, options, [&](std::string_view text) { printed += text; });
  };
  job_json("");
  FromThirdLook source(folder.path());
  source.begin = [&] {
    training_job().write(folder.path());
    job_json(R"(, "ended_realtime_ns": 2, "exit_code": 0)");
  };
  EXPECT_EQ(run(source), 0);
  EXPECT_GE(source.looks, 3);
  EXPECT_NE(printed.find("\"ranks\""), std::string::npos) << printed;

  ScratchFolder empty;
  std::ofstream(empty.path() / "job.json") << R"({"command": ["./train"], "started_realtime_ns": 1})";
  options.frames = 1;
  tui::SpoolSource none(find_run(empty.path().string()), "run.ddl");
  try {
    run(none);
    ADD_FAILURE() << "one frame of nothing";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "run.ddl has nothing to show yet");
    EXPECT_EQ(error.hint(), "no process of the job has made a call that ddl records yet: try again in a moment");
  }
  options.frames.reset();
  std::ofstream(empty.path() / "job.json")
      << R"({"command": ["./train"], "started_realtime_ns": 1, "ended_realtime_ns": 2, "exit_code": 0})";
  tui::SpoolSource over(find_run(empty.path().string()), "run.ddl");
  EXPECT_THROW(run(over), Error) << "nothing will come";
}

TEST(Following, RanksMayBeReadAtDifferentMoments) {
  ScratchFolder finished, live;
  training_job().write(finished.path());
  GrowingRun growing(finished.path(), live.path());
  growing.grow({0.30, 0.21, 0.39, 0.25});
  Watched watched(live.path());
  watched.look();
  growing.grow({0.45, 0.66, 0.61, 0.64});
  watched.look();
  growing.grow(1);
  expect_same(watched.look(), Watched(finished.path()).look());
}

/// Where a rank keeps every other step, its log has these, and its ring the ones between.
TEST(Following, LogAndRingAreOneSequence) {
  ScratchFolder whole, parts;
  const auto job = [] { return run().ranks(3).steps(30).layer("conv", 5_ms).allreduce(1_MiB, 1_ms).slow(1, 2_ms); };
  job().write(whole.path());
  job().keep_level(1, 1).write(parts.path());
  const Snapshot s = Watched(parts.path()).look(), of_whole = Watched(whole.path()).look();
  EXPECT_EQ(s.window, 30u);
  expect_same(s, of_whole);
  ASSERT_EQ(s.ranks[1].layers.size(), 1u);
  EXPECT_EQ(s.ranks[1].layers[0].second, of_whole.ranks[1].layers[0].second);
}

/// A rank that left in the middle was there in fewer steps: its layers are divided by those, in the table and
/// in the row alike.
TEST(Following, LayersAreMeansOverTheStepsOfTheRank) {
  ScratchFolder finished, live;
  run().ranks(2).steps(20).layer("conv", 4_ms).allreduce(1_MiB, 1_ms).write(finished.path());
  GrowingRun growing(finished.path(), live.path());
  growing.grow({1, 0.5});
  change_header(find_run(live.path().string()).spools()[1], [](FileHeader& h) { h.flags |= kExited; });
  const Snapshot s = Watched(live.path()).look();
  ASSERT_EQ(s.window, 20u);
  ASSERT_EQ(s.ranks.size(), 2u);
  for (const tui::RankRow& row : s.ranks) {
    ASSERT_EQ(row.layers.size(), 1u) << row.rank;
    EXPECT_EQ(row.layers[0].second, 4e6) << row.rank;
  }
  ASSERT_EQ(s.layers.size(), 1u);
  EXPECT_EQ(s.layers[0].other_ns, 4e6);
}

std::filesystem::path first_spool(const std::filesystem::path& folder) {
  return find_run(folder.string()).spools().front();
}

TEST(Following, WhatARingWroteOverIsLost) {
  ScratchFolder folder;
  run().ranks(2).steps(30).window(0, 3).compute(5_ms).allreduce(1_MiB, 1_ms).write(folder.path());
  constexpr uint64_t kMore = 200'000, kRound = 1u << 20, kRing = kMaxChunkBytes / sizeof(Record);
  change_chunks(first_spool(folder.path()), ChunkKind::kRing, [](ChunkHeader& h) { h.ring_written += kRound; });
  Watched watched(folder.path());
  const uint64_t before = watched.look().ranks[0].lost;
  EXPECT_LE(before, 1u) << "what was over before the first look is left out, not lost";
  change_chunks(first_spool(folder.path()), ChunkKind::kRing, [](ChunkHeader& h) { h.ring_written += kMore; });
  const Snapshot s = watched.look();
  EXPECT_GE(s.ranks[0].lost, kMore - kRing);
  EXPECT_LE(s.ranks[0].lost, kMore + kRing);
  EXPECT_EQ(s.ranks[1].lost, 0u);
  EXPECT_EQ(s.lost, s.ranks[0].lost);
}

TEST(Following, SpoolsThatCannotBeReadAreCounted) {
  ScratchFolder folder;
  run().ranks(2).steps(5).compute(5_ms).allreduce(1_MiB, 1_ms).write(folder.path());
  const auto old = std::filesystem::file_time_type::clock::now() - std::chrono::minutes(1);
  std::ofstream(folder / "junk.spool") << std::string(8192, 'x');
  Watched watched(folder.path());
  EXPECT_EQ(watched.look().unreadable_spools, 0) << "it may be one that is just being made";
  std::filesystem::last_write_time(folder / "junk.spool", old);
  const Snapshot s = watched.look();
  EXPECT_EQ(s.unreadable_spools, 1);
  EXPECT_NE(s.unreadable_why.find("not a ddl spool"), std::string::npos) << s.unreadable_why;

  ScratchFolder only;
  std::ofstream(only / "junk.spool") << std::string(8192, 'x');
  std::filesystem::last_write_time(only / "junk.spool", old);
  try {
    Watched(only.path()).look();
    FAIL() << "there is nothing to look at";
  } catch (const Error& error) {
    EXPECT_NE(error.hint().find("not a ddl spool"), std::string::npos) << error.hint();
  }
}

/// One rank of which nothing comes any more, while the others go on: as of another host, over a network file system.
TEST(Following, ARankThatIsNotHeardOfSaysSo) {
  ScratchFolder finished, live;
  run().ranks(2).steps(100).compute(100_ms).write(finished.path());
  GrowingRun growing(finished.path(), live.path());
  growing.grow({0.99, 0.5});
  Watched watched(live.path());
  watched.source.poll(watched.job, 1);
  const tui::Rank& newest = watched.job.ranks[0];
  watched.job.now_ns = newest.clock.time_ns(newest.newest_ticks) + 500'000'000;
  const Snapshot s = watched.observer.look(watched.job, false);
  EXPECT_EQ(s.feed, tui::Feed::kLive);
  EXPECT_FALSE(s.ranks[0].stale);
  EXPECT_TRUE(s.ranks[1].stale);
  EXPECT_NEAR(s.ranks[1].silent_ns, 5.4e9, 0.3e9);
  const std::string text = tui::draw(s, {100, 24}, {true}, {}).text();
  EXPECT_NE(text.find("nothing new for 5."), std::string::npos) << text;
}

/// Labels are the report's, and no two are the same: by number, by name, by a name given twice.
TEST(Following, CommunicatorsHaveTheReportsLabels) {
  Analyzed reported(run()
                        .ranks(4)
                        .steps(6)
                        .split("", 2)
                        .split("dp", 2, true)
                        .split("", 2, true)
                        .split("pp", 4)
                        .compute(5_ms)
                        .on_comm("dp")
                        .allreduce(1_MiB, 1_ms));
  Watched watched(reported.folder.path());
  watched.look();
  std::multiset<std::string> live, stored;
  for (const tui::JobCommunicator& c : watched.job.communicators) live.insert(c.label);
  SQLite::Statement labels(reported.db, "SELECT label FROM communicator WHERE kind <> 'self'");
  while (labels.executeStep()) stored.insert(labels.getColumn(0).getString());
  EXPECT_EQ(live, stored);
  EXPECT_EQ(std::set<std::string>(live.begin(), live.end()).size(), live.size());
}

TEST(Following, CommunicatorsThatDoNotAddUpAreNotCompared) {
  tui::Job job;
  tui::Numbering numbering;
  const auto describe = [&](uint64_t uid, int32_t size, RankRun members, uint32_t flags = 0) {
    const CommunicatorMeta meta = {.index = static_cast<uint32_t>(uid),
                                   .parent = 0,
                                   .uid = uid,
                                   .size = size,
                                   .rank = 0,
                                   .op = 0,
                                   .flags = flags,
                                   .runs = 1,
                                   .reserved = 0};
    const auto number = numbering.communicator(
        job, {.world_key = 1, .rank = 0, .meta = meta, .runs = {&members, 1}, .creator = "", .max_members = 64});
    return job.communicators[number].comparable;
  };
  EXPECT_TRUE(describe(1, 4, {0, 2, 4}));
  EXPECT_TRUE(describe(2, 64, {}, kCommWorld));
  EXPECT_FALSE(describe(3, 4, {-1, 0, 4})) << "of another world";
  EXPECT_FALSE(describe(4, 4, {0, 1, 3})) << "fewer than it has";
  EXPECT_FALSE(describe(5, 4, {0, 1, INT32_MAX})) << "more than it has";
  EXPECT_FALSE(describe(6, INT32_MAX, {INT32_MAX, INT32_MAX, INT32_MAX})) << "damage";
  EXPECT_FALSE(describe(7, -1, {0, 1, -1})) << "damage";
  EXPECT_FALSE(describe(8, 4, {0, 1, 4}, kCommInter));
}

/// A step that never ends must not fill the memory.
class Endless {
 public:
  explicit Endless(int ranks) {
    job_.world_size = ranks;
    job_.operations.push_back({describe_operation("MPI_Allreduce", "all_to_all", false), {}});
    job_.communicators.push_back({"MPI_COMM_WORLD", ranks, true, {}});
    for (int r = 0; r < ranks; ++r) {
      job_.communicators[0].ranks.push_back(r);
      tui::Rank rank;
      rank.rank = r;
      rank.life = tui::Life::kRunning;
      rank.open_step = 7;
      job_.ranks.push_back(std::move(rank));
    }
  }
  /// Collectives of all ranks but the last `absent`, which leave halves in the air; bytes in use afterwards.
  size_t work(uint32_t calls, size_t absent) {
    for (const uint32_t end = sequence_ + calls; sequence_ < end;) {
      ++sequence_;
      const uint64_t at = sequence_ * 1000ull;
      for (size_t r = 0; r + absent < job_.ranks.size(); ++r) {
        tui::Rank& rank = job_.ranks[r];
        tui::Event e;
        e.op = e.comm = 0;
        e.sequence = sequence_;
        e.start_ticks = at + r;
        e.duration_ticks = 500;
        rank.events.push_back(e);
        rank.layers.push_back({at, 10, 0});
        rank.samples.push_back({at, 1});
        rank.posted.insert(at);
      }
      if (sequence_ % 10'000 == 0) steps_.advance(job_);
    }
    return mallinfo2().uordblks;
  }

 private:
  tui::Job job_;
  tui::Steps steps_;
  uint32_t sequence_ = 0;
};

TEST(Following, AStepThatNeverEndsDoesNotFillTheMemory) {
  for (const size_t absent : {0u, 1u}) {
    Endless job(2);
    const size_t before = mallinfo2().uordblks;
    const size_t full = job.work(150'000, absent) - before;
    const size_t later = job.work(60'000, absent) - before;
    EXPECT_LT(later, full + full / 20) << absent;
  }
}

/// Some ranks go on while one stays in its step for good: the others are shown all the same, and do not pile up.
TEST(Following, ARankThatStaysInItsStepDoesNotHoldUpTheOthers) {
  tui::Job job;
  tui::Steps steps;
  for (int r = 0; r < 2; ++r) {
    tui::Rank rank;
    rank.rank = r;
    rank.life = tui::Life::kRunning;
    rank.open_step = 0;
    job.ranks.push_back(std::move(rank));
  }
  for (uint64_t step = 0; step < 3000; ++step) {
    job.ranks[0].steps.push_back({step, step * 1000, step * 1000 + 900, 0, 0, false});
    job.ranks[0].open_step = step + 1;
    job.now_ns = static_cast<int64_t>(step) * 1000 + 900;
    steps.advance(job);
    ASSERT_LE(job.ranks[0].steps.size(), 1100u);
  }
  EXPECT_GT(steps.count(), 1800u);
  const uint64_t later = 61'000'000'000;
  job.ranks[0].steps.push_back({3000, later, later + 900, 0, 0, false});
  job.now_ns = later + 900;
  steps.advance(job);
  EXPECT_EQ(steps.count(), 3000u) << "a minute behind is not waited for";
}

/// A spool whose thread writes its steps by turns into its log and into its ring, as where recording is thinned,
/// while it is read.
class ThinnedSteps {
 public:
  static constexpr uint64_t kBegin = 1'000'000, kPeriod = 1000;

  explicit ThinnedSteps(const std::filesystem::path& folder) {
    SpoolBuilder spool;
    spool.header().begin = spool.header().latest = {kBegin, kBegin, kBegin};
    spool.header().rank = 0;
    spool.header().world_size = 1;
    spool.header().flags = kMpiEntered | kMpiInitialized;
    const size_t log = spool.add_chunk(ChunkKind::kEvents, 1 << 22), ring = spool.add_chunk(ChunkKind::kRing, 1 << 22);
    log_begin_ = spool.offset(log), ring_begin_ = spool.offset(ring);
    slots_ = SpoolBuilder::record_slots(1 << 22);
    const std::filesystem::path path = folder / "n0.1.1.spool";
    spool.write(path);
    const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC);
    bytes_ = std::filesystem::file_size(path);
    map_ = static_cast<char*>(mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
    close(fd);
  }
  ~ThinnedSteps() { munmap(map_, bytes_); }

  // of a full ring the oldest record may be the one that is being written over
  size_t steps() const { return 2 * slots_ - 2; }
  void write(uint32_t step) {
    const bool thinned = step % 2 != 0;
    const uint64_t slot = step / 2;
    auto* const record =
        reinterpret_cast<Record*>(map_ + (thinned ? ring_begin_ : log_begin_) + sizeof(ChunkHeader)) + slot;
    record->start_ticks = kBegin + step * kPeriod;
    record->sequence = step;
    record->peer = -1;
    __atomic_store_n(&record->word, record_word(RecordKind::kStep, static_cast<uint32_t>(ContextKind::kStep), kPeriod),
                     __ATOMIC_RELEASE);
    auto* const header = reinterpret_cast<ChunkHeader*>(map_ + ring_begin_);
    if (thinned) __atomic_store_n(&header->ring_written, slot + 1, __ATOMIC_RELEASE);
  }

 private:
  uint64_t log_begin_ = 0, ring_begin_ = 0, slots_ = 0, bytes_ = 0;
  char* map_ = nullptr;
};

TEST(Following, StepsOfAThinnedLogComeInTheirOrder) {
  const ScratchFolder folder;
  ThinnedSteps steps(folder.path());
  tui::SpoolSource source(find_run(folder.path().string()), "run.ddl", tui::SpoolSource::Join::kWhole);
  tui::Job job;
  std::atomic<bool> all_written = false;
  std::atomic<uint32_t> looks = 0;
  std::thread writer([&] {
    for (uint32_t step = 0; step < steps.steps(); ++step) {
      // a few steps between two looks, and during each
      while (step % 100 == 0 && looks < step / 100) std::this_thread::yield();
      steps.write(step);
    }
    all_written = true;
  });
  std::vector<uint64_t> seen;
  for (int looks_after = 0; looks_after < 2; looks_after += all_written) {
    ++looks;
    source.poll(job, 0);
    for (tui::Rank& rank : job.ranks) {
      for (const tui::EndedStep& step : rank.steps) seen.push_back(step.number);
      rank.steps.clear();
    }
  }
  writer.join();
  EXPECT_EQ(seen.size(), steps.steps());
  const auto out_of_order = std::adjacent_find(seen.begin(), seen.end(), std::greater<>());
  EXPECT_EQ(out_of_order, seen.end()) << "step " << out_of_order[1] << " after step " << out_of_order[0];
}

}  // namespace
}  // namespace ddl::test
