// Prometheus' text format, read as strictly as its own parser does: the grammar of names, labels and escapes, one HELP
// and one TYPE before the samples of a family, which stand together, and no two samples of the same labels.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>

namespace ddl::test {

struct PrometheusText {
  std::map<std::string, std::string> types;                      ///< by family
  std::map<std::string, std::map<std::string, double>> samples;  ///< family, labels as written

  /// For the only sample whose labels contain `part`; NaN: none.
  double value(const std::string& family, const std::string& part = "") const {
    double found = std::numeric_limits<double>::quiet_NaN();
    const auto rows = samples.find(family);
    if (rows == samples.end()) return found;
    for (const auto& [labels, value] : rows->second)
      if (labels.find(part) != std::string::npos) found = value;
    return found;
  }
};

inline PrometheusText read_prometheus(const std::string& text) {
  static const std::regex comment(R"(# (HELP|TYPE) ([a-z_:][a-z0-9_:]*) ((?:[^\\\n]|\\\\|\\n)*))");
  static const std::regex sample(
      R"xx(([a-z_:][a-z0-9_:]*)\{([a-z_]+="(?:[^"\\\n]|\\\\|\\"|\\n)*"(?:,[a-z_]+="(?:[^"\\\n]|\\\\|\\"|\\n)*")*)\} (-?[0-9.]+(?:e[-+]?[0-9]+)?))xx");
  PrometheusText read;
  std::set<std::string> helped;
  std::string family;
  EXPECT_TRUE(text.ends_with('\n'));
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::smatch match;
    if (std::regex_match(line, match, comment)) {
      if (match[1] == "HELP") {
        family = match[2];
        EXPECT_TRUE(helped.insert(family).second) << family << " twice";
      } else {
        EXPECT_EQ(family, match[2]) << "TYPE follows HELP";
        EXPECT_TRUE(match[3] == "gauge" || match[3] == "counter") << line;
        EXPECT_TRUE(read.types.emplace(family, match[3]).second) << line;
        EXPECT_EQ(match[3] == "counter", family.ends_with("_total")) << line;
      }
    } else if (std::regex_match(line, match, sample)) {
      EXPECT_EQ(match[1], family) << "samples of a family stand together";
      EXPECT_TRUE(read.samples[family].emplace(match[2], std::stod(match[3])).second) << "twice: " << line;
    } else {
      ADD_FAILURE() << "not Prometheus: " << line;
    }
  }
  return read;
}

}  // namespace ddl::test
