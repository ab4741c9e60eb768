// The short way leaves what the long one leaves, and is not taken where there is something to ask.
#include "core/repeated_call.h"

#include <map>

#include "tests/core/recorder_fixture.h"

namespace ddl {
namespace {

constexpr uint32_t kComm = 1;
constexpr uint64_t kPayload = record_payload(4096, 14, 1);

bool call_short(uint32_t sequence, const void* site = kSiteA, uint32_t op = kOp, uint32_t comm = kComm,
                uint64_t payload = kPayload) {
  OpenCall open;
  uint32_t asked = 0;
  const bool taken = may_repeat(this_thread()) && begin_repeated_call(
                                                      this_thread(), op, site, comm, static_cast<int32_t>(sequence) + 1,
                                                      PayloadKey(0, payload), [&] { return ++asked, sequence; }, &open);
  if (asked != (taken ? 1U : 0U)) _exit(90);  // a number of a collective is used up by asking for it
  if (taken) end_repeated_call(open);
  return taken;
}
void call_long(uint32_t sequence) { call(kOp, 4096, sequence, true); }

void must(bool truth, int line) {
  if (!truth) dprintf(2, "%s:%d\n", __FILE__, line), _exit(1);
}
#define MUST(TRUTH) must(TRUTH, __LINE__)

bool has_tsc() { return choose_clock(nullptr) == ClockKind::kTsc; }

TEST_F(RecorderTest, ARepeatedCallLeavesWhatACallLeaves) {
  if (!has_tsc()) GTEST_SKIP() << "the clock is not the TSC";
  constexpr uint32_t kCalls = 30000;  // over several chunks: what begins one takes the long way
  record([] {
    uint32_t taken = 0;
    call_long(1);
    allow_short_way(true);
    for (uint32_t i = 2; i <= kCalls; ++i) {
      if (call_short(i))
        ++taken;
      else
        call_long(i);
    }
    MUST(taken > kCalls - 10 && taken < kCalls - 1);
  });
  const SpoolReader reader = spool();
  const std::vector<Record> all = records(reader);
  ASSERT_EQ(all.size(), kCalls);
  uint64_t ticks = 0;
  uint32_t short_ones = 0;
  for (uint32_t i = 0; i < kCalls; ++i) {
    EXPECT_EQ(record_kind(all[i].word), RecordKind::kCall);
    EXPECT_EQ(record_op(all[i].word), kOp);
    EXPECT_EQ(all[i].payload, kPayload);
    EXPECT_EQ(all[i].sequence, i + 1);
    EXPECT_EQ(all[i].comm, kComm);
    EXPECT_EQ(all[i].context, all[0].context);
    EXPECT_TRUE(all[i].peer == static_cast<int32_t>(i) + 2 || all[i].peer == -1) << all[i].peer;  // call_long() says -1
    short_ones += all[i].peer != -1;
    if (i > 0) {
      EXPECT_GE(all[i].start_ticks, all[i - 1].start_ticks + record_duration_ticks(all[i - 1].word));
    }
    ticks += record_duration_ticks(all[i].word);
  }
  EXPECT_GT(short_ones, kCalls - 10);
  const std::vector<ProfileEntry> entries = profile(reader);
  ASSERT_EQ(entries.size(), 1U);
  EXPECT_EQ(timed_calls(entries[0]), kCalls);
  EXPECT_EQ(entries[0].untimed_calls, 0U);
  EXPECT_EQ(entries[0].bytes, kCalls * 4096U);
  EXPECT_EQ(entries[0].ticks, ticks);
  uint64_t in_histogram = 0;
  for (const uint64_t n : entries[0].histogram) in_histogram += n;
  EXPECT_EQ(in_histogram, kCalls);
}

TEST_F(RecorderTest, OnlyTheSameCallIsARepeatedOne) {
  if (!has_tsc()) GTEST_SKIP() << "the clock is not the TSC";
  record([] {
    call_long(1);
    MUST(!call_short(2));  // nobody has allowed it yet
    allow_short_way(true);
    MUST(call_short(2));
    MUST(!call_short(3, kSiteB) && !call_short(3, kSiteA, kOp + 1) && !call_short(3, kSiteA, kOp, kComm + 1));
    MUST(!call_short(3, kSiteA, kOp, kComm, record_payload(4095, 14, 1)));
    push_range(static_cast<uint32_t>(ContextKind::kLayer), "layer", 0);
    MUST(!call_short(3));  // elsewhere: another context
    pop_range(static_cast<uint32_t>(ContextKind::kLayer));
    MUST(call_short(3));
    const OpenCall open = begin_call(kOp, kSiteA, kComm, true, 4, -1, kPayload);
    MUST(!call_short(5));  // inside a call
    end_call(open, kPayload);
    allow_short_way(false);
    MUST(!call_short(5));
  });
  EXPECT_EQ(records(spool()).size(), 4U + 1);  // four calls, one range
}

TEST_F(RecorderTest, ARepeatedCallThatTheWindowLeavesOutGoesToTheRing) {
  if (!has_tsc()) GTEST_SKIP() << "the clock is not the TSC";
  options_.has_steps = true;
  options_.first_step = options_.last_step = 7;
  record([] {
    call_long(1);
    allow_short_way(true);
    for (uint32_t i = 2; i <= 100; ++i) MUST(call_short(i));
  });
  const SpoolReader reader = spool();
  EXPECT_TRUE(records(reader).empty());
  EXPECT_EQ(records(reader, ChunkKind::kRing).size(), 100U);
  EXPECT_EQ(profiled_calls(reader, kOp), 100U);
}

// What a receive gets is known at its end: each size has an entry of its own, whichever came before.
TEST_F(RecorderTest, ARepeatedCallMayEndWithAnotherSize) {
  if (!has_tsc()) GTEST_SKIP() << "the clock is not the TSC";
  const std::vector<uint64_t> sizes = {8, 8, 4096, 4096, 8, 0, 100'000, 8};
  record([&] {
    const PayloadKey key(0, record_payload(0, 14, 0));
    for (size_t i = 0; i < sizes.size(); ++i) {
      OpenCall open;
      const bool taken = begin_repeated_call(
          this_thread(), kOp, kSiteA, kComm, -1, key, [] { return 7U; }, &open);
      MUST(taken == (i > 0));
      if (!taken) open = begin_call(kOp, kSiteA, kComm, false, 7, -1, key, payload_is_key);
      const uint64_t payload = record_payload(sizes[i], 14, 0);
      taken ? end_repeated_call(open, payload) : end_call(open, payload);
      allow_short_way(true);
    }
  });
  const SpoolReader reader = spool();
  const std::vector<Record> all = records(reader);
  ASSERT_EQ(all.size(), sizes.size());
  for (size_t i = 0; i < all.size(); ++i) EXPECT_EQ(payload_bytes(all[i].payload), sizes[i]);
  std::map<int, std::pair<uint64_t, uint64_t>> by_class;
  for (const ProfileEntry& e : profile(reader))
    if (all_calls(e) > 0) by_class[e.size_class] = {all_calls(e), e.bytes};
  const std::map<int, std::pair<uint64_t, uint64_t>> expected = {
      {0, {1, 0}}, {4, {4, 32}}, {13, {2, 8192}}, {17, {1, 100'000}}};
  EXPECT_EQ(by_class, expected);
}

TEST_F(RecorderTest, AWindowThatDecidesEventByEventIsAsked) {
  options_.after_ns = 1;
  record([] {
    call_long(1);
    allow_short_way(true);
    MUST(!call_short(2));
  });
}

TEST_F(RecorderTest, ARepeatedPollLeavesWhatAPollLeaves) {
  if (!has_tsc()) GTEST_SKIP() << "the clock is not the TSC";
  constexpr uint32_t kPolls = 70000;  // one of them settles the account, and takes the long way
  options_.budget = 0;
  for (const uint32_t mask : {0u, 7u}) {  // all timed; every eighth, which takes the long way, too
    record([mask] {
      end_poll(begin_poll(), kOp, kSiteA, kNoComm, -1, false);
      this_thread()->poll_mask = mask;
      allow_short_way(true);
      for (uint32_t number = 2; number <= kPolls; ++number) {
        const bool found = number % 100 == 0;
        OpenPoll poll;
        ProfileEntry* entry;
        const bool taken = begin_repeated_poll(this_thread(), kOp, kSiteA, kNoComm, &poll, &entry);
        MUST(taken == (mask ? (number & mask) != 0 : number % kPollsPerSettlement != 0));
        if (!taken) {
          end_poll(begin_poll(), kOp, kSiteA, kNoComm, -1, found);
          continue;
        }
        MUST(is_in_call(this_thread()));
        if (found) {
          count_repeated_poll(poll);
          end_poll(poll, kOp, kSiteA, kNoComm, -1, true);
        } else {
          end_repeated_poll(poll, entry);
        }
        MUST(!is_in_call(this_thread()));
      }
      MUST(this_thread()->polls == kPolls);
    });
    const SpoolReader reader = spool();
    EXPECT_EQ(profiled_calls(reader, kOp), kPolls);
    EXPECT_EQ(records(reader).size(), kPolls / 100);
    for (const ProfileEntry& e : profile(reader)) {
      if (e.op == kOp) {
        EXPECT_EQ(timed_calls(e), mask ? 1 + kPolls / 8 : kPolls);
      }
    }
    fs::remove_all(directory_);
  }
}

TEST_F(RecorderTest, WithoutTheTscEveryCallTakesTheLongWay) {
  options_.clock = "monotonic";
  record([] {
    call_long(1);
    allow_short_way(true);
    MUST(!call_short(2));
  });
}

}  // namespace
}  // namespace ddl
