// The checks of `ddl doctor`, one function each.
#pragma once

#include <string>
#include <vector>

namespace ddl::cli {

struct Check {
  enum class State { kOk, kOff, kProblem };
  State state = State::kOk;
  std::string what;         ///< a word or two
  std::string detail = {};  ///< what was found
  std::string hint = {};    ///< for problems, and for what is off
};

/// A missing feature is "off", not a problem, if ddl works without it.
std::vector<Check> check_machine();
/// The libraries that serve GPUs, NCCL and counters.
std::vector<Check> check_sources();

/// Starts /bin/true with and without the library: whether it loads, and its cost.
Check check_smoke_run();

/// The cost of a NCCL version ("2.31.2", the begin of a longer text) to a job whose kernels NCCL's own profiler must
/// time, because CUPTI does not; empty: little, or unknown.
std::string nccl_timing_cost(const std::string& version);

}  // namespace ddl::cli
