#include "analyzer/models/scaling_table.h"

#include <fmt/format.h>

#include <optional>
#include <span>
#include <string_view>

#include "core/error.h"

namespace ddl::models {
namespace {

enum class Result { kRate, kSpeedup, kTime, kStep };

struct ResultColumn {
  std::string_view name;
  Result result;
  double seconds;  ///< of one unit
};
constexpr ResultColumn kResults[] = {
    {"speedup", Result::kSpeedup, 0},    {"throughput", Result::kRate, 0},   {"images_per_s", Result::kRate, 0},
    {"samples_per_s", Result::kRate, 0}, {"tokens_per_s", Result::kRate, 0}, {"step_s", Result::kStep, 1},
    {"step_ms", Result::kStep, 1e-3},    {"time_s", Result::kTime, 1},       {"time_min", Result::kTime, 60},
};

struct SizeColumn {
  std::string_view name, worker;
};
constexpr SizeColumn kSizes[] = {
    {"gpus", "GPU"}, {"accelerators", "accelerator"}, {"ranks", "rank"}, {"workers", "worker"}};
constexpr std::string_view kSeries[] = {"series", "platform", "model"};
constexpr std::string_view kOthers[] = {"nodes", "global_batch", "local_batch", "epoch_s", "efficiency"};

class Reader {
 public:
  Reader(const CsvTable& csv, const std::map<std::string, std::string>& names) : csv_(csv), names_(names) {
    for (const auto& [name, column] : names)
      if (!csv.has(column))
        throw Error(fmt::format("{} has no column '{}' for {}", csv.name(), column, name),
                    "--map NAME=COLUMN names a column of its header", ExitCode::kUsage);
  }

  std::optional<std::string> column(std::string_view name) const {
    if (const auto given = names_.find(std::string(name)); given != names_.end()) return given->second;
    for (const std::string& candidate : {std::string(name), std::string(name) + "_printed"})
      if (csv_.has(candidate)) return candidate;
    return std::nullopt;
  }

  ScalingTable read() const {
    ScalingTable table;
    const SizeColumn* size = first<SizeColumn>(kSizes);
    if (!size)
      throw Error(csv_.name() + ": no column with the number of GPUs",
                  "name it gpus, accelerators, ranks or workers, or use --map; see ddl scaling --help",
                  ExitCode::kUsage);
    const ResultColumn* result = first<ResultColumn>(kResults);
    if (!result)
      throw Error(csv_.name() + ": no column with results",
                  "name it speedup, throughput, time_s, ..., or use --map; see ddl scaling --help", ExitCode::kUsage);
    const std::optional<std::string> global = column("global_batch"), local = column("local_batch");
    if (result->result == Result::kStep && !global && !local)
      throw Error(csv_.name() + ": times of steps need their batch",
                  "a column global_batch or local_batch; or time_s: the same work in less time", ExitCode::kUsage);
    table.worker = size->worker;
    table.result = *column(result->name);
    for (size_t r = 0; r < csv_.rows(); ++r) {
      ScalingPoint& point = table.points.emplace_back();
      point.workers = csv_.number(r, *column(size->name));
      if (const auto nodes = number(r, "nodes")) point.nodes = *nodes;
      point.global_batch = number(r, "global_batch");
      if (!point.global_batch && local)
        if (const auto batch = number(r, "local_batch")) point.global_batch = *batch * point.workers;
      point.epoch_s = number(r, "epoch_s");
      point.throughput = throughput(r, *result, point);
      if (result->result == Result::kTime) point.time_s = csv_.number(r, table.result) * result->seconds;
      if (const auto quoted = column("efficiency"); quoted && !csv_.text(r, *quoted).empty())
        point.quoted_efficiency = csv_.text(r, *quoted);
      for (const std::string_view name : kSeries)
        if (const auto of = column(name))
          point.series.append(point.series.empty() ? "" : ", ").append(csv_.text(r, *of));
      table.stated.push_back(stated(r));
    }
    return table;
  }

 private:
  template <class T>
  const T* first(std::span<const T> columns) const {
    for (const T& one : columns)
      if (column(one.name)) return &one;
    return nullptr;
  }

  /// Nothing where the cell is empty.
  std::optional<double> number(size_t row, std::string_view name) const {
    const auto of = column(name);
    return of && !csv_.text(row, *of).empty() ? std::optional(csv_.number(row, *of)) : std::nullopt;
  }

  Printed throughput(size_t row, const ResultColumn& result, const ScalingPoint& point) const {
    const std::string column_name = *column(result.name);
    csv_.number(row, column_name);  // or it throws with the place
    const Printed printed = Printed::parse(csv_.text(row, column_name));
    switch (result.result) {
      case Result::kRate:
        return printed;
      case Result::kSpeedup:  // 1 is the base's by definition, whatever its digits
        return printed.value == 1 ? Printed::exactly(1) : printed;
      case Result::kTime:
        return Printed::exactly(1 / result.seconds) / printed;
      case Result::kStep:
        break;
    }
    if (!point.global_batch)
      throw Error(fmt::format("{}: row {} has no batch", csv_.name(), row + 1),
                  "times of steps need global_batch or local_batch in every row", ExitCode::kDataMissing);
    return Printed::exactly(*point.global_batch / result.seconds) / printed;
  }

  Stated stated(size_t row) const {
    Stated said;
    for (const LintKey& key : lint_keys())
      if (const auto of = column(key.key)) said[std::string(key.key)] = csv_.text(row, *of);
    return said;
  }

  const CsvTable& csv_;
  const std::map<std::string, std::string>& names_;
};

}  // namespace

std::vector<std::string> scaling_column_names() {
  std::vector<std::string> names;
  for (const SizeColumn& size : kSizes) names.emplace_back(size.name);
  for (const ResultColumn& result : kResults) names.emplace_back(result.name);
  names.insert(names.end(), std::begin(kOthers), std::end(kOthers));
  names.insert(names.end(), std::begin(kSeries), std::end(kSeries));
  for (const LintKey& key : lint_keys()) names.emplace_back(key.key);
  return names;
}

ScalingTable read_scaling_table(const CsvTable& csv, const std::map<std::string, std::string>& names) {
  return Reader(csv, names).read();
}

}  // namespace ddl::models
