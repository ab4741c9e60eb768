// Traces with random damage: whatever the bytes, an import ends in a run or in an Error that names the file, and where
// it is a place in the file that is wrong, the byte.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>

#include "tests/core/damage.h"
#include "tests/import/imported.h"
#include "tests/import/samples.h"

namespace ddl::test {
namespace {

constexpr int kCases = 100;

class ImportDamage : public testing::TestWithParam<Sample> {};

TEST_P(ImportDamage, EndsInARunOrAnError) {
  const Sample& sample = GetParam();
  {
    Imported whole(sample.format, Imported::Files{{sample.file, sample.contents}});
    ASSERT_GT(whole.summary.events, 0u);
  }
  const uint64_t seed = fuzz_seed();
  const int cases = fuzz_cases(kCases);
  int runs = 0;
  std::map<std::string, int> places;
  for (int i = 0; i < cases; ++i) {
    std::mt19937_64 random(seed * 1'000'003 + static_cast<uint64_t>(i));
    const bool cells = sample.contents.starts_with("SQLite format 3") && i % 2 == 0;
    const std::string damaged = cells ? damage_cells(sample.contents, random) : damage_text(sample.contents, random);
    SCOPED_TRACE(fmt::format("DDL_FUZZ_SEED={} case {}", seed, i));
    try {
      Imported run(sample.format, Imported::Files{{sample.file, damaged}});
      ++runs;
    } catch (const Error& error) {
      const std::string what = error.what();
      EXPECT_NE(what.find(sample.file), std::string::npos) << what;
      EXPECT_EQ(what.find("cannot write"), std::string::npos) << what;
      const bool of_the_whole = what.find("no event that ddl knows") != std::string::npos ||
                                what.find("both traces of rank") != std::string::npos ||
                                what.find("at a time that is out of range") != std::string::npos;
      EXPECT_TRUE(of_the_whole || what.find(sample.place) != std::string::npos) << what;
      ++places[of_the_whole ? "the whole file" : sample.place];
    }
    ASSERT_FALSE(HasFailure());
  }
  EXPECT_GT(runs, 0);
  EXPECT_GT(places[sample.place], cases / 10);
  fmt::print("{}: {} damaged traces (seed {}): {} imported, {} refused\n", sample.format, cases, seed, runs,
             cases - runs);
}

INSTANTIATE_TEST_SUITE_P(Formats, ImportDamage, testing::ValuesIn(samples()),
                         [](const testing::TestParamInfo<Sample>& sample) {
                           std::string name = sample.param.format + "_" + sample.param.file;
                           std::replace_if(
                               name.begin(), name.end(), [](char c) { return c == '-' || c == '.'; }, '_');
                           return name;
                         });

}  // namespace
}  // namespace ddl::test
