#pragma once

#include <cstdint>
#include <string>

#include "workloads/allreduce/allreduce.h"
#include "workloads/network/schedule.h"
#include "workloads/network/split.h"

namespace ddl::network {

struct Options {
  std::string table;  ///< a name or a file
  double scale = 1.0;
  std::size_t batch = 32;  ///< per replica of the network
  uint64_t steps = 10;
  std::size_t stages = 1;
  std::size_t micro_batches = 1;
  Schedule schedule = Schedule::kGpipe;
  Split split{};
  std::string split_word{};  ///< as typed
  double fixed_ms = 0.0;     ///< instead of computing; 0: compute
  double bucket_mib = 25.0;
  bool overlap = true;
  allreduce::Choice allreduce{};  ///< no algorithm: the MPI library's own
  bool list = false;
  bool help = false;

  std::size_t bucket_bytes() const { return static_cast<std::size_t>(bucket_mib * 1024.0 * 1024.0); }
  std::size_t samples_per_pass() const { return batch / micro_batches; }
};

/** Throws train::UsageError where the options do not fit the number of ranks or layers. */
void check_fit(const Options& options, int ranks, std::size_t layers);

/** Throws train::UsageError. */
Options parse_options(int argc, const char* const* argv);
std::string help_text();

}  // namespace ddl::network
