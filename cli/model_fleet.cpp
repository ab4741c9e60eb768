// ddl model fleet: what a fleet of cars collects, and how long machines train on it.
#include <fmt/format.h>

#include "analyzer/models/run_facts.h"
#include "cli/model.h"
#include "core/error.h"

namespace ddl::cli {

using reports::Unit;
using reports::Value;

int model_fleet(const std::vector<std::string>& arguments) {
  VerbOptions options = model_options(
      "fleet", "[RUN] --cars N [options]",
      "Data = cars x TB per hour x hours a day x days x the share that is kept; time = data / what a machine trains through in a day, over "
      "machines x their efficiency. That is --machine-tb-per-day, or what RUN did with --sample-bytes and --epochs: its job is one machine.");
  options.add()("cars", takes<double>("N"), "that collect")(
      "tb-per-hour", takes<double>("TB", 1), "of a car, 1e12 bytes")("hours", takes<double>("H", 8), "a day")(
      "days", takes<double>("D", 260), "of collecting")("share", takes<double>("F", 1), "that is kept, 0 to 1")(
      "machine-tb-per-day", takes<double>("TB"), "of the data set, all epochs done")(
      "machines", takes<std::string>("N,...", "1"), "that train")(
      "efficiency", takes<double>("F"),
      "of many machines, 0 to 1, as ddl scaling measures it; default: 1, which is assumed")(
      "sample-bytes", takes<std::string>("SIZE"), "with RUN: of a sample as collected")("epochs", takes<double>("E", 1),
                                                                                        "with RUN");
  if (!options.parse(arguments)) return 0;
  const auto run = maybe_run(options);
  const double share = *share_option(options, "share", true);
  const double cars = needed(number_option(options, "cars", 0, true), "cars", "e.g. --cars 100");
  const double terabytes = cars * *number_option(options, "tb-per-hour", 0, true) *
                           *number_option(options, "hours", 0, true) * *number_option(options, "days", 0, true) * share;
  const auto typed_efficiency = share_option(options, "efficiency", true);
  std::optional<double> per_day = number_option(options, "machine-tb-per-day", 0, true);
  std::string from;
  if (run && !per_day) {
    const auto throughput = models::metric_of(run->view.db, run->view.world, "throughput");
    if (!throughput)
      throw Error("the run does not report its samples",
                  "call ddl_value(\"samples\", n) in each step, or give --machine-tb-per-day", ExitCode::kDataMissing);
    const double bytes =
        needed(bytes_option(options, "sample-bytes"), "sample-bytes", "what a sample takes of the collected data");
    per_day = *throughput * 86400 * bytes * 1e-12 / *number_option(options, "epochs", 0, true);
    from = fmt::format("({:.4g} samples per second in the run)", *throughput);
  }
  Answer answer("fleet");
  answer.given("data_tb", "data set, TB", Value::number(terabytes));
  if (per_day) answer.given("machine_tb_per_day", "a machine trains through, TB a day", Value::number(*per_day), from);
  answer.given("efficiency_ratio", "efficiency", Value::ratio(typed_efficiency.value_or(1)),
               typed_efficiency ? "" : "(assumed)");
  auto& table = answer.table("fleet", "Days until it is trained on",
                             {{"machines", "machines", Unit::kCount}, {"days", "days", Unit::kNumber}});
  if (per_day) {
    for (const int64_t machines : parse_counts(options.get<std::string>("machines"))) {
      const double efficiency = machines == 1 ? 1 : typed_efficiency.value_or(1);
      table.rows.push_back(
          {Value::count(machines), Value::number(terabytes / (*per_day * static_cast<double>(machines) * efficiency))});
    }
  }
  table.when_empty = "Not known: give --machine-tb-per-day, or a recorded run.";
  if (!typed_efficiency)
    answer.note("Several machines are assumed to scale perfectly: give --efficiency as measured by ddl scaling.");
  return answer.print(options);
}

}  // namespace ddl::cli
