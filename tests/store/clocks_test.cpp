// Fitting clocks: exact lines come back, wild points do not bend them, a lone process borrows its neighbours' rate.
#include "store/ingest/clocks.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace ddl::store {
namespace {

constexpr double kRate = 1 / 2.6;                  // ns per tick
constexpr uint64_t kBoot = 9'000'000'000'000'000;  // a TSC that has run for a month: differences must not lose digits

TickPoint at(double seconds, int64_t error_ns = 0) {
  return {kBoot + static_cast<uint64_t>(std::llround(seconds * 1e9 / kRate)),
          static_cast<int64_t>(std::llround(seconds * 1e9)) + 5'000'000'000 + error_ns};
}

ClockEvidence process(const std::string& boot, std::vector<TickPoint> points, int64_t realtime_offset,
                      ClockKind kind = ClockKind::kTsc) {
  ClockEvidence evidence;
  evidence.kind = kind;
  evidence.host = "node";
  evidence.boot = boot;
  evidence.begin = points.front();
  evidence.points = std::move(points);
  evidence.realtime_minus_monotonic_ns = {realtime_offset};
  return evidence;
}

TEST(ClockLine, AnExactLineComesBack) {
  std::vector<TickPoint> points;
  for (int i = 0; i < 100; ++i) points.push_back(at(i));
  const ClockLine line = fit_line(points);
  ASSERT_TRUE(line.rate_known);
  EXPECT_NEAR(line.ns_per_tick, kRate, kRate * 1e-12);
  EXPECT_LE(*line.residual_ns, 1);
  for (const double t : {0.0, 3.3, 99.0, 1000.0})
    EXPECT_NEAR(static_cast<double>(line.monotonic_ns(at(t).ticks) - at(t).monotonic_ns), 0, 2) << t;
}

TEST(ClockLine, NoiseAveragesOut) {
  std::mt19937 random(3);
  std::normal_distribution<double> noise(0, 200);
  std::vector<TickPoint> points;
  for (int i = 0; i < 400; ++i) points.push_back(at(i * 0.1, static_cast<int64_t>(noise(random))));
  const ClockLine line = fit_line(points);
  // 200 / sqrt(400) = 10
  EXPECT_NEAR(static_cast<double>(line.monotonic_ns(at(20).ticks) - at(20).monotonic_ns), 0, 60);
  EXPECT_NEAR(line.ns_per_tick / kRate, 1, 1e-8);
}

TEST(ClockLine, TheFitIsByLeastSquares) {
  std::vector<TickPoint> points;  // three in four are 30 ns early, one 90 ns late: the mean is right, the median is not
  for (int i = 0; i < 400; ++i) points.push_back(at(i * 0.1, i % 4 == 0 ? 90 : -30));
  const ClockLine line = fit_line(points);
  EXPECT_NEAR(static_cast<double>(line.monotonic_ns(at(20).ticks) - at(20).monotonic_ns), 0, 5);
  EXPECT_NEAR(*line.residual_ns, 90, 5);
}

TEST(ClockLine, WildPointsDoNotBendIt) {
  std::vector<TickPoint> points;
  for (int i = 0; i < 50; ++i) points.push_back(at(i * 0.5));
  points.push_back(at(10, 4'000'000));  // interrupted between the two reads
  points.push_back(at(11, -900'000'000));
  points.push_back({1, 1});  // damage
  points.push_back({UINT64_MAX, INT64_MAX});
  points.push_back({kBoot, INT64_MAX});
  const ClockLine line = fit_line(points);
  EXPECT_NEAR(line.ns_per_tick / kRate, 1, 1e-9);
  EXPECT_LE(*line.residual_ns, 2) << "they are not in the fit";
  EXPECT_NEAR(static_cast<double>(line.monotonic_ns(at(7).ticks) - at(7).monotonic_ns), 0, 2);
}

TEST(ClockLine, OneMomentHasNoRate) {
  EXPECT_FALSE(fit_line({}).rate_known);
  const ClockLine line = fit_line({at(1), at(1)});
  EXPECT_FALSE(line.rate_known);
  EXPECT_EQ(line.monotonic_ns(at(1).ticks), at(1).monotonic_ns);
  EXPECT_FALSE(fit_line({{1000, 1000}, {1001, 900'000'000}}).rate_known) << "a clock of one tick a second is damage";
}

TEST(ClockLine, ExtremesSaturate) {
  const ClockLine line = fit_line({at(0), at(1), at(2)});
  EXPECT_GT(line.monotonic_ns(UINT64_MAX), line.monotonic_ns(kBoot));
  EXPECT_GT(line.span_ns(UINT64_MAX), 0);
  ProcessClock clock;
  clock.line = line;
  clock.offset_ns = INT64_MAX;
  EXPECT_EQ(clock.time_ns(at(5).ticks), kFarthestNs);
  EXPECT_GE(clock.duration_ns(0, UINT64_MAX), 0);
}

TEST(Clocks, AShortLivedProcessBorrowsTheRateOfItsHost) {
  const Clocks clocks = fit_clocks({process("boot", {at(0), at(10), at(20)}, 77), process("boot", {at(5)}, 77)});
  ASSERT_EQ(clocks.domains.size(), 1u);
  EXPECT_EQ(clocks.domains[0].method, ClockMethod::kSingleHost);
  EXPECT_EQ(clocks.domains[0].sigma_ns, 0.0);
  EXPECT_TRUE(clocks.processes[1].line.rate_known);
  EXPECT_NEAR(static_cast<double>(clocks.processes[1].time_ns(at(6).ticks)), 6e9, 2);
  EXPECT_EQ(clocks.processes[0].time_ns(at(0).ticks), 0) << "the axis begins with the first process";
  EXPECT_EQ(clocks.epoch_realtime_ns, at(0).monotonic_ns + 77);
}

TEST(Clocks, TscAndMonotonicOfOneHostMeet) {
  const TickPoint monotonic = {static_cast<uint64_t>(at(3).monotonic_ns), at(3).monotonic_ns};
  const Clocks clocks =
      fit_clocks({process("boot", {at(0), at(10)}, 0), process("boot", {monotonic}, 0, ClockKind::kMonotonic)});
  EXPECT_EQ(clocks.processes[1].time_ns(monotonic.ticks), 3'000'000'000);
  EXPECT_EQ(clocks.processes[1].time_ns(monotonic.ticks + 7), 3'000'000'007);
  EXPECT_NEAR(static_cast<double>(clocks.processes[0].time_ns(at(3).ticks)), 3e9, 2);
}

TEST(Clocks, HostsAreJoinedByTheMedianOfTheirDates) {
  ClockEvidence other = process("other", {at(0), at(10)}, 0);
  other.realtime_minus_monotonic_ns = {1'000'000, 1'000'001, 999'999, 5'000'000'000, -5};  // somebody set the date
  const Clocks clocks = fit_clocks({process("boot", {at(0), at(10)}, 0), other});
  ASSERT_EQ(clocks.domains.size(), 2u);
  for (const ClockDomain& domain : clocks.domains) {
    EXPECT_EQ(domain.method, ClockMethod::kRealtime);
    EXPECT_FALSE(domain.sigma_ns);
  }
  EXPECT_EQ(clocks.processes[1].time_ns(at(2).ticks) - clocks.processes[0].time_ns(at(2).ticks), 1'000'000);
}

TEST(Clocks, HostsOfOneBootShareAClockUnlessToldApart) {
  ClockEvidence other = process("boot", {at(0), at(10)}, 5);
  other.host = "container";
  const std::vector<ClockEvidence> evidence = {process("boot", {at(0), at(10)}, 5), other};
  EXPECT_EQ(fit_clocks(evidence).domains.size(), 1u);
  const Clocks apart = fit_clocks(evidence, {"boot"});
  ASSERT_EQ(apart.domains.size(), 2u);
  EXPECT_EQ(apart.processes[0].domain, 0u);
  EXPECT_EQ(apart.processes[1].domain, 1u);
}

TEST(Clocks, PiecesTakeOverFromTickToTick) {
  ProcessClock clock;
  clock.line = {1000, 500, 2, {}, true};  // tick 1000 is 500 ns, 2 ns a tick
  clock.offset_ns = 7;
  clock.pieces = {
      {1000, {1000, 10'000, 2, {}, true}}, {2000, {2000, 12'000, 3, {}, true}}, {3000, {3000, 15'000, 1, {}, true}}};
  clock.pace = 1.5;
  EXPECT_EQ(clock.time_ns(900), 9'807) << "before the first: at its pace";
  EXPECT_EQ(clock.time_ns(1999), 12'005);
  EXPECT_EQ(clock.time_ns(2000), 12'007);
  EXPECT_EQ(clock.time_ns(2999), 15'004);
  EXPECT_EQ(clock.time_ns(4000), 16'007);
  EXPECT_EQ(clock.duration_ns(1999, 2), 5);
  EXPECT_EQ(clock.span_ns(100), 300);
  // The axis is zero at piece value -7, 5003.5 ticks before 1000: that is 10'007 ns earlier than 500.
  EXPECT_NEAR(static_cast<double>(clock.offset_at_zero_ns()), 1500, 1) << "ticks do not go below zero";
}

TEST(Clocks, MonotonicOfAYearKeepsItsNanoseconds) {
  const uint64_t year = 31'536'000'000'000'000;
  const Clocks clocks = fit_clocks({process("boot", {{year, static_cast<int64_t>(year)}}, 0, ClockKind::kMonotonic)});
  EXPECT_EQ(clocks.processes[0].time_ns(year + 123'456'789), 123'456'789);
  EXPECT_EQ(clocks.processes[0].duration_ns(year + 1, 3), 3);
}

TEST(ClockLine, PointsOfADamagedSpoolAreAsFarApartAsNumbersAre) {  // found by tools/fuzz live
  const ClockLine line = fit_line({{1, INT64_MIN}, {2, 5}, {UINT64_MAX, INT64_MAX}});
  line.monotonic_ns(7);
}

TEST(ProcessClock, TimesOfADamagedSpoolStaySubtractable) {  // found by tools/fuzz live
  ProcessClock clock;
  for (const int64_t offset_ns : {INT64_MIN, INT64_MAX}) {
    clock.offset_ns = offset_ns;
    for (const uint64_t ticks : {uint64_t{0}, UINT64_MAX}) {
      EXPECT_LE(clock.time_ns(ticks), kFarthestNs);
      EXPECT_GE(clock.time_ns(ticks), -kFarthestNs);
    }
  }
}

}  // namespace
}  // namespace ddl::store
