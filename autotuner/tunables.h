// The tunables of a job, and how a value reaches it: in the command in place of {name}, or in the environment.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "autotuner/space.h"
#include "autotuner/tuned.h"

namespace ddl::tune {

enum class How { kCommand, kVariable, kOpenmpiAllreduce, kOpenmpiIallreduce };

struct KnownTunable {
  const char* name;
  How how;
  const char* variable;
  bool numeric;  ///< changes what is computed
  const char* values;
  const char* sentence;
};
/// The rows of tunables.def.
const std::vector<KnownTunable>& known_tunables();

/// A tunable of this job.
struct JobTunable {
  std::string name;
  How how = How::kCommand;
  std::string variable = {};  ///< of the environment; kVariable and kOpenmpiIallreduce
  bool numeric = false;
  std::vector<std::string> values = {};  ///< the first is the default
  bool guessed = false;                  ///< the user did not say that the job runs with the first today
  bool added = false;                    ///< by ddl: nobody asked for it
};

/// Parses `--tunable NAME=VALUES`. Commas separate values, or semicolons where values contain commas; NAME alone takes
/// its values from tunables.def. A name that is not there is the user's own: part of the command where that has {NAME},
/// else an environment variable. Throws ddl::Error (kUsage).
JobTunable parse_tunable(const std::string& text, const std::vector<std::string>& command);

/// Adds the known tunables that the command names and `given` lacks. A {word} of the command without values is an
/// error, except {hosts} where trials are given their nodes. Throws ddl::Error (kUsage).
std::vector<JobTunable> tunables_of_command(const std::vector<std::string>& command,
                                            const std::vector<JobTunable>& given, bool has_hosts = false);

/// Tuned values are written into files that are passed on. Throws ddl::Error (kUsage) for a tunable whose name, or
/// whose argument's name, is that of a secret, and for values that contain secrets (the password of a URL, a token).
void refuse_secrets(const std::vector<std::string>& command, const std::vector<JobTunable>& tunables);

/// Why no value of a tunable can have an effect on this many hosts, in words; empty: unknown.
std::string without_effect(const JobTunable& tunable, int64_t nodes);

/// Why a running job cannot change it, in words; empty: it is up to the job.
std::string not_in_run(const JobTunable& tunable);

/// Values that set nothing: "default", which leaves things as they are, and "unset", which takes a variable
/// away where it is set.
bool is_left_alone(std::string_view value);

using Environment = std::vector<std::pair<std::string, std::string>>;

/// The value of `algorithm` that stands for a file of rules by message size.
constexpr const char* kRules = "rules";
/// Other values that stand for a file of rules (preset_rules()): NAME.rules beside the other one.
constexpr const char* kPresets[] = {"baidu_ring", "gloo"};
bool is_preset(std::string_view value);

/// A job at one point.
struct PlacedJob {
  std::vector<std::string> command;
  Environment environment;
  std::vector<std::string> unset = {};  ///< variables that it does not get
};

/// `value_of`: of every tunable, by name. `rules_file`: for algorithm=rules. "default" sets nothing,
/// "unset" takes the variable away.
PlacedJob place(const std::vector<std::string>& command, const std::vector<JobTunable>& tunables,
                const std::map<std::string, std::string>& value_of, const std::string& rules_file);

/// name=value lists of the point.
std::map<std::string, std::string> values_at(const Space& space, size_t point);

/// What the values of `algorithm` are values of.
constexpr const char* kAllreduceParameter = "coll_tuned_allreduce_algorithm";

/// The numbers of Open MPI's algorithms by name, from `ompi_info --param coll all --level 9 --parsable`; empty: it
/// lacks the parameter ("coll_tuned_allreduce_algorithm").
std::map<std::string, int64_t> openmpi_algorithms(std::string_view ompi_info, std::string_view parameter);

/// The rule for all sizes that a value of `algorithm` stands for: NAME or NUMBER of `ids`, with or without :SEGMENT.
/// Nothing: it is none.
std::optional<AllreduceRule> forced_rule(const std::string& value, const std::map<std::string, int64_t>& ids);
/// Throws ddl::Error (kUsage) for values of `algorithm` that are none of "default", "unset", "rules", a preset of these
/// algorithms or a forced one.
void check_algorithms(const std::vector<std::string>& values, const std::map<std::string, int64_t>& ids);

}  // namespace ddl::tune
