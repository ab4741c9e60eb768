#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <random>
#include <vector>

#include "store/ingest/timeline.h"

namespace ddl::store {
namespace {

/// What a moment lies in, by looking at all steps: of those that are not over, the one that began last.
std::optional<uint64_t> by_all(const std::vector<Step>& steps, uint64_t ticks) {
  std::optional<uint64_t> found;
  for (const Step& step : steps)
    if (step.start_ticks <= ticks && ticks < step.start_ticks + *step.duration_ticks) found = step.number;
  return found;
}

TEST(StepIndex, ACursorFindsWhatIsFoundWithoutOne) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 20; ++round) {
    std::vector<Step> steps;  // of two threads: some overlap, some leave gaps
    for (uint64_t n = 0; n < 50; ++n)
      steps.push_back({static_cast<uint32_t>(n % 2), n, n == 0 ? 20 : steps.back().start_ticks + 1 + random() % 40,
                       1 + random() % 60, 0});
    const StepIndex index(steps);
    StepIndex::Cursor forwards(index), anywhere(index);
    const uint64_t end = steps.back().start_ticks + 100;
    for (uint64_t ticks = 0; ticks < end; ++ticks) {
      ASSERT_EQ(index.at(ticks), by_all(steps, ticks)) << ticks;
      ASSERT_EQ(forwards.at(ticks), index.at(ticks)) << ticks;
      const uint64_t elsewhere = random() % end;
      ASSERT_EQ(anywhere.at(elsewhere), index.at(elsewhere)) << elsewhere;
    }
  }
}

TEST(StepIndex, ANumberNamesItsFirstUse) {
  const StepIndex epochs(
      {{0, 0, 10, 10, 0}, {0, 1, 20, 10, 0}, {0, 0, 30, 10, 0}, {0, 1, 40, 10, 0}, {0, 2, 50, 10, 0}});
  for (const auto& [ticks, number] :
       std::map<uint64_t, std::optional<uint64_t>>{{15, 0}, {25, 1}, {35, {}}, {45, {}}, {55, 2}})
    EXPECT_EQ(epochs.at(ticks), number) << ticks;

  const StepIndex nested({{0, 0, 10, 10, 0}, {0, 1, 20, 30, 0}, {0, 0, 30, 10, 0}});
  for (const auto& [ticks, number] : std::map<uint64_t, std::optional<uint64_t>>{{25, 1}, {35, {}}, {45, 1}})
    EXPECT_EQ(nested.at(ticks), number) << ticks;

  const StepIndex threads({{0, 7, 10, 20, 0}, {1, 7, 20, 20, 0}});  // both in step 7
  for (const auto& [ticks, number] : std::map<uint64_t, std::optional<uint64_t>>{{15, 7}, {25, 7}, {35, {}}})
    EXPECT_EQ(threads.at(ticks), number) << ticks;
}

TEST(StepIndex, SaysWhichUseIsMeasured) {
  const StepIndex index({{0, 0, 10, 10, 0},
                         {0, 1, 20, {}, 0},
                         {0, 0, 30, 10, 0},
                         {0, 1, 40, 10, 0},
                         {1, 1, 40, 10, 0},
                         {0, 2, 50, {}, 0}});
  const bool measured[] = {true, false, false, true, false, true};
  for (size_t i = 0; i < std::size(measured); ++i) EXPECT_EQ(index.is_measured(i), measured[i]) << i;
}

TEST(StepIndex, AUseThatNeverEndedGivesWayToOneThatDid) {
  // back to step 3 after an error
  const StepIndex torn({{0, 3, 10, {}, 0}, {0, 3, 30, 10, 0}, {0, 4, 40, {}, 0}, {0, 4, 50, {}, 0}});
  for (const auto& [ticks, number] : std::map<uint64_t, std::optional<uint64_t>>{{15, {}}, {35, 3}, {45, 4}, {55, {}}})
    EXPECT_EQ(torn.at(ticks), number) << ticks;
}

TEST(StepIndex, WithoutStepsThereIsNone) {
  const StepIndex index;
  StepIndex::Cursor cursor(index);
  EXPECT_EQ(cursor.at(0), std::nullopt);
  EXPECT_EQ(cursor.at(7), std::nullopt);
}

}  // namespace
}  // namespace ddl::store
