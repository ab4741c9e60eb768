// ddl goodput: what the wall time of a job went to, over its restarts.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "analyzer/query.h"
#include "cli/open_run.h"
#include "cli/options.h"
#include "cli/terminal.h"
#include "cli/verbs.h"
#include "core/error.h"
#include "core/number.h"
#include "reports/goodput.h"
#include "reports/json.h"
#include "reports/text.h"

namespace ddl::cli {
namespace {

constexpr size_t kMostRestarts = 1000;

double parse_price(const std::string& text) {
  const auto price = number_in<double>(text, std::chars_format::fixed);
  if (!price || !std::isfinite(*price) || *price < 0)
    throw Error(fmt::format("--price: invalid price '{}'", text), "the price of a rank for an hour, such as 2.49",
                ExitCode::kUsage);
  return *price;
}

std::vector<reports::FindingCost> costs_of(SQLite::Database& db, const std::vector<models::RunTimes>& runs) {
  std::vector<reports::FindingCost> costs;
  Query row(
      db,
      "SELECT f.id, f.sentence, f.saving_ns * max(1, coalesce((SELECT count(DISTINCT step) FROM step s JOIN process p ON p.id = s.process WHERE"
      " p.world = f.world AND step >= coalesce(a.since, step)), 0)), coalesce(f.saving_bound, ''), f.world FROM finding f LEFT JOIN"
      " finding_about a USING (position) WHERE f.saving_ns > 0 ORDER BY f.world, f.position");
  while (row.next()) {
    const auto of = std::find_if(runs.begin(), runs.end(),
                                 [&](const models::RunTimes& run) { return run.worlds.contains(row.integer(4)); });
    const models::RunTimes& run = of != runs.end() ? *of : runs.front();
    const auto workers = std::count_if(run.workers.begin(), run.workers.end(), [&](const models::WorkerTimes& worker) {
      return worker.world == row.integer(4);
    });
    costs.push_back({run.name, row.text(0), row.text(1),
                     row.real(2) * static_cast<double>(std::max<int64_t>(1, workers)),
                     reports::Value::bound_of(row.text(3))});
  }
  return costs;
}

/// Energy of a median step, summed over the GPUs whose power NVML reported.
std::optional<double> joules_per_step(SQLite::Database& db) {
  Query watts(db, "SELECT sum(mean) FROM v_node WHERE name = 'power_watts' AND world = 0");
  if (!watts.next() || watts.is_null(0)) return std::nullopt;
  Query step(db, "SELECT value FROM metric WHERE world = 0 AND id = 'step_time' AND value IS NOT NULL");
  return step.next() ? std::optional(watts.real(0) * step.real(0) * 1e-9) : std::nullopt;
}

}  // namespace

int run_goodput(const Arguments& arguments) {
  VerbOptions options(
      {.verb = "goodput",
       .usage = "[RUN...] [options]",
       .text =
           "Shows where the wall time of a job went: start-up, warm-up and compilation, productive steps, waiting, loading, checkpoints,\n"
           "stalls, steps lost since the last checkpoint, and the time between runs. Several RUNs are the restarts of one job, in any order;\n"
           "restarts inside one RUN are told apart by time (RUN #2): what begins when all before it has ended; what overlaps is one run.\n"
           "Steps are lost if the next run repeats their numbers or, where numbers begin anew, if they follow the last checkpoint.",
       .example = "  ddl goodput train.ddl\n"
                  "  ddl goodput try1.ddl try2.ddl try3.ddl --price 2.49\n"
                  "  ddl goodput *.ddl --json | jq '.goodput[] | {id, ratio}'"});
  options.add()("price", takes<std::string>("MONEY"),
                "price of a rank (GPU) for an hour: adds the cost of every part and finding")("json", "for programs");
  options.allow_words(kMostRestarts);
  if (!options.parse(arguments)) return 0;
  std::optional<double> price;
  if (const auto text = options.maybe<std::string>("price")) price = parse_price(*text);

  std::vector<std::string> names = options.words();
  if (names.empty()) names.emplace_back();
  std::vector<models::RunTimes> times;
  std::vector<reports::FindingCost> costs;
  std::optional<double> joules;
  bool waiting_known = true;
  for (const std::string& name : names) {
    Run run = open_run(name);
    std::vector<models::RunTimes> starts = models::read_run_times(run.db, run.shown);
    for (const models::RunTimes& start : starts) waiting_known &= start.waiting_known;
    const auto found = costs_of(run.db, starts);
    costs.insert(costs.end(), found.begin(), found.end());
    times.insert(times.end(), std::make_move_iterator(starts.begin()), std::make_move_iterator(starts.end()));
    if (const auto of_run = joules_per_step(run.db)) joules = of_run;
  }
  const reports::Document document =
      reports::build_goodput(models::goodput_of(std::move(times)), costs, price, joules, waiting_known);
  print_out(options.has("json") ? reports::render_json(document) : reports::render_text(document, output_options()));
  return 0;
}

}  // namespace ddl::cli
