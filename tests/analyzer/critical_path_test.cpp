// Critical paths: random jobs of which the simulator knows what each thing waited for, summed forwards; and by hand
// through the store.
#include "analyzer/passes/critical_path.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <random>

#include "tests/analyzer/tables.h"

namespace ddl::test {
namespace {

constexpr int64_t kUs = 1000;
constexpr size_t kStreams = 3;

/// Time on the path so far, by kind.
using Sums = std::map<PathKind, int64_t>;

/// A host that launches, waits and works at random. Unlike the walk it goes forwards, and knows causes instead of
/// reading them from times.
class RandomJob {
 public:
  explicit RandomJob(unsigned seed) : random_(seed) {}

  PathStep step(size_t actions) {
    step_ = {};
    step_.window.begin_ns = now_ns_;
    host_.clear();
    for (Work& work : comes_after_) work.path.clear();  // there the path begins
    for (Work& work : last_) work.path.clear();
    latest_ = {};
    for (size_t i = 0; i < actions; ++i) act();
    work(any(1, 5));
    step_.window.end_ns = now_ns_;
    truth = latest_.end_ns >= now_ns_ ? latest_.path : host_;
    return step_;
  }
  Sums truth;

 private:
  struct Work {
    int64_t end_ns = INT64_MIN;
    Sums path;
  };

  int64_t any(int64_t least, int64_t most) {
    return std::uniform_int_distribution<int64_t>(least, most)(random_) * kUs + random_() % 1000;
  }
  size_t any_stream() { return random_() % kStreams; }

  void work(int64_t ns) {
    host_[PathKind::kHost] += ns;
    now_ns_ += ns;
  }

  void act() {
    switch (random_() % 8) {
      case 0:
        return record_and_wait();
      case 1:
        return synchronize(random_() % 2 == 0 ? std::optional(any_stream()) : std::nullopt);
      case 2:
        return launch(DeviceClass::kCopy, random_() % 2 == 0);
      default:
        work(any(1, 12));
        return launch(random_() % 4 == 0 ? DeviceClass::kCommunication : DeviceClass::kCompute, false);
    }
  }

  void record_and_wait() {
    const size_t on = any_stream(), stream = any_stream();
    if (on == stream) return;
    const Work recorded = comes_after_[on];
    const int64_t on_call = ++call_;
    if (random_() % 2 == 0) launch(DeviceClass::kCompute, false);  // which the event does not cover
    step_.waits.push_back({stream, ++call_, on, on_call});
    if (recorded.end_ns > comes_after_[stream].end_ns) comes_after_[stream] = recorded;
  }

  void launch(DeviceClass device_class, bool is_awaited) {
    PathOperation o;
    o.stream = any_stream();
    o.call = ++call_;
    o.device_class = device_class;
    const Work before = comes_after_[o.stream];
    const int64_t called_ns = now_ns_, reached_ns = called_ns + any(1, 9);
    o.interval.begin_ns = std::max(reached_ns, before.end_ns == INT64_MIN ? INT64_MIN : before.end_ns + any(1, 3));
    o.interval.end_ns = o.interval.begin_ns + any(1, 60);
    Work done{o.interval.end_ns, {}};
    if (before.end_ns > called_ns) {
      done.path = before.path;
      done.path[PathKind::kBetween] += o.interval.begin_ns - before.end_ns;
    } else {
      done.path = host_;
      done.path[PathKind::kLaunch] += o.interval.begin_ns - called_ns;
    }
    const int64_t length_ns = o.interval.length_ns();
    if (device_class == DeviceClass::kCommunication && random_() % 3 != 0) {
      o.wait_ns = static_cast<int64_t>(random_() % static_cast<uint64_t>(length_ns));
      done.path[PathKind::kWait] += *o.wait_ns;
      done.path[PathKind::kTransfer] += length_ns - *o.wait_ns;
    } else {
      done.path[device_class == DeviceClass::kCopy            ? PathKind::kCopy
                : device_class == DeviceClass::kCommunication ? PathKind::kCollective
                                                              : PathKind::kCompute] += length_ns;
    }
    int64_t returned_ns = called_ns + any(1, 4);
    if (is_awaited) {
      returned_ns = done.end_ns + any(0, 2);
      host_ = done.path;
      host_[PathKind::kHost] += returned_ns - done.end_ns;
    } else {
      // A copy that is over sooner than its call returns would count as one that the host waited for.
      if (device_class == DeviceClass::kCopy) returned_ns = std::min(returned_ns, done.end_ns - 1);
      host_[PathKind::kHost] += returned_ns - called_ns;
    }
    o.launch = {called_ns, returned_ns};
    now_ns_ = returned_ns;
    comes_after_[o.stream] = last_[o.stream] = done;
    if (done.end_ns > latest_.end_ns) latest_ = done;
    step_.operations.push_back(o);
  }

