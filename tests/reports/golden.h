// Expected output in files. To accept a changed look: DDL_UPDATE_GOLDEN=1 ctest -R Golden, then read the diff.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

namespace ddl::test {

inline void expect_golden(const std::string& text, const char* name) {
  const std::string path = std::string(DDL_GOLDEN_DIRECTORY) + "/" + name;
  if (std::getenv("DDL_UPDATE_GOLDEN") != nullptr) std::ofstream(path) << text;
  std::ifstream file(path);
  const std::string golden((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  EXPECT_EQ(text, golden);
}

}  // namespace ddl::test
