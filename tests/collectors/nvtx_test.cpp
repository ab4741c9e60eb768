// The NVTX handler: ranges that nest, cross, start and end; threads; and when it is not there.
#include "tests/collectors/nvtx_fixture.h"

#include <sys/syscall.h>

#include <cerrno>
#include <random>
#include <set>
#include <thread>

namespace ddl {
namespace {

TEST_F(NvtxTest, PushesNestIntoStepsPhasesAndLayers) {
  record([] {
    for (int step = 3; step < 6; ++step) {
      EXPECT_EQ(push(("step " + std::to_string(step)).c_str()), 0);
      EXPECT_EQ(push("forward"), 1);
      for (int again = 0; again < 2; ++again) {
        EXPECT_EQ(push("conv1"), 2);
        EXPECT_EQ(pop(), 2);
      }
      EXPECT_EQ(pop(), 1);
      EXPECT_EQ(pop(), 0);
    }
  });
  const Spool s = spool();
  EXPECT_EQ(s.calls.at(":step"), 3u);
  EXPECT_EQ(s.calls.at(":step/forward:phase"), 3u);
  EXPECT_EQ(s.calls.at(":step/forward:phase/conv1:layer"), 6u);
  EXPECT_EQ(s.calls.size(), 3u);
  const auto steps = s.of(":step");
  ASSERT_EQ(steps.size(), 3u);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(steps[i].step, 3 + i);
  const auto forwards = s.of(":step/forward:phase");
  for (const Range& layer : s.of(":step/forward:phase/conv1:layer")) {
    EXPECT_TRUE(std::any_of(forwards.begin(), forwards.end(),
                            [&](const Range& f) { return f.start <= layer.start && layer.end <= f.end; }));
  }
  EXPECT_EQ(s.lost(kLossUnbalanced), 0u);
}

TEST_F(NvtxTest, StepsAreNumberedByNamePayloadOrTheirOrder) {
  record([] {
    EventAttributes with_number = event("iteration");
    with_number.payload_type = kPayloadUint64;
    with_number.payload.u64 = 77;
    push(nullptr, with_number);
    pop();
    push("iteration");
    push("ProfilerStep#9");  // inside a step: none
    pop();
    pop();
    push("iteration");
    pop();
    push("mini_batch 5");
    pop();
  });
  const Spool s = spool();
  std::vector<uint64_t> numbers;
  for (const Range& r : s.of(":step")) numbers.push_back(r.step);
  EXPECT_EQ(numbers, (std::vector<uint64_t>{77, 0, 1, 5}));
  EXPECT_EQ(s.calls.at(":step/ProfilerStep:phase"), 1u);
}

TEST_F(NvtxTest, UnbalancedPopsAreCountedAndHarmNothing) {
  record([] {
    EXPECT_EQ(pop(), -1);
    push("a");
    EXPECT_EQ(pop(), 0);
    EXPECT_EQ(pop(), -1);
    EXPECT_EQ(pop(), -1);
    push("a");
    pop();
  });
  const Spool s = spool();
  EXPECT_EQ(s.lost(kLossUnbalanced), 3u);
  EXPECT_EQ(s.calls.at("a:layer"), 2u);
}

TEST_F(NvtxTest, RangesOfTwoDomainsMayCrossAndTheirTimesAddUp) {
  record([] {
    const Domain one = domain("one"), two = domain("two");
    EXPECT_NE(one, two);
    EXPECT_EQ(domain("one"), one);
    EXPECT_EQ(push(one, event("outer")), 0);
    EXPECT_EQ(push(two, event("inner")), 0);
    EXPECT_EQ(push(nullptr, event("innermost")), 0);
    EXPECT_EQ(pop(one), 0);  // below the two others
    usleep(2000);
    EXPECT_EQ(pop(nullptr), 0);
    EXPECT_EQ(pop(two), 0);
    EXPECT_EQ(pop(two), -1);
  });
  const Spool s = spool();
  EXPECT_EQ(s.lost(kLossUnbalanced), 1u);
  const std::set<std::string> expected = {"outer:layer", "outer:layer/inner:layer",
                                          "outer:layer/inner:layer/innermost:layer", "inner:layer",
                                          "inner:layer/innermost:layer"};
  std::set<std::string> seen;
  for (const auto& [path, calls] : s.calls) {
    seen.insert(path);
    EXPECT_EQ(calls, 1u) << path;
  }
  EXPECT_EQ(seen, expected);
  EXPECT_LE(s.ticks.at("outer:layer/inner:layer"), s.ticks.at("outer:layer"));
  EXPECT_LE(s.ticks.at("inner:layer/innermost:layer"), s.ticks.at("inner:layer"));
  EXPECT_EQ(s.of("outer:layer")[0].end, s.of("inner:layer")[0].start);  // cut where the outer one ended
}

TEST_F(NvtxTest, StartedRangesEndOnAnyThreadAndTakeNoPartInTheStack) {
  record([] {
    const auto start = core<RangeId(const char*)>(kRangeStartA);
    const auto end = core<void(RangeId)>(kRangeEnd);
    push("outer");
    const RangeId a = start("a"), b = start("b"), step = start("step 4");
    EXPECT_NE(a, b);
    push("inner");
    std::thread([&] {
      end(a);
      end(step);
    }).join();
    pop();
    pop();
    end(b);
    end(a);  // ended already: somebody else may have its place
    end(0);
    end(12345);
    std::vector<RangeId> many;
    for (int i = 0; i < 1100; ++i) many.push_back(start("many"));
    for (const RangeId id : many) end(id);
  });
  const Spool s = spool();
  EXPECT_EQ(s.calls.at("a:phase"), 1u);
  EXPECT_EQ(s.calls.at("b:phase"), 1u);
  EXPECT_EQ(s.calls.at("outer:layer/inner:layer"), 1u);
  EXPECT_EQ(s.calls.at("many:phase"), 1024u);
  EXPECT_EQ(s.lost(kLossRangeDepth), 76u);
  EXPECT_EQ(s.lost(kLossUnbalanced), 3u);
  const auto steps = s.of("outer:layer/:step");
  ASSERT_EQ(steps.size(), 1u);
  EXPECT_EQ(steps[0].step, 4u);
  EXPECT_EQ(steps[0].kind, RecordKind::kStep);
  EXPECT_EQ(steps[0].thread, s.of("a:phase")[0].thread);
  EXPECT_NE(steps[0].thread, s.of("outer:layer")[0].thread);
}

TEST_F(NvtxTest, TooDeepIsCountedAndComesBackOutRight) {
  record([] {
    const Domain other = domain("other");
    for (int i = 0; i < 200; ++i) EXPECT_EQ(push("deep"), i);
    EXPECT_EQ(push(other, event("late")), 0);  // no room either
    for (int i = 199; i >= 0; --i) EXPECT_EQ(pop(), i);
    EXPECT_EQ(pop(other), 0);
    push("after");
    pop();
    EXPECT_EQ(pop(), -1);
  });
  const Spool s = spool();
  EXPECT_EQ(s.lost(kLossRangeDepth), 200u - kMaxRangeDepth + 1);
  EXPECT_EQ(s.lost(kLossUnbalanced), 1u);
  EXPECT_EQ(s.calls.at("after:layer"), 1u);
}

// Whatever the bytes, whoever pops: nothing breaks, and every push that had room has its record.
TEST_F(NvtxTest, HostileNamesAndOrders) {
  record([] {
    std::mt19937 random(3);
    const Domain domains[] = {nullptr, domain("a"), domain("b"), domain("NCCL")};
    std::string text;
    for (int i = 0; i < 30000; ++i) {
      text.clear();
      const size_t length = random() % 64 == 0 ? 100000 : random() % 40;
      for (size_t k = 0; k < length; ++k) text += static_cast<char>(random() % 255 + 1);
      if (random() % 2) text += ", seq = " + std::to_string(random() % 4);
      errno = 1234;
      const Domain d = domains[random() % 4];
      if (random() % 2) {
        push(d, event(text.c_str()));
      } else {
        pop(d);
      }
      EXPECT_EQ(errno, 1234);
    }
    for (int i = 0; i < 10000; ++i) domain(("domain " + std::to_string(i)).c_str());
    const Domain late = domain("one too many");
    EXPECT_EQ(push(late, event("x")), kNoPushPopTracking);
  });
  const Spool s = spool();
  uint64_t calls = 0;
  for (const auto& [path, n] : s.calls) calls += n;
  EXPECT_GT(calls, 5000u);
  EXPECT_GT(s.lost(kLossUnbalanced), 0u);
  EXPECT_GT(s.lost(kLossContexts), 0u);  // domains
  for (const auto& [id, name] : s.strings) EXPECT_LE(name.size(), kMaxRangeNameBytes);
}

// ------------------------------------------------------------------------------------------------ when not

TEST_F(NvtxTest, NotAttachedWhereNotWanted) {
  const pid_t child = fork();
  if (child == 0) {
    setenv("DDL_OUT", (folder_ / "run.ddl").c_str(), 1);
    setenv("DDL_COLLECTORS", "mpi", 1);
    if (Copy::attach() != 0) _exit(1);
    setenv("DDL_COLLECTORS", "mpi,nvtx", 1);
    setenv("DDL_DISABLE", "1", 1);
    if (Copy::attach() != 0) _exit(2);
    unsetenv("DDL_DISABLE");
    if (Copy::attach() != 1) _exit(3);
    if (InitializeInjectionNvtx2([](uint32_t) -> const void* { return nullptr; }) != 0) _exit(4);
    _exit(0);
  }
  int ended = -1;
  ASSERT_EQ(waitpid(child, &ended, 0), child);
  EXPECT_EQ(ended, 0);
  EXPECT_FALSE(has_spool());  // attaching records nothing yet
}

TEST_F(NvtxTest, AForkedChildWritesNothing) {
  record([] {
    push("parent");
    const pid_t child = fork();
    if (child == 0) {
      for (int i = 0; i < 100; ++i) {
        if (push("child") != kNoPushPopTracking) _exit(1);
        pop();
      }
      core<void(RangeId)>(kRangeEnd)(core<RangeId(const char*)>(kRangeStartA)("child"));
      core<void(const char*)>(kMarkA)("child");
      _exit(0);
    }
    int ended = -1;
    waitpid(child, &ended, 0);
    EXPECT_EQ(ended, 0);
    EXPECT_EQ(pop(), 0);
  });
  EXPECT_EQ(spool().calls, (std::map<std::string, uint64_t>{{"parent:layer", 1}}));
}

}  // namespace
}  // namespace ddl