  void synchronize(std::optional<size_t> stream) {
    if (stream && comes_after_[*stream].end_ns > last_[*stream].end_ns) stream.reset();
    Work awaited;
    for (size_t s = 0; s < kStreams; ++s)
      if ((!stream || s == *stream) && last_[s].end_ns > awaited.end_ns) awaited = last_[s];
    const int64_t called_ns = now_ns_;
    if (awaited.end_ns <= called_ns) {
      work(any(1, 3));
    } else {
      now_ns_ = awaited.end_ns + any(0, 3);
      host_ = awaited.path;
      host_[PathKind::kHost] += now_ns_ - awaited.end_ns;
    }
    step_.synchronizations.push_back({{called_ns, now_ns_}, stream, 0, 0});
  }

  std::mt19937 random_;
  PathStep step_;
  Sums host_;
  std::array<Work, kStreams> comes_after_;  ///< by stream: what the next one comes after
  std::array<Work, kStreams> last_;         ///< of each stream
  Work latest_;
  int64_t now_ns_ = 0, call_ = 0;
};

Sums sums_of(const std::vector<PathPiece>& pieces) {
  Sums sums;
  for (const PathPiece& piece : pieces) sums[piece.kind] += piece.interval.length_ns();
  return sums;
}

TEST(CriticalPath, IsWhatTheSimulatorKnows) {
  std::map<PathKind, size_t> seen;
  for (unsigned seed = 1; seed <= 300; ++seed) {
    RandomJob job(seed);
    EarlierEnds earlier(kStreams, INT64_MIN);
    for (int s = 0; s < 4; ++s) {
      const PathStep step = job.step(1 + seed % 60);
      const std::vector<PathPiece> pieces = critical_path(step, earlier);
      std::erase_if(job.truth, [](const auto& sum) { return sum.second == 0; });
      ASSERT_EQ(sums_of(pieces), job.truth) << "seed " << seed << ", step " << s;
      for (size_t i = 1; i < pieces.size(); ++i) ASSERT_EQ(pieces[i].interval.end_ns, pieces[i - 1].interval.begin_ns);
      for (const auto& [kind, ns] : job.truth) ++seen[kind];
    }
  }
  for (const PathKind kind : {PathKind::kHost, PathKind::kLaunch, PathKind::kBetween, PathKind::kCompute,
                              PathKind::kWait, PathKind::kTransfer, PathKind::kCollective, PathKind::kCopy})
    EXPECT_GT(seen[kind], 50u) << name_of(kind);
}

PathOperation kernel(int64_t launch_us, int64_t begin_us, int64_t end_us, size_t stream, int64_t name) {
  PathOperation o;
  o.interval = {begin_us * kUs, end_us * kUs};
  o.launch = {launch_us * kUs, launch_us * kUs + 2 * kUs};
  o.call = launch_us;
  o.stream = stream;
  o.name = name;
  o.region = 10 * name;
  return o;
}

TEST(CriticalPath, WhatNothingTellsIsUnknown) {
  // The second begins 100 us behind its launch while its stream is free, the third 50 us behind the second.
  PathStep step{
      {0, 400 * kUs}, {kernel(10, 15, 20, 0, 1), kernel(30, 130, 200, 0, 2), kernel(40, 250, 500, 0, 3)}, {}, {}, {}};
  EarlierEnds earlier(1, INT64_MIN);
  EXPECT_EQ(sums_of(critical_path(step, earlier)),
            (Sums{{PathKind::kHost, 30 * kUs}, {PathKind::kUnknown, 150 * kUs}, {PathKind::kCompute, 320 * kUs}}));
}

TEST(CriticalPath, EndsThoughWhatWasAwaitedBeginsWhenTheCallIsOver) {
  // Both run within the error of stamps behind the call that waited for the second, which comes after the first by the
  // numbers of the calls, but was launched before it.
  PathOperation first = kernel(100, 0, 0, 0, 1), second = kernel(50, 0, 0, 0, 2);
  first.call = 1;
  first.interval = {100'200, 100'400};
  second.call = 2;
  second.interval = {100'500, 101'000};
  const PathStep step{{0, 101 * kUs}, {first, second}, {{{60 * kUs, 100 * kUs}, {}, 0, 0}}, {}, {}};
  EarlierEnds earlier(1, INT64_MIN);
  EXPECT_EQ(
      sums_of(critical_path(step, earlier)),
      (Sums{
          {PathKind::kHost, 100'000}, {PathKind::kLaunch, 200}, {PathKind::kBetween, 100}, {PathKind::kCompute, 700}}));
}

TEST(CriticalPath, TheHostsTimeBelongsToTheNextLaunchUnlessALongRangeSaysOtherwise) {
  PathStep step{{0, 1500 * kUs}, {kernel(600, 605, 610, 0, 1), kernel(1000, 1005, 1200, 0, 2)}, {}, {}, {}};
  step.ranges = {{{0, 1400 * kUs}, 7}, {{10 * kUs, 550 * kUs}, 8}};
  EarlierEnds earlier(1, INT64_MIN);
  std::map<std::optional<int64_t>, int64_t> host_ns;
  for (const PathPiece& piece : critical_path(step, earlier)) host_ns[piece.region] += piece.interval.length_ns();
  // 0 to 600 loads data (8), to 602 launches (10), to 1000 is in the outer range (7), to 1002 launches (20); the rest
  // is that range's, too.
  EXPECT_EQ(host_ns, (std::map<std::optional<int64_t>, int64_t>{
                         {7, (398 + 498) * kUs}, {8, 600 * kUs}, {10, 2 * kUs}, {20, 2 * kUs}}));
}

// Two ranks, by hand, through the store: rank 1 computes longer, rank 0 waits inside its collective on a
// stream of its own.
TEST(CriticalPath, OfARunByHand) {
  Tables run(2);
  run.exec(
      "INSERT INTO gpu_name VALUES (1, 'gemm', 'compute'), (2, 'ncclDevKernel_AllReduce', 'communication'), (3, 'update', 'compute'),"
      " (4, '[CUDA synchronisation: Stream Sync]', 'other');"
      "INSERT INTO op (id, name, class, nonblocking) VALUES (100, 'ncclAllReduce', 'all_to_all', 1);"
      "INSERT INTO region VALUES (1, 0, 'layer', 'fc', NULL, 'fc')");
  const int64_t comm = run.communicator("ncclcomm", {0, 1});
  int64_t event = 1000;
  for (const int64_t rank : {0, 1}) {
    for (int64_t s = 0; s < 3; ++s) {
      const int64_t t = s * 1000, gemm_us = rank == 0 ? 100 : 160;
      const auto add = [&](int kind, int name, const char* stream, int64_t launch, int64_t begin, int64_t end,
                           int64_t call, const std::string& collective) {
        run.exec(
            "INSERT INTO gpu_event (process, kind, name, device, context, stream, region, step, thread, start_ns, duration_ns, correlation,"
            " comm, seq, launch_ns, launch_duration_ns) VALUES (" +
            std::to_string(rank + 1) + ", " + std::to_string(kind) + ", " + std::to_string(name) + ", 0, 1, " + stream +
            ", 1, " + std::to_string(s) + ", 0, " + std::to_string((t + begin) * kUs) + ", " +
            std::to_string((end - begin) * kUs) + ", " + std::to_string(10 * s + call) + ", " + collective + ", " +
            std::to_string((t + launch) * kUs) + ", " + std::to_string(kind == 4 ? (end - launch) * kUs : 3 * kUs) +
            ")");
      };
      const std::string collective = std::to_string(comm) + ", " + std::to_string(s + 1);
      const int64_t met_us = 20 + 160 + 5, done_us = met_us + 50, begin_us = 20 + gemm_us + 5;
      add(1, 1, "7", 10, 20, 20 + gemm_us, 1, "NULL, NULL");
      run.exec("INSERT INTO stream_wait VALUES (" + std::to_string(rank + 1) + ", 1, 9, " + std::to_string(10 * s + 3) +
               ", 1, 7, " + std::to_string(10 * s + 2) + ")");
      add(1, 2, "9", 30, begin_us, done_us, 4, collective);
      run.exec(
          "INSERT INTO event (id, process, thread, kind, op, comm, seq, region, step, start_ns, duration_ns, bytes) VALUES (" +
          std::to_string(++event) + ", " + std::to_string(rank + 1) + ", 0, 4, 100, " + std::to_string(comm) + ", " +
          std::to_string(s + 1) + ", 1, " + std::to_string(s) + ", " + std::to_string((t + begin_us) * kUs) + ", " +
          std::to_string((done_us - begin_us) * kUs) + ", 8)");
      // The host waits for the collective, works for 25 us and launches the update.
      add(4, 4, "9", 40, 40, done_us + 4, 5, "NULL, NULL");
      add(1, 3, "7", done_us + 29, done_us + 35, done_us + 65, 6, "NULL, NULL");
      run.step(rank, s, t * kUs, (t + done_us + 40) * kUs, 0);
    }
  }
  run.exec("UPDATE process SET end_ns = 4000000");
  run.analyze();
  const auto us = [&](int64_t rank, const char* kind) {
    return run.integer("SELECT coalesce(sum(time_ns), -1000) / 1000 FROM v_critical_path WHERE rank = " +
                       std::to_string(rank) + " AND step = 1 AND kind = '" + kind + "'");
  };
  // Host 10, launch 10, gemm, between 5, the collective, host 4 and 25, launch 6, update 30.
  for (const int64_t rank : {0, 1}) {
    EXPECT_EQ(us(rank, "host"), 10 + 4 + 25);
    EXPECT_EQ(us(rank, "launch"), 10 + 6);
    EXPECT_EQ(us(rank, "between"), 5);
    EXPECT_EQ(us(rank, "compute"), (rank == 0 ? 100 : 160) + 30);
    EXPECT_EQ(us(rank, "wait"), rank == 0 ? 60 : -1);
    EXPECT_EQ(us(rank, "transfer"), 50);
    EXPECT_EQ(run.integer("SELECT sum(time_ns) FROM v_critical_path WHERE step = 1 AND rank = " + std::to_string(rank)),
              (20 + 160 + 5 + 50 + 65) * kUs);
  }
  EXPECT_EQ(run.text("SELECT layer FROM v_critical_path WHERE name = 'update' LIMIT 1"), "fc");
  EXPECT_EQ(run.integer("SELECT count(*) FROM v_critical_path WHERE step IS NULL"), 0);
}

}  // namespace
}  // namespace ddl::test
