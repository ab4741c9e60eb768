#pragma once

#include <cstdint>
#include <string>

#include "workloads/train/test_aids.h"

namespace ddl::train {

struct Options {
  std::string model = "mlp";
  std::size_t width = 0;  ///< 0: the model's default
  std::size_t batch = 32;
  uint64_t steps = 30;
  double rate = 0.01;
  double momentum = 0.9;
  uint64_t seed = 1;
  std::string data_folder;  ///< empty: the drawn set
  double bucket_mib = 0.25;
  bool overlap = true;
  std::string device = "cpu";
  std::string reduce = "nccl";  ///< --device cuda only
  uint64_t print_every = 1;
  FaultPlan faults;
  std::string call_log;  ///< prefix, empty: none
  bool help = false;

  std::size_t bucket_bytes() const { return static_cast<std::size_t>(bucket_mib * 1024.0 * 1024.0); }
};

/** Throws UsageError. */
Options parse_options(int argc, const char* const* argv);
std::string help_text();

}  // namespace ddl::train
