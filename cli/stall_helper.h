// The helper beside a job of `ddl record`: watches the spools, and reports, records and acts when the job stalls.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>

namespace ddl::cli {

struct StallOptions {
  std::optional<std::chrono::nanoseconds> limit = std::chrono::minutes(5);  ///< --stall; nothing: off
  /// --on-stall: "abort", a command for sh, or empty
  std::string action;
};

/// Returns when nothing is left to do; run it in a process of its own, which the job's end ends. `job`: the process
/// that --on-stall abort ends.
void watch_for_stalls(const std::filesystem::path& directory, const StallOptions& options, pid_t job);

/// "90", "60s", "5m", "1.5h"; nothing for "off". Throws ddl::Error (kUsage).
std::optional<std::chrono::nanoseconds> parse_stall_limit(const std::string& text);

}  // namespace ddl::cli
