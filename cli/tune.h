// ddl tune: the request, and what its parts share.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "analyzer/results_lint.h"
#include "autotuner/goal.h"
#include "autotuner/search.h"
#include "autotuner/space.h"
#include "autotuner/sweep.h"
#include "autotuner/tunables.h"
#include "autotuner/tuned.h"
#include "cli/tune_hosts.h"

namespace ddl::cli {

struct TuneRequest {
  std::vector<std::string> command;
  std::filesystem::path directory;
  std::vector<tune::JobTunable> tunables = {};
  std::optional<int64_t> max_global_batch = {};
  std::optional<int64_t> max_memory = {};  ///< bytes of a rank
  double budget_s = 600;
  std::optional<size_t> trials = {};
  tune::Goal goal = {};
  uint64_t seed = 1;
  Stated stated = {};                 ///< the user's statements about the numbers
  std::vector<LaneHosts> lanes = {};  ///< nodes for trials side by side; empty: placed by the launcher
};

struct RefusedPoints {
  std::string why;
  size_t count = 0;
};

/// A trial of the winner with one tunable at its default.
struct PutBack {
  std::string words;  ///< "bucket_mb=25"
  tune::TrialFacts facts;
};

/// The outcome, for the report and the files.
struct Tuning {
  tune::Space space;
  std::vector<tune::JobTunable> tunables;
  tune::SearchResult result = {};
  /// log cost by point; on the level of the costs if the job's facts are known
  std::vector<double> prediction = {};
  tune::TrialFacts base = {};                       ///< of the default's first trial
  std::optional<tune::TrialFacts> base_again = {};  ///< of its last one, beside the winner's
  std::optional<tune::TrialFacts> best = {};        ///< of the winner's last trial
  std::vector<PutBack> put_back = {};
  tune::Goal goal = {};
  std::optional<tune::Sweep> sweep = {};
  std::vector<tune::AllreduceRule> rules = {};  ///< what algorithm=rules stands for
  std::vector<RefusedPoints> refused = {};
  std::vector<std::string> notes = {};  ///< what is missing, and what that means
  double spent_s = 0;
  bool in_run = false;  ///< by blocks of steps of one run: only step times are known
};

/// Calibrates and searches. Trials are logged in the directory as they end; logged trials of the same question
/// are not repeated.
Tuning tune_job(const TuneRequest& request);

class InRun;
/// The same by blocks of steps of one job, which goes on as `run` with the winner. Throws ddl::Error if no knob can
/// change while the job runs, or the job does not follow.
Tuning tune_in_run(const TuneRequest& request, std::unique_ptr<InRun>& run);

/// The folder of trials in the request's directory, both made if missing. Throws ddl::Error.
std::filesystem::path trials_folder(const TuneRequest& request);

/// "node1, Intel Xeon"
std::string machine_words();

/// "kind=good: +41.2% [...] over the default ...", or why the default is kept.
std::string conclusion_words(const Tuning& tuning);

/// For the emitted files.
tune::Tuned tuned_of(const TuneRequest& request, const Tuning& tuning);

/// `ddl tune --apply DIR -- COMMAND` and `ddl tune --verify DIR`; return the exit code. An empty command means the
/// tuned one. `hosts`: the job's nodes; empty: placed by the launcher.
int apply_tuned(const std::filesystem::path& directory, const std::vector<std::string>& command,
                const LaneHosts& hosts);
/// `in_run`: by blocks of steps of one job, which is then ended; else by launches. `budget_s`: limits jobs that
/// hang, as in a tuning.
int verify_tuned(const std::filesystem::path& directory, const std::vector<std::string>& command, size_t rounds,
                 const std::optional<tune::Goal>& asked, const LaneHosts& hosts, bool in_run, double budget_s);

/// Seconds per step by round: the default's geometric mean, the tuned one's, the default's first and second.
struct InRunVerification {
  std::vector<double> defaults, tuned, first, second;
};
/// `tunables`: the default's value, then the tuned one if it differs. Throws ddl::Error.
InRunVerification verify_in_run(const std::filesystem::path& directory, const std::vector<std::string>& command,
                                const std::vector<tune::JobTunable>& tunables, size_t rounds, const LaneHosts& hosts,
                                double budget_s);

}  // namespace ddl::cli
