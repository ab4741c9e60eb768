#include "analyzer/csv_table.h"

#include <gtest/gtest.h>

#include "core/error.h"

namespace ddl {
namespace {

TEST(CsvTable, QuotesCommasAndLines) {
  const CsvTable table = CsvTable::parse(
      "\xef\xbb\xbf"
      "a,b\r\n\"x, \"\"y\"\"\n2\",3\r\n\r\nz,4.5e3",
      "t.csv");
  ASSERT_EQ(table.rows(), 2u);
  EXPECT_EQ(table.text(0, "a"), "x, \"y\"\n2");
  EXPECT_EQ(table.number(0, "b"), 3);
  EXPECT_EQ(table.number(1, "b"), 4500);
  EXPECT_FALSE(table.has("c"));
}

std::string message(const std::string& text, const std::string& column = "a") {
  try {
    const CsvTable table = CsvTable::parse(text, "t.csv");
    for (size_t r = 0; r < table.rows(); ++r) table.number(r, column);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(CsvTable, MistakesNameTheLine) {
  EXPECT_EQ(message(""), "t.csv is empty");
  EXPECT_EQ(message("a,b\n1,2\n3"), "t.csv:3: 1 fields, but the header has 2");
  EXPECT_EQ(message("a\n\"1"), "t.csv:2: unclosed quote");
  EXPECT_EQ(message("a\n1\n\nx"), "t.csv:4: invalid number 'x' in column 'a'");
  EXPECT_EQ(message("a\ninf"), "t.csv:2: invalid number 'inf' in column 'a'");
  EXPECT_EQ(message("a\n1", "b"), "t.csv has no column 'b'");
  EXPECT_THROW(CsvTable::read("/nonexistent/x.csv"), Error);
}

}  // namespace
}  // namespace ddl
