// ddl model: sub-models, each a question about a recorded run or numbers on the command line. To add one: a function in
// a file model_NAME.cpp, and a row in model.cpp.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/models/allreduce_cost.h"
#include "analyzer/models/link_fit.h"
#include "cli/open_run.h"
#include "cli/options.h"
#include "reports/document.h"
#include "reports/run_view.h"

namespace ddl::cli {

struct SubModel {
  const char* verb;       ///< "model allreduce"
  std::string_view kind;  ///< its topic: heads a group in `ddl model --help`
  const char* summary;    ///< its question
  const char* example;    ///< lines to type
  int (*run)(const std::vector<std::string>& arguments);
  std::string_view name() const { return std::string_view(verb).substr(6); }
};

/// Names of all sub-models.
std::vector<std::string> model_questions();

int model_allreduce(const std::vector<std::string>& arguments);
int model_fit(const std::vector<std::string>& arguments);
int model_fusion(const std::vector<std::string>& arguments);
int model_pipeline(const std::vector<std::string>& arguments);
int model_microbatch(const std::vector<std::string>& arguments);
int model_partition(const std::vector<std::string>& arguments);
int model_memory(const std::vector<std::string>& arguments);
int model_epochs(const std::vector<std::string>& arguments);
int model_train(const std::vector<std::string>& arguments);
int model_limits(const std::vector<std::string>& arguments);
int model_mapping(const std::vector<std::string>& arguments);
int model_whatif(const std::vector<std::string>& arguments);
int model_compression(const std::vector<std::string>& arguments);
int model_consistency(const std::vector<std::string>& arguments);
int model_parallel(const std::vector<std::string>& arguments);
int model_largebatch(const std::vector<std::string>& arguments);
int model_dataset(const std::vector<std::string>& arguments);
int model_fleet(const std::vector<std::string>& arguments);
int model_links(const std::vector<std::string>& arguments);

// ---------------------------------------------------------------- shared by the sub-models

/// The answer: assumptions, then tables, then remarks.
class Answer {
 public:
  explicit Answer(std::string_view model) { given_.id = "given", given_.title = "GIVEN", model_ = model; }
  /// `note`: the number's origin, unless typed.
  void given(std::string key, std::string name, reports::Value value, std::string note = "");
  reports::Table& table(std::string id, std::string caption, std::vector<reports::Column> columns);
  void note(std::string text) { notes_.push_back(std::move(text)); }
  /// Prints text or JSON. Returns 0.
  int print(const VerbOptions& options);
  /// The given numbers and the tables, without the notes, which every format makes itself.
  reports::Document document() const;
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  std::string model_;
  reports::NumberLine given_;
  std::vector<reports::Table> tables_;
  std::vector<std::string> notes_;
};

/// Options of a sub-model: --json, and, if `usage` has a RUN, --world and one word, the run. Takes the example from the
/// table of sub-models. Its --help fits one screen of 24 lines of 100.
VerbOptions model_options(std::string_view name, std::string_view usage, std::string_view text);

/// Splits at commas; an empty text has one empty part.
std::vector<std::string> split_list(const std::string& text);

/// 25e6, 25MB (decimal), 25MiB. Throws ddl::Error (usage).
int64_t parse_bytes(const std::string& text);
std::vector<int64_t> parse_bytes_list(const std::string& text);  ///< separated by commas
std::vector<int64_t> parse_counts(const std::string& text);      ///< likewise, at least 1

/// A number from option `name`, at least `least` (above it, if `above`).
std::optional<double> number_option(const VerbOptions& options, const char* name, double least, bool above = false);
/// A share from 0 (above it, if `above`) to 1.
std::optional<double> share_option(const VerbOptions& options, const char* name, bool above = false);
/// As parse_bytes() reads it.
std::optional<double> bytes_option(const VerbOptions& options, const char* name);
std::optional<int64_t> count_option(const VerbOptions& options, const char* name, int64_t least = 1);
/// Throws "--NAME is needed" (usage) with `hint` if there is none.
template <class T>
T needed(const std::optional<T>& value, std::string_view name, std::string_view hint);
[[noreturn]] void missing_option(std::string_view name, std::string_view hint);
template <class T>
T needed(const std::optional<T>& value, std::string_view name, std::string_view hint) {
  if (!value) missing_option(name, hint);
  return *value;
}

reports::Value seconds_value(double seconds);

/// The recorded run, if one was named.
struct ModelRun {
  Run run;
  reports::RunView view;
  ModelRun(const std::string& name, std::optional<int64_t> world) : run(open_run(name)), view(run.db, world) {}
  ModelRun(const ModelRun&) = delete;  // the view refers to the database beside it
};
std::unique_ptr<ModelRun> maybe_run(const VerbOptions& options);

/// The origin of a link's numbers: "(fitted to 4KiB .. 64MiB, R2 0.998)".
std::string fitted_words(const models::LinkFit& fit);

/// --alpha-us, --bandwidth, --reduce, --algorithm: given, or fitted to the run.
void add_link_options(VerbOptions& options);
std::vector<std::string> algorithm_names();
/// One of algorithm_names(), as the verb declares.
models::Algorithm algorithm_option(const VerbOptions& options);
/// Adds its numbers and their origin to `answer`.
models::Link link_of(const VerbOptions& options, ModelRun* run, Answer& answer);
/// The same from typed numbers alone: alpha and beta, gamma 0 if not given.
models::Link typed_link(const VerbOptions& options, const char* alpha, const char* bandwidth, const char* reduce);

}  // namespace ddl::cli
