// Every target without libFuzzer: its seeds are taken, and damaged ones end in a refusal or are taken too. What is
// refused with anything but a ddl::Error, or crashes, fails. Damage that tools/fuzz found to hurt has a test of its own
// beside the reader.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>

#include "tests/fuzz/target.h"

namespace ddl::fuzz {
namespace {

constexpr int kCases = 60;
constexpr double kMost_s = 10;  ///< of one input

class Fuzz : public testing::TestWithParam<Target> {};

std::string said;  ///< on standard error

/// What it prints is thrown away.
bool quietly(const Target& target, const std::string& input) {
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  const bool taken = target.take(input);
  testing::internal::GetCapturedStdout();
  said = testing::internal::GetCapturedStderr();
  return taken;
}

TEST_P(Fuzz, SeedsAreTakenAndDamagedOnesDoNoHarm) {
  const Target& target = GetParam();
  const std::vector<std::string> seeds = target.seeds();
  ASSERT_FALSE(seeds.empty());
  for (const std::string& seed : seeds) EXPECT_TRUE(quietly(target, seed)) << seed.substr(0, 200) << said;
  const uint64_t first = test::fuzz_seed();
  const int cases = test::fuzz_cases(kCases);
  int taken = 0;
  for (int i = 0; i < cases && !HasFailure(); ++i) {
    SCOPED_TRACE(fmt::format("DDL_FUZZ_SEED={} case {}", first, i));
    std::mt19937_64 random(first * 1'000'003 + static_cast<uint64_t>(i));
    const std::string input = target.damage(seeds[static_cast<size_t>(i) % seeds.size()], random);
    SCOPED_TRACE(testing::PrintToString(input.substr(0, 400)));
    const auto begin = std::chrono::steady_clock::now();
    taken += quietly(target, input) ? 1 : 0;
    EXPECT_LT(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(), kMost_s);
  }
  fmt::print("{}: {} of {} damaged inputs taken\n", target.name, taken, cases);
}

INSTANTIATE_TEST_SUITE_P(Targets, Fuzz, testing::ValuesIn(targets().begin(), targets().end()),
                         [](const testing::TestParamInfo<Target>& target) {
                           std::string name = target.param.name;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace ddl::fuzz
