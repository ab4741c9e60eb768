// Expected output in files. To accept a changed look: DDL_UPDATE_GOLDEN=1 build/release/bin/reports_test (tui_test),
// then read the diff.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

namespace ddl::test {

inline void expect_golden(const std::string& text, const char* name) {
  const std::string path = std::string(DDL_GOLDEN_DIRECTORY) + "/" + name;
  if (std::getenv("DDL_UPDATE_GOLDEN") != nullptr) std::ofstream(path) << text;
  std::ifstream file(path);
  const std::string golden((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (text == golden) return;
  // The lines from the first to the last difference: a page as one escaped string tells nobody anything.
  const auto lines_of = [](const std::string& whole) {
    std::vector<std::string> lines;
    std::istringstream stream(whole);
    for (std::string line; std::getline(stream, line);) lines.push_back(line);
    return lines;
  };
  const std::vector<std::string> now = lines_of(text), before = lines_of(golden);
  const size_t first =
      static_cast<size_t>(std::mismatch(now.begin(), now.end(), before.begin(), before.end()).first - now.begin());
  size_t same = 0;  // at the end
  while (same + first < std::min(now.size(), before.size()) &&
         now[now.size() - 1 - same] == before[before.size() - 1 - same])
    ++same;
  std::string difference;
  const auto add = [&](char sign, const std::vector<std::string>& lines) {
    constexpr size_t kMost = 30, kLongest = 400;
    for (size_t i = first; i + same < lines.size() && i < first + kMost; ++i)
      difference += sign + lines[i].substr(0, kLongest) + "\n";
  };
  add('-', before);
  add('+', now);
  ADD_FAILURE() << name << ", from line " << first + 1 << " on (DDL_UPDATE_GOLDEN=1 accepts it):\n" << difference;
}

}  // namespace ddl::test
