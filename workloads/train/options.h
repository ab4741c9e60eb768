#pragma once

#include <cstdint>
#include <string>

#include "workloads/allreduce/allreduce.h"
#include "workloads/train/background_runtime.h"
#include "workloads/train/consistency.h"
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
  bool may_overlap = true;      ///< as asked for; `overlap` is false too where what adds up blocks
  allreduce::Choice allreduce;  ///< no algorithm: the MPI library's own
  std::string compress = "none";
  ConsistencyRule consistency;
  std::string consistency_word = "sync";  ///< as typed
  std::string device = "cpu";
  std::string reduce = "nccl";  ///< --device cuda only
  std::string runtime = "direct";
  BackgroundRuntime::Settings background;  ///< --runtime background only
  uint64_t print_every = 1;
  FaultPlan faults;
  std::string call_log;  ///< prefix, empty: none
  std::string step_log;  ///< prefix, empty: none
  bool marks = true;
  bool help = false;

  /** Gradients are added up by code of this repository: blocking, and every byte is counted. */
  bool adds_up_itself() const { return allreduce.algorithm != nullptr || compress != "none"; }
  /** For the update: deep gradient compression has it in what ranks send. */
  double update_momentum() const { return compress.starts_with("dgc:") ? 0 : momentum; }
  std::size_t bucket_bytes() const { return static_cast<std::size_t>(bucket_mib * 1024.0 * 1024.0); }
};

/** Throws UsageError where the options do not fit the number of ranks. */
void check_ranks(const Options& options, int ranks);

/** Throws UsageError. */
Options parse_options(int argc, const char* const* argv);
std::string help_text();

}  // namespace ddl::train
