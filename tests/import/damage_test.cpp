// Traces with random damage: whatever the bytes, an import ends in a run or in an Error that names the file, and where it is a place in the
// file that is wrong, the byte.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "tests/core/damage.h"
#include "tests/import/imported.h"
#include "tests/import/samples.h"

namespace ddl::test {
namespace {

constexpr int kCases = 100;

/// Damage as traces suffer it: cut, wrong types, huge numbers, deep nesting, hostile strings, swapped and repeated pieces, any byte.
class TraceDamage {
 public:
  explicit TraceDamage(std::mt19937_64& random) : random_(random) {}

  std::string operator()(std::string text) {
    for (uint64_t n = 1 + below(3); n > 0; --n) change(text);
    return text;
  }

 private:
  uint64_t below(uint64_t n) { return random_() % n; }

  void change(std::string& text) {
    if (text.empty()) return;
    static const char* const kValues[] = {"1e999",
                                          "-1e999",
                                          "99999999999999999999999",
                                          "9223372036854775807",
                                          "-9223372036854775808",
                                          "4000000000000000000",
                                          "0.0000000000000000000001",
                                          "-1",
                                          "0",
                                          "4294967296",
                                          "2147483648",
                                          "null",
                                          "true",
                                          "[]",
                                          "{}",
                                          "\"\"",
                                          "\"x\"",
                                          "NaN",
                                          "\"<script>alert(1)</script>\"",
                                          "\"\\u001b[2J\\u0000\"",
                                          "\"\xff\xfe\xed\xa0\x80\"",
                                          "\"'; DROP TABLE event; --\"",
                                          "[[1]]",
                                          "{\"a\": {\"b\": 1}}",
                                          "1,2",
                                          ",",
                                          ":",
                                          ""};
    const size_t at = below(text.size());
    switch (below(9)) {
      case 0:
        text.resize(at);
        break;
      case 1:
        text[at] = static_cast<char>(below(256));
        break;
      case 2:
      case 3:
      case 4:
        replace_value(text, at, kValues[below(std::size(kValues))]);
        break;
      case 5: {
        const char open = below(2) ? '[' : '{';
        text.insert(at, std::string(1 + below(3000), open));
        break;
      }
      case 6:
        text.erase(at, 1 + below(200));
        break;
      case 7:
        text.insert(below(text.size()), text.substr(at, 1 + below(400)));
        break;
      default:
        text.insert(at, std::string(1 + below(70000), "x\\\"\n0"[below(5)]));
    }
  }

  /// The number or text nearest behind `at` becomes another value.
  static void replace_value(std::string& text, size_t at, const std::string& value) {
    const size_t begin = text.find_first_of("0123456789\"", at);
    if (begin == std::string::npos) return;
    size_t end = begin + 1;
    if (text[begin] == '"') {
      end = text.find('"', end);
      end = end == std::string::npos ? text.size() : end + 1;
    } else {
      end = std::min(text.find_first_not_of("0123456789.eE+-", end), text.size());
    }
    text.replace(begin, end - begin, value);
  }

  std::mt19937_64& random_;
};

/// A report of Nsight Systems is a database: there, values go wrong in cells of tables too.
std::string damage_cells(const std::string& report, std::mt19937_64& random) {
  static const char* const kValues[] = {"NULL",
                                        "'text'",
                                        "x'00ff1b'",
                                        "9223372036854775807",
                                        "-9223372036854775808",
                                        "-1",
                                        "0",
                                        "4294967296",
                                        "1e300",
                                        "1.5",
                                        "'<script>alert(1)</script>'",
                                        "char(27, 91, 50, 74, 0)",
                                        "zeroblob(70000)",
                                        "randomblob(8)"};
  const ScratchFolder folder;
  const auto path = folder / "report.sqlite";
  std::ofstream(path, std::ios::binary) << report;
  {
    SQLite::Database db(path, SQLite::OPEN_READWRITE);
    std::vector<std::pair<std::string, std::string>> columns;
    SQLite::Statement all(db, "SELECT t.name, c.name FROM sqlite_master t, pragma_table_info(t.name) c WHERE t.type = 'table'");
    while (all.executeStep()) columns.emplace_back(all.getColumn(0).getString(), all.getColumn(1).getString());
    all.reset();
    for (uint64_t n = 1 + random() % 3; n > 0; --n) {
      const auto& [table, column] = columns[random() % columns.size()];
      if (random() % 8 == 0) {
        db.tryExec(fmt::format("DROP TABLE IF EXISTS \"{}\"", table));
      } else {
        db.tryExec(fmt::format("UPDATE \"{}\" SET \"{}\" = {}", table, column, kValues[random() % std::size(kValues)]));
      }
    }
  }
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

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
    const bool cells = sample.format == "nsys" && i % 2 == 0;
    const std::string damaged = cells ? damage_cells(sample.contents, random) : TraceDamage(random)(sample.contents);
    SCOPED_TRACE(fmt::format("DDL_FUZZ_SEED={} case {}", seed, i));
    try {
      Imported run(sample.format, Imported::Files{{sample.file, damaged}});
      ++runs;
    } catch (const Error& error) {
      const std::string what = error.what();
      EXPECT_NE(what.find(sample.file), std::string::npos) << what;
      EXPECT_EQ(what.find("cannot write"), std::string::npos) << what;
      const bool of_the_whole = what.find("no event that ddl knows") != std::string::npos ||
                                what.find("both of rank") != std::string::npos ||
                                what.find("at a time that is out of range") != std::string::npos;
      EXPECT_TRUE(of_the_whole || what.find(sample.place) != std::string::npos) << what;
      ++places[of_the_whole ? "the whole file" : sample.place];
    }
    ASSERT_FALSE(HasFailure());
  }
  EXPECT_GT(runs, 0);
  EXPECT_GT(places[sample.place], cases / 10);
  fmt::print("{}: {} damaged traces (seed {}): {} imported, {} refused\n", sample.format, cases, seed, runs, cases - runs);
}

INSTANTIATE_TEST_SUITE_P(Formats, ImportDamage, testing::ValuesIn(samples()), [](const testing::TestParamInfo<Sample>& sample) {
  std::string name = sample.param.format + (sample.param.format == "flight-recorder" && sample.param.contents[0] == '{' ? "_json" : "");
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

}  // namespace
}  // namespace ddl::test
