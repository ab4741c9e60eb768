// The parts of an analysis as a job array of Slurm, and the merge as a job behind it. Partition, account, time limit and whatever else sbatch
// reads from its environment (SBATCH_PARTITION, SBATCH_ACCOUNT, SBATCH_TIMELIMIT, ...) are the user's.
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
  /// Submits parts `missing` of `of`, each with `threads` threads and cores, and the merge. Throws Error: sbatch is not there, or refuses.
  SlurmArray(const RunDirectory& run, const std::vector<unsigned>& missing, unsigned of, unsigned threads);
  /// Cancels what is still in the queue.
  ~SlurmArray();
  SlurmArray(const SlurmArray&) = delete;
  SlurmArray& operator=(const SlurmArray&) = delete;

  /// What was submitted, for people.
  std::string sentence() const;
  /// Is anything of it in the queue, or cannot Slurm say? Waits so long before it asks. Throws Error where SIGINT, SIGTERM or SIGHUP has come.
  bool are_queued(std::chrono::milliseconds patience);
  std::filesystem::path merge_log() const;

 private:
  std::string submit(const std::vector<std::string>& options, const std::string& command) const;

  Interrupts interrupts_;
  std::filesystem::path folder_;
  std::string array_, merge_;  ///< ids; empty: not submitted, or gone
  size_t parts_;
  bool told_ = false;  ///< that Slurm does not answer
};

}  // namespace ddl::cli
