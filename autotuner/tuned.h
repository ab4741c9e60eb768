// The result of a tuning: the input of every emitted file (autotuner/emit.h), printed by `ddl tune` at its end.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace ddl::tune {

/// How much faster the tuned job is: the ratio of costs (seconds per sample at equal statistical efficiency), default
/// over tuned; 1.10: 10 % more samples per second. The interval is over paired rounds that took no part in choosing the
/// winner (autotuner/paired.h).
struct Gain {
  double ratio = 1;
  double lo = 1, hi = 1;
  int64_t rounds = 0;
  /// The default against itself in the same rounds: what noise alone does to such a ratio.
  double noise_lo = 1, noise_hi = 1;
  bool of_rounds = false;    ///< lo and hi are the lowest and the highest round: each is a gain far above the noise
  double confidence = 0.95;  ///< of the interval, unless it is of_rounds
  /// the trials that chose the winner had shown another gain, to which lo or hi reaches: conditions changed
  bool spans_search = false;
};

/// A number that the job prints: the median of the first group of a regular expression (ECMAScript) over
/// the matching lines.
struct Metric {
  std::string pattern;
  std::string file;  ///< written by the job; empty: its output
  bool lower_is_better = false;
};

/// One tunable: the winner's value beside the job's.
struct Choice {
  std::string name;  ///< "bucket_mb", or a name of the user's
  std::string value;
  std::string default_value;
  bool numeric = false;  ///< changes what is computed (batch, compression), not only the speed
};

/// Open MPI's algorithm of blocking MPI_Allreduce from this many bytes on, until the next rule.
struct AllreduceRule {
  int64_t from_bytes = 0;
  int64_t algorithm = 0;       ///< coll_tuned_allreduce_algorithm; 0: Open MPI's own decision
  std::string algorithm_name;  ///< as the library enumerates it: "ring"; "ignore" for 0
  int64_t segment_bytes = 0;   ///< 0: none
};

/// A row of NCCL's tuner CSV; empty words and -1: any, or left to NCCL.
struct NcclRule {
  std::string collective = "allreduce";
  int64_t min_bytes = 0, max_bytes = -1;
  std::string algorithm;  ///< "tree", "ring", ...
  std::string protocol;   ///< "ll", "ll128", "simple"
  int64_t channels = -1;
};

struct Tuned {
  // Where it comes from.
  std::vector<std::string> command;   ///< as typed, with its placeholders
  std::string run;                    ///< the directory of its trials
  std::string date;                   ///< ISO 8601, UTC
  std::string machine;                ///< hosts and processor, in words
  std::string mpi_library;            ///< "Open MPI v4.1.4"; empty: unknown
  std::string goal;                   ///< in words: "samples per second at equal statistical efficiency"
  std::string goal_kind;              ///< Goal::kind(); empty: written by an older ddl
  std::optional<double> target_loss;  ///< of "loss"
  std::optional<Metric> metric;       ///< of "metric"
  int64_t ranks = 0, nodes = 0;
  bool in_run = false;  ///< measured by blocks of steps of one run, not by launches

  std::optional<Gain> gain;  ///< nothing: the default is kept, and no file changes anything
  std::string kept;          ///< why it is kept, in words; empty: it is not
  std::vector<Choice> choices;

  // The winner's values for the formats; unset or empty: not tuned, or unchanged.
  std::vector<AllreduceRule> allreduce_rules;  ///< of communicators of `ranks`, ascending from 0 bytes
  std::vector<NcclRule> nccl_rules;
  std::optional<int64_t> bucket_bytes;  ///< fusion buffer, gradient bucket
  std::optional<int64_t> default_bucket_bytes;
  std::optional<int64_t> batch_per_rank;
  /// of the default, samples of all ranks (specification.md G3)
  std::optional<double> noise_scale;
  int64_t element_bytes = 4;  ///< of a gradient
  /// variables set by the winner, beyond the files
  std::vector<std::pair<std::string, std::string>> environment;
  /// variables set by the default, to compare with it
  std::vector<std::pair<std::string, std::string>> default_environment;
  /// variables that the winner, and the default, run without
  std::vector<std::string> unset, default_unset;
  /// with the winner's values in place of the placeholders
  std::vector<std::string> tuned_command;
  std::string nccl_tuner_plugin = "libnccl-tuner-ddl.so";  ///< its path, for NCCL_TUNER_PLUGIN
};

/// Choices that no file puts into force, in words: the tuned rules of Open MPI's algorithms decide instead.
std::vector<std::string> overridden_by_rules(const Tuned& tuned);
/// Whether rules for allreduces override this variable.
bool is_decided_by_rules(const std::string& variable);

}  // namespace ddl::tune
