// The parts of an analysis as a Slurm job array, and the merge as a job behind it. Partition, account, time limit
// and other settings that sbatch reads from its environment (SBATCH_PARTITION, SBATCH_ACCOUNT, SBATCH_TIMELIMIT,
// ...) are the user's.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "cli/interrupts.h"
#include "store/run_directory.h"

namespace ddl::cli {

class SlurmArray {
 public:
  /// Submits parts `missing` of `of`, each with `threads` threads and cores, and the merge. Throws Error: sbatch is
  /// missing, or refuses.
  SlurmArray(const RunDirectory& run, const std::vector<unsigned>& missing, unsigned of, unsigned threads);
  /// Cancels what is left in the queue.
  ~SlurmArray();
  SlurmArray(const SlurmArray&) = delete;
  SlurmArray& operator=(const SlurmArray&) = delete;

  /// Describes the submitted jobs.
  std::string sentence() const;
  /// Whether any job is in the queue, or Slurm does not answer. Waits this long first. Throws Error after SIGINT,
  /// SIGTERM or SIGHUP.
  bool are_queued(std::chrono::milliseconds patience);
  std::filesystem::path merge_log() const;

 private:
  std::string submit(const std::vector<std::string>& options, const std::string& command) const;

  Interrupts interrupts_;
  std::filesystem::path folder_;
  std::string array_, merge_;  ///< ids; empty: not submitted, or gone
  size_t parts_;
  bool told_ = false;  ///< the user knows that Slurm does not answer
};

}  // namespace ddl::cli
