// A ddl command line in this process, with what it printed.
#pragma once

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "cli/verbs.h"

namespace ddl::cli {

using Json = nlohmann::json;

struct Result {
  int code = 0;
  std::string out, err;
};

inline Result ddl_command(const Arguments& arguments) {
  Result result;
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  result.code = run_ddl(arguments);
  result.out = testing::internal::GetCapturedStdout();
  result.err = testing::internal::GetCapturedStderr();
  return result;
}

inline bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace ddl::cli
