#include "cli/scaling_input.h"

#include <fmt/format.h>

#include <algorithm>

#include "analyzer/findings/job_end.h"
#include "analyzer/models/run_facts.h"
#include "analyzer/models/scaling_table.h"
#include "analyzer/query.h"
#include "cli/model.h"
#include "core/error.h"

namespace ddl::cli {
namespace {

/// Relative half widths of the interval of the median step; none with few steps.
models::Printed with_interval(double value, SQLite::Database& db, int64_t world) {
  Query row(db, "SELECT value, lo, hi FROM metric WHERE world = ?1 AND id = 'step_time'");
  row.bind(world);
  if (!row.next() || row.is_null(1) || row.real(0) <= 0 || row.real(1) <= 0) return models::Printed::exactly(value);
  return {value, value * row.real(0) / row.real(2), value * row.real(0) / row.real(1)};
}

std::string hardware_of(SQLite::Database& db, int64_t world) {
  Query row(db,
            "SELECT group_concat(name, '; ') FROM (SELECT DISTINCT g.name FROM gpu g JOIN process p ON p.id = g.process"
            " WHERE p.world = ?1 AND g.name IS NOT NULL ORDER BY 1)");
  row.bind(world);
  return row.next() ? row.text(0) : "";
}

}  // namespace

ScalingInput scaling_from_runs(const VerbOptions& options) {
  if (options.has("weak") && options.has("strong"))
    throw Error("--weak and --strong exclude each other", "choose one", ExitCode::kUsage);
  ScalingInput input;
  input.worker = "rank";
  input.result = "throughput";
  std::vector<std::string> without_batch;
  std::map<double, int64_t> repeats;
  for (const std::string& name : options.words()) {
    ModelRun opened(name, std::nullopt);
    SQLite::Database& db = opened.view.db;
    const int64_t world = opened.view.world, ranks = std::max<int64_t>(1, opened.view.ranks);
    if (opened.view.ranks < opened.view.expected_ranks)
      throw Error(fmt::format("{}: only {} of {} ranks were recorded", opened.run.shown, opened.view.ranks,
                              opened.view.expected_ranks),
                  "leave the run out, or record it whole: ddl report loss says what is missing",
                  ExitCode::kDataMissing);
    if (const JobEnd end = job_end(db); !opened.view.has_steps && (end.rank_failed() || end.signal != 0))
      throw Error(fmt::format("{}: the job failed and marks no steps: how long it ran says nothing", opened.run.shown),
                  "leave the run out, or record it again", ExitCode::kDataMissing);
    const models::MeanStep step = models::mean_step(db, world);
    const std::optional<double> samples = models::samples_per_step(db, world);
    models::ScalingPoint& point = input.points.emplace_back();
    point.label = opened.run.shown;
    point.workers = static_cast<double>(ranks);
    point.nodes = static_cast<double>(opened.view.hosts);
    point.parts = step.split ? std::optional(step.parts) : std::nullopt;
    const double workers_per_step = options.has("weak") ? point.workers : 1;  // of as much work as the user says
    if (!samples) without_batch.push_back(point.label);
    point.global_batch = samples;
    point.throughput = with_interval(samples.value_or(workers_per_step) / step.parts.step_s, db, world);
    input.pop[point.label] = models::pop_facts(db, world);
    ++repeats[point.workers];
    Stated& said = input.stated.emplace_back();
    said["scope"] = "application";
    said["hardware"] = hardware_of(db, world);
    if (opened.view.has_steps) {
      said["steps"] = fmt::format("{}", opened.view.steps);
      said["warmup"] = fmt::format("{}", opened.view.warmup_steps);
    }
    if (point.throughput.lo < point.throughput.hi) said["interval"] = "bootstrap 95% over steps";
    if (samples) said["global_batch"] = fmt::format("{:g}", *samples);
    if (input.largest && input.largest->ranks >= ranks) continue;
    input.largest = models::RecordedScale{.ranks = ranks, .parts = step.parts};
    input.no_fit.clear();
    try {
      input.largest->samples = models::samples_of(models::measured_collectives(db, world));
      input.largest->fit = models::fit_link(input.largest->samples, models::kProjectedAlgorithm);
    } catch (const Error& error) {
      input.no_fit = fmt::format("{}: {}", point.label, error.what());
    }
  }
  for (size_t i = 0; i < input.points.size(); ++i)
    input.stated[i]["runs"] = fmt::format("{}", repeats[input.points[i].workers]);
  if (!without_batch.empty() && without_batch.size() < input.points.size())
    throw Error(fmt::format("{} does not report its samples, others do", without_batch[0]),
                "call ddl_value(\"samples\", n) in every step of each run", ExitCode::kDataMissing);
  if (!without_batch.empty() && !options.has("weak") && !options.has("strong"))
    throw Error(
        fmt::format("{} does not report its samples, so its throughput is not known", without_batch[0]),
        "call ddl_value(\"samples\", n) in every step, or give --weak (same work per rank) or --strong (same work per step)",
        ExitCode::kDataMissing);
  if (without_batch.empty() && repeats.size() > 1 && (options.has("weak") || options.has("strong")))
    throw Error("--weak and --strong are not for runs that report their samples", "leave them out: the samples decide",
                ExitCode::kUsage);
  if (!without_batch.empty()) input.result = options.has("weak") ? "ranks x steps" : "steps";
  const auto differs = [&](const auto& point) {
    return *point.nodes / point.workers != *input.points[0].nodes / input.points[0].workers;
  };
  // then a node is not a unit: the base is named by its ranks
  if (std::any_of(input.points.begin(), input.points.end(), differs))
    for (models::ScalingPoint& point : input.points) point.nodes.reset();
  return input;
}

ScalingInput scaling_from_csv(const std::string& file, const VerbOptions& options) {
  if (options.has("weak") || options.has("strong"))
    throw Error("--weak and --strong are not for CSV files",
                "give the table a column global_batch or local_batch, or --state scaling=weak", ExitCode::kUsage);
  const std::map<std::string, std::string> names = pairs_option(options, "map");
  const std::vector<std::string> known = models::scaling_column_names();
  for (const auto& [name, column] : names)
    if (std::find(known.begin(), known.end(), name) == known.end())
      throw Error(fmt::format("--map: unknown column '{}'", name), did_you_mean(name, known, "see: ddl scaling --help"),
                  ExitCode::kUsage);
  models::ScalingTable table = models::read_scaling_table(CsvTable::read(file), names);
  ScalingInput input;
  input.worker = std::move(table.worker);
  input.result = std::move(table.result);
  input.points = std::move(table.points);
  input.stated = std::move(table.stated);
  return input;
}

std::map<std::string, std::string> pairs_option(const VerbOptions& options, const char* name) {
  std::map<std::string, std::string> pairs;
  if (!options.has(name)) return pairs;
  for (const std::string& part : split_list(options.get<std::string>(name))) {
    const size_t equals = part.find('=');
    if (equals == 0 || equals == std::string::npos)
      throw Error(fmt::format("--{}: invalid pair '{}'", name, part), "NAME=VALUE, separated by commas",
                  ExitCode::kUsage);
    pairs[part.substr(0, equals)] = part.substr(equals + 1);
  }
  return pairs;
}

}  // namespace ddl::cli
