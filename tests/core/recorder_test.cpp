#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <thread>

#include "core/lock_and_pages.h"
#include "tests/core/recorder_fixture.h"

namespace ddl {
namespace {

TEST_F(RecorderTest, CallsComeBackInOrderAndWhole) {
  constexpr uint32_t kCalls = 5000;  // more than the first chunks hold
  record([] {
    for (uint32_t i = 0; i < kCalls; ++i) call(kOp, i, i + 1, true);
  });
  const SpoolReader reader = spool();
  const std::vector<Record> all = records(reader);
  ASSERT_EQ(all.size(), kCalls);
  uint64_t before = 0, bytes = 0;
  for (uint32_t i = 0; i < kCalls; ++i) {
    EXPECT_EQ(record_kind(all[i].word), RecordKind::kCall);
    EXPECT_EQ(record_op(all[i].word), kOp);
    EXPECT_EQ(payload_bytes(all[i].payload), i);
    EXPECT_EQ(payload_datatype(all[i].payload), 14u);
    EXPECT_EQ(payload_reduction(all[i].payload), 1u);
    EXPECT_EQ(all[i].sequence, i + 1);
    EXPECT_GE(all[i].start_ticks, before);
    before = all[i].start_ticks;
    bytes += i;
  }
  uint64_t calls = 0, counted_bytes = 0, ticks = 0, event_ticks = 0, in_histogram = 0;
  for (const ProfileEntry& e : profile(reader)) {
    calls += all_calls(e);
    counted_bytes += e.bytes;
    ticks += e.ticks;
    for (uint64_t n : e.histogram) in_histogram += n;
  }
  for (const Record& r : all) event_ticks += record_duration_ticks(r.word);
  EXPECT_EQ(calls, kCalls);
  EXPECT_EQ(in_histogram, kCalls);
  EXPECT_EQ(counted_bytes, bytes);
  EXPECT_EQ(ticks, event_ticks);
  EXPECT_EQ(reader.header().keep_level, 0u);
}

DeviceRecord device_record(uint64_t number) {
  DeviceRecord r = {};
  r.start = ticks();
  r.end = r.start + number;
  r.bytes = number;
  r.graph_node = ~number;
  r.what = device_what(DeviceKind::kMemcpy, 1, 2, 3, 0);
  r.device = 4;
  r.cuda_context = 5;
  r.stream = 6;
  r.correlation = static_cast<uint32_t>(number);
  r.name = intern_name("kernel");
  r.context = 7;
  r.comm = 8;
  r.sequence = 9;
  return r;
}

TEST_F(RecorderTest, WhatDevicesDidComesBackWhole) {
  constexpr uint64_t kRecords = 20000;
  record([] {
    for (uint64_t i = 0; i < kRecords; ++i) write_device_record(device_record(i));
  });
  const SpoolReader reader = spool();
  uint64_t number = 0, bytes = 0;
  for (const SpoolChunk& chunk : reader.chunks(ChunkKind::kDevice)) {
    std::vector<DeviceRecord> some;
    std::vector<Skip> skips;
    reader.read_device(chunk, some, &skips);
    EXPECT_TRUE(skips.empty());
    bytes += chunk.header.bytes;
    for (DeviceRecord r : some) {
      DeviceRecord expected = device_record(number++);
      EXPECT_EQ(r.end - r.start, r.bytes);
      EXPECT_GE(r.start, reader.header().begin.ticks);
      expected.start = r.start;
      expected.end = r.end;
      expected.name = 1;
      ASSERT_EQ(memcmp(&r, &expected, sizeof r), 0) << number;
    }
  }
  EXPECT_EQ(number, kRecords);
  EXPECT_EQ(reader.header().log_bytes, bytes);
}

TEST_F(RecorderTest, WritersOfDeviceRecordsTakeTurns) {
  constexpr uint64_t kRecords = 20000, kThreads = 4;
  record([] {
    std::vector<std::thread> writers;
    for (uint64_t t = 0; t < kThreads; ++t)
      writers.emplace_back([] {
        for (uint64_t i = 0; i < kRecords; ++i) write_device_record(device_record(i));
      });
    for (std::thread& writer : writers) writer.join();
  });
  const SpoolReader reader = spool();
  uint64_t bytes = 0, count = 0;
  for (const SpoolChunk& chunk : reader.chunks(ChunkKind::kDevice)) {
    std::vector<DeviceRecord> some;
    reader.read_device(chunk, some);
    count += some.size();
    for (const DeviceRecord& r : some)
      bytes += r.bytes == ~r.graph_node && r.correlation == r.bytes ? r.bytes : 1ull << 40;
  }
  EXPECT_EQ(count, kThreads * kRecords);
  EXPECT_EQ(bytes, kThreads * kRecords * (kRecords - 1) / 2);
}

TEST_F(RecorderTest, WhatDevicesDidBeyondTheCapIsCounted) {
  constexpr uint64_t kRecords = 10000;
  options_.cap_bytes = 4 * kMinChunkBytes;
  record([] {
    for (uint64_t i = 0; i < kRecords; ++i) write_device_record(device_record(i));
  });
  const SpoolReader reader = spool();
  uint64_t kept = 0;
  for (const SpoolChunk& chunk : reader.chunks(ChunkKind::kDevice)) {
    std::vector<DeviceRecord> some;
    reader.read_device(chunk, some);
    kept += some.size();
  }
  EXPECT_GT(kept, 1000u);
  EXPECT_EQ(kept + reader.header().loss[kLossDeviceNotKept], kRecords);
  EXPECT_LE(reader.header().log_bytes, options_.cap_bytes);
}

TEST_F(RecorderTest, PollsAreCountedAndThoseThatFindSomethingAreEvents) {
  record([] {
    for (int i = 0; i < 10; ++i) {
      const OpenPoll poll = begin_poll();
      if (!is_in_call(this_thread())) _exit(98);
      const uint64_t now = end_poll(poll, kOp, kSiteA, 7, i, i % 5 == 3);
      if (now < poll.start_ticks || is_in_call(this_thread())) _exit(97);
    }
  });
  const SpoolReader reader = spool();
  EXPECT_EQ(profiled_calls(reader, kOp), 10u);
  const std::vector<Record> all = records(reader);
  ASSERT_EQ(all.size(), 2u);
  for (size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(record_kind(all[i].word), RecordKind::kCall);
    EXPECT_EQ(record_op(all[i].word), kOp);
    EXPECT_EQ(all[i].comm, 7u);
    EXPECT_EQ(all[i].peer, i == 0 ? 3 : 8);
    EXPECT_LE(all[i].start_ticks + record_duration_ticks(all[i].word), i == 0 ? all[1].start_ticks : UINT64_MAX);
  }
}

TEST_F(RecorderTest, PollsAreTimeInsideCalls) {
  record([] {
    push_range(2, "polling", 0);
    const OpenPoll poll = begin_poll();
    call(kOp + 1, 1);  // inside the poll: its time is the poll's
    end_poll(poll, kOp, kSiteA, 0, -1, true);
    pop_range(2);
  });
  const SpoolReader reader = spool();
  uint64_t poll_ticks = 0, range_call_ticks = 0;
  for (const Record& r : records(reader)) {
    if (record_kind(r.word) == RecordKind::kCall && record_op(r.word) == kOp)
      poll_ticks = record_duration_ticks(r.word);
    if (record_kind(r.word) == RecordKind::kRange) range_call_ticks = r.payload;
  }
  EXPECT_GT(poll_ticks, 0u);
  EXPECT_EQ(range_call_ticks, poll_ticks);
}

TEST_F(RecorderTest, SizesAndCallSitesAreKeptApart) {
  record([] {
    for (int i = 0; i < 3; ++i) call(kOp, 1000);
    for (int i = 0; i < 5; ++i) call(kOp, 100000);
    for (int i = 0; i < 7; ++i) call(kOp, 1000, 0, false, kSiteB);
  });
  const SpoolReader reader = spool();
  std::multiset<uint64_t> calls;
  for (const ProfileEntry& e : profile(reader)) calls.insert(all_calls(e));
  EXPECT_EQ(calls, (std::multiset<uint64_t>{3, 5, 7}));
}

TEST_F(RecorderTest, AKillLeavesTheCallInProgressOpen) {
  record(
      [] {
        call(kOp, 1);
        begin_call(kOp + 1, kSiteB, 3, true, 42, 2, record_payload(77, 0, 0));
        raise(SIGKILL);
      },
      SIGKILL);
  const SpoolReader reader = spool();
  const std::vector<Record> all = records(reader);
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(record_kind(all[1].word), RecordKind::kOpen);
  EXPECT_EQ(record_op(all[1].word), kOp + 1);
  EXPECT_EQ(all[1].comm, 3u);
  EXPECT_EQ(all[1].sequence, 42u);
  EXPECT_EQ(payload_bytes(all[1].payload), 77u);
  EXPECT_EQ(profiled_calls(reader, kOp + 1), 0u);
}

TEST_F(RecorderTest, AFullLogKeepsWholeStepsOfEverCoarserGrid) {
  options_.cap_bytes = 2 << 20;
  constexpr uint64_t kSteps = 20000, kPerStep = 20;
  record([] {
    for (uint64_t step = 0; step < kSteps; ++step) {
      push_range(1, nullptr, step);
      for (uint64_t i = 0; i < kPerStep; ++i) call(kOp, 8);
      pop_range(1);
    }
  });
  const SpoolReader reader = spool();
  EXPECT_EQ(profiled_calls(reader, kOp), kSteps * kPerStep);  // exact whatever was kept
  const FileHeader& header = reader.header();
  EXPECT_GE(header.keep_level, 2u);
  EXPECT_LE(header.log_bytes, options_.cap_bytes);
  EXPECT_LT(reader.file_bytes(), options_.cap_bytes + (512 << 10));

  uint64_t level = 0, full_steps = 0, last_step = 0;
  uint64_t in_step = 0;
  for (const Record& r : records(reader)) {
    if (record_kind(r.word) == RecordKind::kCall) ++in_step;
    if (record_kind(r.word) != RecordKind::kStep) continue;
    const uint64_t step = static_cast<uint64_t>(r.comm) << 32 | r.sequence;
    if (in_step == kPerStep) {
      // The grid only gets coarser: every kept step is a multiple of the step width so far, which doubles when a
      // multiple is left out.
      while (full_steps > 0 && step > last_step + (1ull << level)) ++level;
      EXPECT_EQ(step % (1ull << level), 0u) << step;
      ++full_steps;
      last_step = step;
    }
    in_step = 0;
  }
  EXPECT_GT(full_steps, 1500u);
  // it reaches to the end of a run ten times longer than what fits, instead of stopping
  EXPECT_GT(last_step, kSteps - 100);
}

TEST_F(RecorderTest, WithoutStepsBlocksOfCollectivesAreKept) {
  options_.cap_bytes = 256 * 1024;
  record([] {
    for (uint32_t i = 1; i <= 60000; ++i) call(kOp, 4, i, true);
  });
  const SpoolReader reader = spool();
  EXPECT_EQ(profiled_calls(reader, kOp), 60000u);
  const uint32_t width = 1u << reader.header().keep_level;
  ASSERT_GE(width, 4u);
  const std::vector<Record> all = records(reader);
  for (const Record& r : all) {
    if (r.sequence > 50000) {
      EXPECT_EQ(r.sequence / 64 % width, 0u);
    }
  }
  uint64_t in_ring = 0;
  for (const SpoolChunk& chunk : reader.chunks(ChunkKind::kRing)) in_ring += chunk.header.ring_written;
  EXPECT_EQ(all.size() + in_ring, 60000u);  // nothing vanishes uncounted
  EXPECT_EQ(records(reader, ChunkKind::kRing).back().sequence, 60000u);
}

TEST_F(RecorderTest, TheStepWindowKeepsItsStepsOnly) {
  options_.has_steps = true;
  options_.first_step = 10;
  options_.last_step = 12;
  record([] {
    call(kOp, 1);
    for (uint64_t step = 0; step < 20; ++step) {
      push_range(1, nullptr, step);
      call(kOp, 1000 + step);
      pop_range(1);
    }
  });
  const SpoolReader reader = spool();
  std::vector<uint64_t> kept;
  uint64_t steps = 0;
  for (const Record& r : records(reader)) {
    if (record_kind(r.word) == RecordKind::kCall) kept.push_back(payload_bytes(r.payload));
    steps += record_kind(r.word) == RecordKind::kStep;
  }
  EXPECT_EQ(kept, (std::vector<uint64_t>{1010, 1011, 1012}));
  EXPECT_EQ(steps, 20u);
  EXPECT_EQ(profiled_calls(reader, kOp), 21u);
}

TEST_F(RecorderTest, MoreKeysThanTheProfileHoldsAreBookedUnderOther) {
  constexpr uint32_t kKeys = 20000;
  record([] {
    for (uint32_t i = 0; i < kKeys; ++i) {
      const OpenCall open = begin_call(kOp, kSiteA, i + 1, false, 0, -1, record_payload(3, 0, 0));
      end_call(open, record_payload(3, 0, 0));
    }
  });
  const SpoolReader reader = spool();
  uint64_t calls = 0, bytes = 0, other = 0;
  for (const ProfileEntry& e : profile(reader)) {
    calls += all_calls(e);
    bytes += e.bytes;
    if (e.context == 0 && e.comm == kNoComm) other += all_calls(e);
  }
  EXPECT_EQ(calls, kKeys);
  EXPECT_EQ(bytes, 3u * kKeys);
  EXPECT_GT(other, 0u);
  EXPECT_EQ(reader.header().loss[kLossProfileKeys], other);
  uint64_t room = 0;
  for (const SpoolChunk& table : reader.chunks(ChunkKind::kProfile)) room += profile_capacity(table.header.bytes);
  EXPECT_LT(room, 17000u);  // bounded
}

/// Steps that hooks see are whole and without gaps, and end with the program's first own one.
TEST_F(RecorderTest, StepsOfHooksGiveWayToTheProgramsOwn) {
  record([] {
    begin_hooked_step(0, true);   // there is none to follow
    begin_hooked_step(7, false);  // inside another: none
    call(kOp, 1);
    end_hooked_step();
    call(kOp, 1);
    begin_hooked_step(1, true);
    end_hooked_step();
    end_hooked_step();  // none is open
    call(kOp, 1);
    begin_hooked_step(2, false);
    end_hooked_step();
    begin_hooked_step(3, true);
    push_range(1, nullptr, 100);
    end_hooked_step();
    pop_range(1);
    begin_hooked_step(4, true);
    end_hooked_step();
  });
  const SpoolReader reader = spool();
  EXPECT_EQ(reader.header().loss[kLossUnbalanced], 0u);
  std::vector<Record> steps;
  uint64_t in_calls = 0;
  for (const Record& r : records(reader)) {
    if (record_kind(r.word) == RecordKind::kStep) steps.push_back(r);
    if (record_kind(r.word) == RecordKind::kCall && steps.size() == 1) in_calls += record_duration_ticks(r.word);
  }
  ASSERT_EQ(steps.size(), 4u);
  const auto end = [&](size_t i) { return steps[i].start_ticks + record_duration_ticks(steps[i].word); };
  EXPECT_EQ(steps[1].start_ticks, end(0));
  EXPECT_EQ(steps[1].payload, in_calls) << "the call between the two is the second's";
  EXPECT_GT(steps[2].start_ticks, end(1));
  EXPECT_EQ(steps[2].payload, 0u);
  EXPECT_EQ(steps[3].sequence, 100u);
}

TEST_F(RecorderTest, RangesKnowTheirTimeInCallsAndSurviveMisuse) {
  record([] {
    pop_range(3);  // nothing open
    push_range(2, "forward", 0);
    push_range(3, "conv1", 0);
    call(kOp, 1);
    pop_range(3);
    push_range(3, "conv2", 0);
    pop_range(2);  // closes conv2 too
    for (int i = 0; i < 100; ++i) push_range(3, "deep", 0);
    for (int i = 0; i < 100; ++i) pop_range(3);
    push_range(9, "no such kind", 0);
    push_range(3, nullptr, 0);
    record_value("loss", 0.25);
  });
  const SpoolReader reader = spool();
  EXPECT_EQ(reader.header().loss[kLossUnbalanced], 2u);
  EXPECT_EQ(reader.header().loss[kLossRangeDepth], 100u - kMaxRangeDepth);
  struct Strings : MetaVisitor {
    void on_string(uint32_t id, std::string_view text) override { name[id] = text; }
    void on_context(const ContextMeta& c) override { context[c.id] = c; }
    std::map<uint32_t, std::string> name;
    std::map<uint32_t, ContextMeta> context;
  } meta;
  reader.read_meta(meta);
  uint64_t call_ticks = 0;
  std::map<std::string, int> closed;
  for (const Record& r : records(reader)) {
    if (record_kind(r.word) == RecordKind::kCall) call_ticks = record_duration_ticks(r.word);
    if (record_kind(r.word) == RecordKind::kValue) {
      EXPECT_EQ(meta.name[r.context], "loss");
      EXPECT_EQ(r.payload, 0x3fd0000000000000u);  // 0.25
    }
    if (record_kind(r.word) != RecordKind::kRange) continue;
    const std::string name = meta.name[meta.context[r.context].name];
    ++closed[name];
    EXPECT_EQ(r.payload, name == "conv1" || name == "forward" ? call_ticks : 0) << name;
  }
  EXPECT_EQ(closed["conv1"], 1);
  EXPECT_EQ(closed["conv2"], 1);
  EXPECT_EQ(closed["forward"], 1);
  EXPECT_EQ(closed["deep"], static_cast<int>(kMaxRangeDepth));
}

TEST_F(RecorderTest, ManyThreadsAtOnceLoseNothing) {
  constexpr int kThreads = 8;
  constexpr uint64_t kCalls = 20000;
  record([] {
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([t] {
        for (uint64_t i = 0; i < kCalls; ++i) {
          if (i % 100 == 0) push_range(3, i % 200 ? "a" : "b", 0);
          call(kOp, static_cast<uint64_t>(t), 0, false, i % 3 ? kSiteA : kSiteB);
          if (i % 100 == 99) pop_range(3);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  });
  const SpoolReader reader = spool();
  EXPECT_EQ(profiled_calls(reader, kOp), kThreads * kCalls);
  uint64_t calls = 0;
  for (const Record& r : records(reader)) calls += record_kind(r.word) == RecordKind::kCall;
  EXPECT_EQ(calls, kThreads * kCalls);
}

TEST_F(RecorderTest, ThreadsThatMeetANameAtOnceAgreeOnIt) {
  constexpr int kThreads = 4, kNames = 4000;
  record([] {
    std::vector<std::vector<uint32_t>> met(kThreads);
    std::atomic<int> starting = kThreads;
    std::vector<std::thread> threads;
    for (std::vector<uint32_t>& ids : met) {
      threads.emplace_back([&] {
        for (--starting; starting != 0;) std::this_thread::yield();
        for (int i = 0; i < kNames; ++i) {
          const std::string name = "layer" + std::to_string(i);
          const uint32_t text = intern_name(name.data(), name.size());
          ids.push_back(text);
          ids.push_back(range_context(0, ContextKind::kLayer, text));
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const std::vector<uint32_t>& ids : met) {
      if (ids != met[0]) _exit(97);
    }
    for (size_t i = 0; i < met[0].size(); i += 2) {
      if (range_path(met[0][i + 1]).layer != met[0][i]) _exit(98);
    }
  });
  struct Names : MetaVisitor {
    std::map<std::string, int, std::less<>> times;
    void on_string(uint32_t /*id*/, std::string_view text) override { ++times[std::string(text)]; }
  } names;
  spool().read_meta(names);
  for (int i = 0; i < kNames; ++i) EXPECT_EQ(names.times["layer" + std::to_string(i)], 1) << i;
}

TEST_F(RecorderTest, ThreadsThatComeAndGoShareTheirSpace) {
  record([] {
    for (int t = 0; t < 200; ++t) std::thread([] { call(kOp, 1); }).join();
  });
  const SpoolReader reader = spool();
  EXPECT_EQ(profiled_calls(reader, kOp), 200u);
  EXPECT_EQ(reader.chunks(ChunkKind::kRing).size(), 1u);
}

TEST_F(RecorderTest, TheFirstThreadTakesNoOthersPlace) {
  // Gloo's threads come and go before the one that trains does anything that is recorded.
  record([] {
    std::thread([] { call(kOp, 1); }).join();
    call(kOp, 1);
  });
  EXPECT_EQ(spool().chunks(ChunkKind::kRing).size(), 2u);
}

TEST_F(RecorderTest, AForkedChildWritesNothing) {
  record([] {
    pthread_atfork(nullptr, nullptr, forget_after_fork);
    call(kOp, 1);
    const pid_t child = fork();
    if (child == 0) {
      for (int i = 0; i < 1000; ++i) call(kOp, 2);
      _exit(this_thread() ? 1 : 0);
    }
    int status = -1;
    waitpid(child, &status, 0);
    call(kOp, 3);
    if (status != 0) _exit(98);
  });
  const SpoolReader reader = spool();
  EXPECT_EQ(profiled_calls(reader, kOp), 2u);
  EXPECT_EQ(records(reader).size(), 2u);
}

TEST_F(RecorderTest, AFileSizeLimitStopsTheLogAndNotTheJob) {
  record([] {
    const rlimit limit = {600 * 1024, 600 * 1024};
    setrlimit(RLIMIT_FSIZE, &limit);
    for (uint32_t i = 0; i < 100000; ++i) call(kOp, 1);
  });
  const SpoolReader reader = spool();
  EXPECT_TRUE(reader.header().flags & kCannotGrow);
  EXPECT_LE(reader.file_bytes(), 600u * 1024);
  EXPECT_EQ(profiled_calls(reader, kOp), 100000u);
  uint64_t in_ring = 0;
  for (const SpoolChunk& chunk : reader.chunks(ChunkKind::kRing)) in_ring += chunk.header.ring_written;
  EXPECT_EQ(records(reader).size() + in_ring, 100000u);
}

/// A spool that could not grow is left alone for 2e9 ticks.
void wait_for_next_attempt() { usleep(static_cast<useconds_t>(2.1e6 / estimate_ticks_per_ns())); }

TEST_F(RecorderTest, AnyKindOfForkedChildIsInactive) {
  record([] {
    call(kOp, 1);
    // no handler of pthread_atfork runs
    const pid_t child = static_cast<pid_t>(syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0));
    if (child == 0) _exit(g_process.active ? 1 : 0);
    int status = -1;
    waitpid(child, &status, 0);
    call(kOp, 3);
    if (status != 0) _exit(98);
  });
  EXPECT_EQ(profiled_calls(spool(), kOp), 2u);
}

TEST_F(RecorderTest, RecordingGoesOnWhenTheDiskHasRoomAgain) {
  record([] {
    const rlimit unlimited = {RLIM_INFINITY, RLIM_INFINITY}, limit = {256 * 1024, RLIM_INFINITY};
    setrlimit(RLIMIT_FSIZE, &limit);
    for (uint32_t i = 0; i < 10000; ++i) call(kOp, 1);
    setrlimit(RLIMIT_FSIZE, &unlimited);
    wait_for_next_attempt();
    for (uint32_t i = 0; i < 1000; ++i) call(kOp + 1, 1);
  });
  const SpoolReader reader = spool();
  EXPECT_TRUE(reader.header().flags & kCannotGrow);
  EXPECT_EQ(reader.header().grow_errno, EFBIG);
  EXPECT_EQ(profiled_calls(reader, kOp), 10000u);
  uint64_t later = 0;
  for (const Record& r : records(reader)) later += record_op(r.word) == kOp + 1;
  EXPECT_EQ(later, 1000u);
}

TEST_F(RecorderTest, AThreadWithoutRoomIsCountedOnceAndTriedAgain) {
  record([] {
    const rlimit unlimited = {RLIM_INFINITY, RLIM_INFINITY}, limit = {kPageBytes, RLIM_INFINITY};
    setrlimit(RLIMIT_FSIZE, &limit);
    for (uint32_t i = 0; i < 1000; ++i) call(kOp, 1);
    setrlimit(RLIMIT_FSIZE, &unlimited);
    wait_for_next_attempt();
    for (uint32_t i = 0; i < 10; ++i) call(kOp, 1);
  });
  const SpoolReader reader = spool();
  EXPECT_EQ(reader.header().loss[kLossThreads], 1u);
  EXPECT_EQ(profiled_calls(reader, kOp), 10u);
}

TEST_F(RecorderTest, TheUmaskDoesNotLockUsOut) {
  ASSERT_EQ(chmod(folder_.c_str(), 0777), 0);
  const pid_t child = fork();
  if (child == 0) {
    constexpr uid_t kNobody = 65534;
    if (geteuid() == 0 && seteuid(kNobody) != 0) _exit(2);  // root may open everything
    umask(0777);
    int error = 0;
    if (activate(options_, &error)) _exit(99);
    for (uint32_t i = 0; i < 10000; ++i) call(kOp, 1);
    _exit(0);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_EQ(status, 0);
  EXPECT_EQ(records(spool()).size(), 10000u);
  EXPECT_EQ(fs::status(directory_).permissions(), fs::perms::owner_all);
}

TEST_F(RecorderTest, DescriptionsAreBounded) {
  record([] {
    for (uint32_t i = 0; i < 1500000; ++i) write_communicator_name(1, i % 2 ? "one" : "other");
    const RankRun run = {0, 1, 2};
    CommunicatorMeta meta = {};
    meta.runs = 1;
    // there is room for these all the same
    for (meta.index = 1; meta.index <= 1000; ++meta.index) write_communicator(meta, &run);
    write_fact("last", "word");
  });
  const SpoolReader reader = spool();
  EXPECT_LT(reader.file_bytes(), 12u << 20);
  EXPECT_GT(reader.header().loss[kLossMeta], 0u);
  struct : MetaVisitor {
    int communicators = 0, facts = 0;
    void on_communicator(const CommunicatorMeta&, std::span<const RankRun>) override { ++communicators; }
    void on_fact(std::string_view, std::string_view) override { ++facts; }
  } seen;
  reader.read_meta(seen);
  EXPECT_EQ(seen.communicators, 1000);
  EXPECT_EQ(seen.facts, 1);
}

TEST_F(RecorderTest, ALinkInPlaceOfTheDirectoryIsNotFollowed) {
  fs::create_directory(folder_ / "elsewhere");
  fs::create_directory_symlink("elsewhere", directory_);
  const pid_t child = fork();
  if (child == 0) {
    int error = -1;
    const char* why = activate(options_, &error);
    _exit(why && strstr(why, "symbolic link") && error == 0 && !this_thread() ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(fs::is_empty(folder_ / "elsewhere"));
}

TEST_F(RecorderTest, ACallThatOutlivesTheRingDoesNotSpoilItsSlot) {
  options_.has_steps = true;  // nothing is kept: everything goes to the ring
  options_.first_step = options_.last_step = 1000000;
  record([] {
    const OpenCall outer = begin_call(kOp + 1, kSiteA, 1, false, 0, -1, 0);
    for (int i = 0; i < 5000; ++i) call(kOp, 1, 0, false, kSiteB);  // three times round
    end_call(outer, 0);
  });
  const SpoolReader reader = spool();
  EXPECT_EQ(profiled_calls(reader, kOp + 1), 1u);
  for (const Record& r : records(reader, ChunkKind::kRing)) EXPECT_EQ(record_op(r.word), kOp);
}

TEST_F(RecorderTest, ADirectoryThatCannotBeMadeIsSaid) {
  options_.directory = "/proc/no/such/place.ddl";
  const pid_t child = fork();
  if (child == 0) {
    int error = 0;
    _exit(activate(options_, &error) && error != 0 && !this_thread() ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

// The thread that holds the lock is cancelled in a system call: nobody else would ever get it.
TEST_F(RecorderTest, RangesThatNobodyEndsDoNotSlowDownThoseThatFollow) {
  record([] {
    Thread* const thread = this_thread();
    const auto least_of = [&](bool ends) {
      uint64_t least = UINT64_MAX;
      for (int round = 0; round < 20; ++round) {
        const uint64_t begin = ticks();
        for (int i = 0; i < 100; ++i) {
          const uint64_t id = start_range(thread, static_cast<uint32_t>(ContextKind::kLayer), 0, 0, {});
          if (ends) end_range(thread, id);
        }
        least = std::min(least, ticks() - begin);
      }
      return least;
    };
    const uint64_t ended = least_of(true);
    for (int i = 0; i < 2000; ++i) start_range(thread, static_cast<uint32_t>(ContextKind::kLayer), 0, 0, {});
    if (least_of(false) > 2 * ended) _exit(1);
  });
}

TEST(LockTest, IsNotKeptByAThreadThatIsCancelled) {
  struct Shared {
    std::atomic<bool> cancelled = false, went_on = false;
  } shared;
  pthread_t thread;
  const auto body = [](void* of) -> void* {
    auto& s = *static_cast<Shared*>(of);
    {
      const Lock outer;
      { const Lock inner; }
      while (!s.cancelled) sched_yield();
      pthread_testcancel();
      s.went_on = true;
    }
    pthread_testcancel();
    return nullptr;
  };
  ASSERT_EQ(pthread_create(&thread, nullptr, body, &shared), 0);
  ASSERT_EQ(pthread_cancel(thread), 0);
  shared.cancelled = true;
  void* result = nullptr;
  ASSERT_EQ(pthread_join(thread, &result), 0);
  EXPECT_TRUE(shared.went_on);
  EXPECT_EQ(result, PTHREAD_CANCELED);
  const Lock again;
  EXPECT_TRUE(again);
}

}  // namespace
}  // namespace ddl
