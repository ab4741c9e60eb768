#include "reports/text.h"

#include <gtest/gtest.h>

#include <random>
#include <sstream>

#include "reports/format.h"
#include "reports/safe_text.h"

namespace ddl::reports {
namespace {

size_t widest_line(const std::string& text) {
  size_t widest = 0;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) widest = std::max(widest, display_width(line));
  return widest;
}

TEST(SafeText, ShowsWhatWouldSteerTheTerminal) {
  EXPECT_EQ(printable("a\x1b[31mb"), "a\\x1b[31mb");
  EXPECT_EQ(printable("tab\there\n"), "tab\\x09here\\x0a");
  EXPECT_EQ(printable(std::string("nul\0", 4)), "nul\\x00");
  EXPECT_EQ(printable("\xff\xc3"), "\\xff\\xc3");
  EXPECT_EQ(printable("\xc0\xaf"), "\\xc0\\xaf");           // overlong
  EXPECT_EQ(printable("\xed\xa0\x80"), "\\xed\\xa0\\x80");  // surrogate
  EXPECT_EQ(printable("\xc2\x9b"
                      "31m"),
            "\\u{9b}31m");                                           // C1 control
  EXPECT_EQ(printable("a\u202eb\u200bc"), "a\\u{202e}b\\u{200b}c");  // right-to-left override, zero width
  // right-to-left letter: would swap the numbers beside it
  EXPECT_EQ(printable("\u05d0"), "\\u{5d0}");
  EXPECT_EQ(printable("gr\u00f6\u00dfe \u5c42"), "gr\u00f6\u00dfe \u5c42");
}

TEST(SafeText, WidthsAndShortening) {
  EXPECT_EQ(display_width("\u5c42a"), 3u);
  EXPECT_EQ(shorten_middle("encoder.layer.11.weight", 12), "encod..eight");
  EXPECT_EQ(shorten_middle("short", 12), "short");
  EXPECT_EQ(display_width(shorten_middle("\u5c42\u5c42\u5c42\u5c42\u5c42\u5c42", 7)), 6u);
  EXPECT_EQ(shorten_middle("abcdef", 1), ".");
}

TEST(Wrap, KeepsRanksAndUnitsTogether) {
  for (const std::string& line : wrap("it is the rank 11 that is 4.93 ms late, says rank 3, in 12 us", 12)) {
    EXPECT_LE(display_width(line), 12u);
    EXPECT_FALSE(line.ends_with("rank")) << line;
    EXPECT_FALSE(line.starts_with("ms")) << line;
  }
  EXPECT_EQ(wrap("a wordthatislong b", 8), (std::vector<std::string>{"a", "wor..ong", "b"}));
  EXPECT_EQ(wrap("a wordthatislong b", 8, false), (std::vector<std::string>{"a", "wordthatislong", "b"}));
}

Table random_table(std::mt19937& random) {
  const auto number = [&](int64_t most) { return std::uniform_int_distribution<int64_t>(0, most)(random); };
  Table table{
      .id = "t",
      .caption = "A caption that is longer than the narrowest terminal, so that it must be wrapped at least once",
      .columns = {{"a", "Time(%)", Unit::kRatio},
                  {"b", "Time", Unit::kDuration},
                  {"c", "Calls", Unit::kCount},
                  {"d", "Min", Unit::kDuration, 1},
                  {"e", "Busbw", Unit::kBandwidth, 2},
                  {"f", "Name", Unit::kText},
                  {"g", "Host", Unit::kText, 3}},
      .rows = {},
      .note = "and a note",
      .when_empty = {}};
  for (int64_t row = number(8) + 1; row > 0; --row) {
    std::string name;
    for (int64_t i = number(300); i > 0; --i) name += static_cast<char>(number(255));
    table.rows.push_back({Value::ratio(static_cast<double>(number(1000)) / 1000),
                          Value::duration_ns(number(int64_t{1} << number(62))),
                          Value::count(number(int64_t{1} << number(40))), Value::duration_ns(number(1'000'000'000)),
                          number(3) == 0 ? Value::absent(Unit::kBandwidth, "PARTIAL_RANKS") : Value::bandwidth(1e9),
                          Value::text(name), Value::text("a.very.long.host.name.example.org")});
  }
  return table;
}

TEST(TextTable, NeverWiderThanAskedAndNeverCutsANumber) {
  std::mt19937 random(42);
  for (int round = 0; round < 300; ++round) {
    const Table table = random_table(random);
    const size_t width = std::uniform_int_distribution<size_t>(20, 220)(random);
    const std::string text = render_table(table, {.width = width, .color = false});
    ASSERT_LE(widest_line(text), std::max(width, kNarrowest)) << text;
    for (const auto& row : table.rows)
      for (const size_t column : {0, 1, 2}) ASSERT_NE(text.find(table_text(row[column])), std::string::npos) << text;
  }
}

TEST(TextTable, SaysWhichColumnsAreLeftOut) {
  std::mt19937 random(1);
  const Table table = random_table(random);
  const std::string narrow = render_table(table, {.width = 60, .color = false});
  EXPECT_NE(narrow.find("left out here, too narrow: Min"), std::string::npos) << narrow;
  const std::string wide = render_table(table, {.width = std::nullopt, .color = false});
  EXPECT_EQ(wide.find("left out"), std::string::npos);
  EXPECT_EQ(wide.find(".."), wide.find("...")) << "nothing is shortened without a width";
}

TEST(TextReport, ColourOnlyWhenAskedFor) {
  Document document;
  document.headline = {"job\x1b[2J"};
  document.alerts = {"it failed"};
  document.findings = {{.id = "x",
                        .sentence = "rank 1 is late",
                        .rank = 1,
                        .saving_ns = 1,
                        .share_ratio = 0.5,
                        .confidence = "sure",
                        .estimator = "",
                        .evidence = "",
                        .try_next = ""}};
  EXPECT_EQ(render_text(document, {}).find('\x1b'), std::string::npos);
  const std::string colored = render_text(document, {.width = 80, .color = true});
  EXPECT_NE(colored.find("\x1b[1m"), std::string::npos);
  EXPECT_EQ(colored.find("\x1b[2J"), std::string::npos);
}

TEST(TextReport, SavingsSayWhetherTheyAreBounds) {
  Document document;
  for (const auto& [bound, saving_ns] : {std::pair{Value::Bound::kUpper, 25'000'000},
                                         {Value::Bound::kLower, 30'000'000},
                                         {Value::Bound::kNone, 35'000'000}})
    document.findings.push_back({.id = "x",
                                 .sentence = "it is slow",
                                 .rank = std::nullopt,
                                 .saving_ns = saving_ns,
                                 .share_ratio = saving_ns / 1e8,
                                 .bound = bound,
                                 .confidence = "maybe",
                                 .estimator = "",
                                 .evidence = "",
                                 .try_next = ""});
  const std::string text = render_text(document, {});
  EXPECT_NE(text.find(" <=25.0 ms <=25.0%"), std::string::npos) << text;
  EXPECT_NE(text.find(" >=30.0 ms >=30.0%"), std::string::npos) << text;
  EXPECT_NE(text.find(" 35.0 ms   35.0%"), std::string::npos) << text;
}

TEST(TextReport, EmptyDocumentPrintsNothing) { EXPECT_EQ(render_text(Document{}, {}), ""); }

}  // namespace
}  // namespace ddl::reports
