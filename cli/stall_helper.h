// The helper beside a job that `ddl record` starts: it looks at the spools now and then, and tells, writes down and acts when the job gets on no more.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>

namespace ddl::cli {

struct StallOptions {
  std::optional<std::chrono::nanoseconds> limit = std::chrono::minutes(5);  ///< --stall; nothing: off
  std::string action;                                                       ///< --on-stall: "abort", a command for sh, or empty
};

/// Returns when nothing is left to do; is to be run in a process of its own, which the end of the job ends. `job`: the process that --on-stall abort ends.
void watch_for_stalls(const std::filesystem::path& directory, const StallOptions& options, pid_t job);

/// "90", "60s", "5m", "1.5h"; nothing for "off". Throws ddl::Error (kUsage).
std::optional<std::chrono::nanoseconds> parse_stall_limit(const std::string& text);

}  // namespace ddl::cli
