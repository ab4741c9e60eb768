#include "cli/threads_option.h"

#include <fmt/format.h>

#include "core/error.h"

namespace ddl::cli {

void add_threads_option(VerbOptions& options) {
  options.add()("threads", takes<int64_t>("N"),
                "read and analyze the run with N threads, if that is to be done; default: one for each core. The results are the same");
}

unsigned threads_of(const VerbOptions& options) {
  constexpr int64_t kMost = 1024;
  const int64_t threads = options.maybe<int64_t>("threads").value_or(0);
  if (options.has("threads") && (threads < 1 || threads > kMost))
    throw Error(fmt::format("--threads {}: not a number of threads", threads), fmt::format("1 to {}", kMost), ExitCode::kUsage);
  return static_cast<unsigned>(threads);
}

}  // namespace ddl::cli
