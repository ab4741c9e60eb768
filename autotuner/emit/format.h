// What the formats of emit/ share. A format is a function from what was tuned to text.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "autotuner/tuned.h"

namespace ddl::tune {

using Variables = std::vector<std::pair<std::string, std::string>>;

struct Format {
  const char *file, *comment, *reader, *undo;
};

struct Emission {
  const Tuned& tuned;
  std::filesystem::path directory;  ///< absolute
  Variables environment;            ///< the whole environment of the tuned job, each name once
  bool environment_has(std::string_view name) const;
};

struct Content {
  std::string text;      ///< without the heading where the format has comments
  bool changes = false;  ///< it sets something
  std::string note;      ///< see EmittedFile
};

/// The lines that begin every file, without comment signs: origin, gain, how to undo.
std::vector<std::string> heading(const Emission& emission, const Format& format, const Content& content);
/// The same as comments of at most 120 columns: NCCL's example plugin reads lines in pieces of 255 bytes.
std::string commented(const std::vector<std::string>& lines, std::string_view sign);

/// The tuned batch over the default's; nothing: unchanged, or not a number.
std::optional<double> batch_factor(const Tuned& tuned);
/// What a changed batch asks of the learning rate, warnings first. Empty: the batch is unchanged, or not a number.
std::vector<std::string> batch_advice(const Tuned& tuned);

/// The command as one would type it, without secrets.
std::string typed(const std::vector<std::string>& command);

/// Whether sums of floating-point numbers are added in another order than by default.
bool changes_order_of_sums(const Tuned& tuned);
/// Names of the numeric choices, "batch, compression"; may be empty.
std::string numeric_choices(const Tuned& tuned);

/// The variables of a runtime, by the beginning of their names.
Variables with_prefix(const Variables& variables, std::string_view prefix);
/// `NAME='value'` lines for a shell, any value.
std::string shell_assignments(const Variables& variables);
/// "unset NAME NAME" as a line for a shell, with the variables in Tuned::unset whose names begin with
/// `prefix`; empty: none.
std::string shell_unset(const Emission& emission, std::string_view prefix);
/// For formats that only set variables: what they leave to the shell, behind what the note says already.
void note_unset(const Emission& emission, std::string_view prefix, Content& content);
/// Horovod's: those of the environment, and the fusion buffer from the bucket.
Variables horovod_variables(const Emission& emission);
inline constexpr const char* kHorovodFusion = "HOROVOD_FUSION_THRESHOLD";
/// The remark that a bucket measured with the job's own mechanism may act differently in another runtime.
inline constexpr const char* kBucketTranslated =
    "the size of the tuned bucket in this runtime's unit; the gain was not measured with this runtime";

/// Whether NCCL's CSV can express the rule: it has no words for "any algorithm" and "any protocol".
bool can_write(const NcclRule& rule);
/// Leaves out what a format of one line per variable cannot hold, and says so in the note.
std::string plain_assignments(const Variables& variables, std::string_view cut_from_names, std::string_view equals,
                              Content& content);

#define FORMAT(name, ...) Content emit_##name(const Emission& emission, const Format& format);
#include "autotuner/emit/formats.def"
#undef FORMAT

}  // namespace ddl::tune
