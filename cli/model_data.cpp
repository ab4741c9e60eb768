// ddl model dataset, ddl model links: how much data an error needs; what links carry.
#include <fmt/format.h>

#include <cmath>
#include <string>
#include <tuple>
#include <vector>

#include "analyzer/csv_table.h"
#include "analyzer/models/dataset_law.h"
#include "cli/model.h"
#include "core/error.h"
#include "core/number.h"
#include "store/ingest/gpu_facts.h"

namespace ddl::cli {
namespace {

using reports::Unit;
using reports::Value;

constexpr const char* kDatasetColumns = "columns samples, error: of the same network trained on parts of the data";
/// Beyond so many times the largest data set that was trained on a fit is a guess.
constexpr double kFarBeyondData = 10;

std::vector<double> numbers_of(const std::string& text, const char* option) {
  std::vector<double> numbers;
  for (const std::string& part : split_list(text)) {
    const auto value = number_in<double>(part);
    if (!(value > 0) || !std::isfinite(*value))
      throw Error(fmt::format("--{}: invalid number '{}'", option, part), "numbers above 0, separated by commas",
                  ExitCode::kUsage);
    numbers.push_back(*value);
  }
  return numbers;
}

struct NamedLink {
  std::string name;
  double bytes_per_second;  ///< of each direction
  const char* note;
};

std::vector<NamedLink> known_links() {
  std::vector<NamedLink> links;
  for (const char* rate : {"8.0 GT/s x16", "16.0 GT/s x16", "32.0 GT/s x16"})
    if (const auto link = store::pcie_link(rate)) links.push_back({link->name, link->bytes_per_second, "one device"});
  // As NVML numbers them, with the line rate that drivers tell, MB/s.
  for (const auto& [count, version, mbps, note] : {std::tuple(4U, 1U, 0U, "P100"),
                                                   {6U, 2U, 25781U, "V100"},
                                                   {12U, 4U, 0U, "A100"},
                                                   {18U, 6U, 26562U, "H100"},
                                                   {18U, 7U, 53125U, "B200"}}) {
    const store::Link link = store::nvlink(count, version, mbps);
    links.push_back({link.name, link.bytes_per_second, note});
  }
  for (const auto& [name, gbit] : {std::pair("FDR InfiniBand", 54.54),
                                   {"EDR InfiniBand", 100.0},
                                   {"HDR InfiniBand", 200.0},
                                   {"NDR InfiniBand", 400.0}})
    links.push_back({name, gbit * 1e9 / 8, "a port of four lanes"});
  for (const int gbit : {10, 25, 100, 200, 400})
    links.push_back({fmt::format("{} Gb/s Ethernet", gbit), gbit * 1e9 / 8, "a port"});
  return links;
}

}  // namespace

int model_dataset(const std::vector<std::string>& arguments) {
  VerbOptions options = model_options(
      "dataset", "--csv FILE [--error E,...] [--samples N,...]",
      "Fits e(m) = a m^b + c, the error on test data by the samples trained on (Hestness et al., 1712.00409): which error more data would "
      "give, and how much data an error would need.");
  options.add()("csv", takes<std::string>("FILE"), kDatasetColumns)(
      "error", takes<std::string>("E,..."), "how much data would they need?")("samples", takes<std::string>("N,..."),
                                                                              "which error would they give?");
  if (!options.parse(arguments)) return 0;
  const CsvTable csv = CsvTable::read(needed(options.maybe<std::string>("csv"), "csv", kDatasetColumns));
  std::vector<models::DataPoint> points;
  for (size_t r = 0; r < csv.rows(); ++r) points.push_back({csv.number(r, "samples"), csv.number(r, "error")});
  const models::DatasetLaw law = models::fit_dataset_law(points);
  Answer answer("dataset");
  auto& fit = answer.table("fit", "Fit of e(m) = a m^b + c",
                           {{"a", "a", Unit::kNumber},
                            {"b", "b", Unit::kNumber},
                            {"c", "c", Unit::kNumber},
                            {"r2", "R2", Unit::kNumber},
                            {"worst_residual", "worst residual", Unit::kNumber}});
  fit.rows.push_back({Value::number(law.a), Value::number(law.b), Value::number(law.c), Value::number(law.r2),
                      Value::number(law.worst_residual)});
  if (options.has("error") || options.has("samples")) {
    auto& table = answer.table("dataset", "Data and errors",
                               {{"samples", "samples", Unit::kNumber},
                                {"error", "error", Unit::kNumber},
                                {"growth_factor", "x data", Unit::kNumber}});
    bool far = false, possible = options.has("samples");
    double impossible = 0;
    const auto add = [&](double samples, double error) {
      table.rows.push_back(
          {Value::number(samples), Value::number(error), Value::number(samples / law.largest_samples)});
      far |= samples > kFarBeyondData * law.largest_samples;
    };
    if (const auto text = options.maybe<std::string>("error"))
      for (const double error : numbers_of(*text, "error")) {
        if (error > law.c) {
          add(law.samples(error), error);
          possible = true;
        } else {
          table.rows.push_back({Value::absent(Unit::kNumber, "NOT_APPLICABLE"), Value::number(error),
                                Value::absent(Unit::kNumber, "NOT_APPLICABLE")});
          answer.note(fmt::format("No data set is large enough for an error of {:g}: the fit levels off at {:g}.",
                                  error, law.c));
          impossible = error;
        }
      }
    if (const auto text = options.maybe<std::string>("samples"))
      for (const double samples : numbers_of(*text, "samples")) add(samples, law.error(samples));
    if (!possible) law.samples(impossible);  // throws: nothing is left to answer
    if (far)
      answer.note(fmt::format("More than {:g} times the largest data set of the fit ({:g}): a guess.", kFarBeyondData,
                              law.largest_samples));
  }
  answer.note(
      law.is_plausible()
          ? "Exponents from -0.35 to -0.07 are what Hestness et al. saw in four domains."
          : fmt::format(
                "An exponent of {:.2f} is outside -0.35 to -0.07, which Hestness et al. saw in four domains: are the "
                "sizes in the range where more data help steadily?",
                law.b));
  return answer.print(options);
}

int model_links(const std::vector<std::string>& arguments) {
  VerbOptions options = model_options(
      "links", "[--bytes N]",
      "Links by what they carry in each direction and in both together, which tables of vendors mix. Line rates after encoding of lanes, before "
      "headers: transfers reach 80 to 95 % of them.");
  options.add()("bytes", takes<std::string>("N", "1GB"), "of which the time in one direction is shown");
  if (!options.parse(arguments)) return 0;
  const int64_t bytes = parse_bytes(options.get<std::string>("bytes"));
  Answer answer("links");
  answer.given("bytes", "bytes", Value::bytes(bytes));
  auto& table = answer.table("links", "Links",
                             {{"link", "link", Unit::kText},
                              {"direction_bytes_per_second", "each direction", Unit::kBandwidth},
                              {"both_bytes_per_second", "both together", Unit::kBandwidth},
                              {"time_ns", "bytes take", Unit::kDuration},
                              {"note", "of", Unit::kText}});
  for (const NamedLink& link : known_links())
    table.rows.push_back({Value::text(link.name), Value::bandwidth(link.bytes_per_second),
                          Value::bandwidth(2 * link.bytes_per_second),
                          seconds_value(static_cast<double>(bytes) / link.bytes_per_second), Value::text(link.note)});
  answer.note(
      "IBM's slides print PCIe 3.0 as 32 GB/s, both directions, beside NVLink 1.0 and 2.0 as 80 and 150, one: in one direction they are 5.1 and 9.5 "
      "times as fast, not 2.5 and 4.7.");
  return answer.print(options);
}

}  // namespace ddl::cli
