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

/// Where ddl works without it, "off" is not a problem.
std::vector<Check> check_machine();
/// The libraries that tell of GPUs, NCCL and counters.
std::vector<Check> check_sources();

/// Starts /bin/true with and without the library: does it load, what does it cost.
Check check_smoke_run();

/// What a version of NCCL ("2.31.2", the begin of a longer text) costs a job whose kernels NCCL's own profiler has to time, because CUPTI does
/// not; empty: little, or not known.
std::string nccl_timing_cost(const std::string& version);

}  // namespace ddl::cli
