#include <gtest/gtest.h>

#include <algorithm>
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
      steps.push_back({static_cast<uint32_t>(n % 2), n, n == 0 ? 20 : steps.back().start_ticks + 1 + random() % 40, 1 + random() % 60, 0});
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

TEST(StepIndex, WithoutStepsThereIsNone) {
  const StepIndex index;
  StepIndex::Cursor cursor(index);
  EXPECT_EQ(cursor.at(0), std::nullopt);
  EXPECT_EQ(cursor.at(7), std::nullopt);
}

}  // namespace
}  // namespace ddl::store
