// docs/reference/ddl-report.schema.json is written by hand; that it knows every column of every section, and no other,
// is not left to hand.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "reports/overview.h"
#include "tests/reports/handmade_run.h"

namespace ddl::reports {
namespace {

nlohmann::json schema() {
  std::ifstream file(DDL_REFERENCE_DIRECTORY "/ddl-report.schema.json");
  return nlohmann::json::parse(file).at("properties");
}

std::set<std::string> keys_of(const nlohmann::json& object) {
  std::set<std::string> keys;
  for (const auto& [key, value] : object.items()) keys.insert(key);
  return keys;
}

std::string definition_of(Unit unit) {
  switch (unit) {
    case Unit::kText:
      return "text";
    case Unit::kCount:
      return "count";
    case Unit::kBytes:
      return "bytes";
    case Unit::kDuration:
      return "ns";
    case Unit::kBandwidth:
      return "bandwidth";
    case Unit::kRatio:
    case Unit::kShare:
      return "ratio";
    default:
      return "number";
  }
}

TEST(ReportSchema, KnowsEveryColumnOfEverySection) {
  test::HandmadeRun run;
  const RunView view = test::view_of(run.db());
  const nlohmann::json properties = schema();
  Document document = build_everything(view, "train.ddl");
  ASSERT_GT(document.tables.size(), 10u);
  for (const Section& section : sections())
    if (section.alone) document.tables.push_back(section.build(view));
  for (const Table& table : document.tables) {
    ASSERT_TRUE(properties.contains(table.id)) << table.id;
    const nlohmann::json& rows = properties.at(table.id).at("items").at("properties");
    std::set<std::string> columns;
    for (const Column& column : table.columns) {
      columns.insert(column.key);
      EXPECT_TRUE(rows.contains(column.key)) << table.id << "." << column.key;
      if (!rows.contains(column.key)) continue;
      EXPECT_EQ(rows.at(column.key).at("$ref"), "#/definitions/" + definition_of(column.unit))
          << table.id << "." << column.key;
    }
    EXPECT_EQ(keys_of(rows), columns) << table.id;
    std::set<std::string> required;
    for (const auto& key : properties.at(table.id).at("items").at("required")) required.insert(key.get<std::string>());
    EXPECT_EQ(required, columns) << table.id << ": what is required of a row";
  }
}

TEST(ReportSchema, KnowsEveryFact) {
  test::HandmadeRun run;
  const RunView view = test::view_of(run.db());
  std::set<std::string> facts;
  for (const Fact& fact : build_overview(view, "train.ddl").facts) facts.insert(fact.key);
  EXPECT_EQ(keys_of(schema().at("run").at("properties")), facts);
}

}  // namespace
}  // namespace ddl::reports
