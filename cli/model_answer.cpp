// What the sub-models share: reading numbers and runs, printing the answer.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "analyzer/models/run_facts.h"
#include "cli/model.h"
#include "cli/terminal.h"
#include "core/error.h"
#include "core/number.h"
#include "reports/format.h"
#include "reports/json.h"
#include "reports/text.h"

namespace ddl::cli {
namespace {

[[noreturn]] void bad_option(std::string_view name, std::string_view text, std::string_view wanted) {
  throw Error(fmt::format("--{}: invalid value '{}'", name, text), fmt::format("give {}", wanted), ExitCode::kUsage);
}

}  // namespace

void Answer::given(std::string key, std::string name, reports::Value value, std::string note) {
  given_.items.push_back({std::move(key), std::move(name), std::move(value), std::move(note)});
}

reports::Table& Answer::table(std::string id, std::string caption, std::vector<reports::Column> columns) {
  tables_.push_back({.id = std::move(id), .caption = std::move(caption), .columns = std::move(columns)});
  return tables_.back();
}

reports::Document Answer::document() const {
  reports::Document document;
  if (!given_.items.empty()) document.lines.push_back(given_);
  document.tables = tables_;
  return document;
}

int Answer::print(const VerbOptions& options) {
  if (options.has("json")) {
    print_out(reports::render_json(model_, document(), notes_));
    return 0;
  }
  const reports::TextOptions text = output_options();
  std::string out = reports::render_text(document(), text);
  if (!notes_.empty()) out += "\n";
  for (const std::string& note : notes_)
    for (const std::string& line : reports::wrap(note, text.width.value_or(reports::kComfortable))) out += line + "\n";
  print_out(out);
  return 0;
}

std::vector<std::string> split_list(const std::string& text) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == ',') {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

int64_t parse_bytes(const std::string& text) {
  constexpr std::pair<std::string_view, double> kUnits[] = {
      {"", 1}, {"B", 1}, {"kB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"KiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", 0x1p30}};
  std::string_view unit = text;
  if (const auto number = take_number<double>(unit); number >= 0)
    for (const auto& [name, factor] : kUnits)
      if (unit == name && *number * factor < 1e18) return std::llround(*number * factor);
  bad_option("bytes", text, "a size such as 25e6, 25MB or 25MiB");
}

std::vector<int64_t> parse_bytes_list(const std::string& text) {
  std::vector<int64_t> sizes;
  for (const std::string& part : split_list(text)) sizes.push_back(parse_bytes(part));
  return sizes;
}

std::vector<int64_t> parse_counts(const std::string& text) {
  std::vector<int64_t> counts;
  for (const std::string& part : split_list(text)) {
    const auto count = number_in<int64_t>(part);
    if (!count || *count < 1)
      throw Error(fmt::format("invalid count '{}'", part), "whole numbers from 1, separated by commas",
                  ExitCode::kUsage);
    counts.push_back(*count);
  }
  return counts;
}

std::optional<double> number_option(const VerbOptions& options, const char* name, double least, bool above) {
  const auto value = options.maybe<double>(name);
  if (value && (!std::isfinite(*value) || *value < least || (above && *value == least)))
    bad_option(name, fmt::format("{}", *value), fmt::format("a number {} {}", above ? "above" : "from", least));
  return value;
}

std::optional<double> share_option(const VerbOptions& options, const char* name, bool above) {
  const auto value = number_option(options, name, 0, above);
  if (value > 1) bad_option(name, fmt::format("{}", *value), "a share between 0 and 1");
  return value;
}

std::optional<double> bytes_option(const VerbOptions& options, const char* name) {
  const auto text = options.maybe<std::string>(name);
  return text ? std::optional(static_cast<double>(parse_bytes(*text))) : std::nullopt;
}

std::optional<int64_t> count_option(const VerbOptions& options, const char* name, int64_t least) {
  const auto value = options.maybe<int64_t>(name);
  if (value && *value < least) bad_option(name, fmt::format("{}", *value), fmt::format("a number from {}", least));
  return value;
}

void missing_option(std::string_view name, std::string_view hint) {
  throw Error(fmt::format("--{} is needed", name), std::string(hint), ExitCode::kUsage);
}

reports::Value seconds_value(double seconds) { return reports::Value::duration_ns(std::llround(seconds * 1e9)); }

std::unique_ptr<ModelRun> maybe_run(const VerbOptions& options) {
  if (options.words().empty()) return nullptr;
  return std::make_unique<ModelRun>(options.words()[0], options.maybe<int64_t>("world"));
}

std::vector<std::string> algorithm_names() {
  std::vector<std::string> names;
  for (const models::Algorithm algorithm : models::kAlgorithms) names.emplace_back(models::name_of(algorithm));
  return names;
}

void add_link_options(VerbOptions& options) {
  options.add()("alpha-us", takes<double>("US"), "latency of a message")("bandwidth", takes<double>("GB/S"),
                                                                         "1/beta: of one rank's link, one direction")(
      "reduce", takes<double>("GB/S"), "1/gamma: reducing; default: free, or inside beta")(
      "algorithm", takes<std::string>("NAME", "ring"),
      "what the run's allreduce does, for the fit: parameter_server, tree, butterfly, rabenseifner, ring");
  options.one_of("algorithm", algorithm_names());
  options.one_row({"alpha-us", "bandwidth"}, "latency of a message; what a rank's link carries in one direction");
  options.one_row({"reduce", "algorithm"}, "speed of reducing, else free; how RUN's allreduces send, else ring");
}

models::Algorithm algorithm_option(const VerbOptions& options) {
  const std::string word = options.get<std::string>("algorithm");
  return *std::find_if(std::begin(models::kAlgorithms), std::end(models::kAlgorithms),
                       [&](models::Algorithm algorithm) { return word == models::name_of(algorithm); });
}

models::Link typed_link(const VerbOptions& options, const char* alpha, const char* bandwidth, const char* reduce) {
  constexpr const char* kHint = "latency and bandwidth of the link, or a recorded run to fit them from";
  const double alpha_us = needed(number_option(options, alpha, 0), alpha, kHint);
  const double gb_per_s = needed(number_option(options, bandwidth, 0, true), bandwidth, kHint);
  const auto reduce_gb_per_s = number_option(options, reduce, 0, true);
  return {alpha_us * 1e-6, 1e-9 / gb_per_s, reduce_gb_per_s ? 1e-9 / *reduce_gb_per_s : 0};
}

std::string fitted_words(const models::LinkFit& fit) {
  return fmt::format("(fitted to {} .. {}, R2 {:.3f})", reports::size_text(std::llround(fit.from_bytes)),
                     reports::size_text(std::llround(fit.to_bytes)), fit.r2);
}

models::Link link_of(const VerbOptions& options, ModelRun* run, Answer& answer) {
  const bool typed = options.has("alpha-us") || options.has("bandwidth");
  models::Link link;
  std::string from;
  if (typed || run == nullptr) {
    link = typed_link(options, "alpha-us", "bandwidth", "reduce");
  } else {
    const auto reduce = number_option(options, "reduce", 0, true);
    const auto samples = models::samples_of(models::measured_collectives(run->view.db, run->view.world));
    const models::LinkFit fit =
        models::fit_link(samples, algorithm_option(options), reduce ? std::optional(1e-9 / *reduce) : std::nullopt);
    link = fit.link;
    from = fitted_words(fit);
  }
  answer.given("alpha_ns", "latency", seconds_value(link.alpha_s), from);
  answer.given("bandwidth_bytes_per_second", "bandwidth", reports::Value::bandwidth(1 / link.beta_s_per_byte), from);
  if (link.gamma_s_per_byte > 0) {
    answer.given("reduce_bytes_per_second", "reducing", reports::Value::bandwidth(1 / link.gamma_s_per_byte));
  }
  return link;
}

}  // namespace ddl::cli
