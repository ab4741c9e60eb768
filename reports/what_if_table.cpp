// What a step would take less if operators took less, by a replay of the steps: on the critical path alone each is a
// bound.
#include <fmt/format.h>

#include <cmath>
#include <optional>

#include "analyzer/models/replay_operators.h"
#include "analyzer/models/replay_run.h"
#include "analyzer/passes/catalog.h"
#include "core/error.h"
#include "reports/format.h"
#include "reports/overview.h"

namespace ddl::reports {
namespace {

constexpr size_t kMostOperators = 12;

}  // namespace

Table what_if_table(const RunView& run) {
  Table table{.id = "what_if",
              .caption = "What a step would gain if an operator took less time, those with most on the critical path",
              .columns = {{"path_ns", "On path", Unit::kDuration},
                          {"operations", "Operations", Unit::kCount, 3},
                          {"halved_ns", "Halved gains", Unit::kDuration},
                          {"removed_ns", "Without it", Unit::kDuration},
                          {"removed_ratio", "Of step", Unit::kRatio, 4},
                          {"name", "Operator", Unit::kText}},
              .when_empty = "No GPU activity was recorded in a steady step."};
  std::optional<models::OperatorReplay> replay;
  try {
    const Catalog catalog(run.db);
    replay.emplace(run.db, catalog, run.world);
  } catch (const Error& error) {
    table.when_empty = fmt::format("Nothing can be replayed: {}", error.what());
    return table;
  }
  const auto duration = [](double seconds) { return Value::duration_ns(std::llround(std::max(0.0, seconds) * 1e9)); };
  for (const models::OperatorOnPath& o : models::operators_on_path(run.db, run.world, kMostOperators)) {
    const double removed_s = replay->saving_s(o.is_of, 0);
    add_row(run, table,
            {Value::duration_ns(std::llround(o.path_ns)),
             Value::count(replay->operations(o.is_of) / std::max<int64_t>(1, replay->steps())),
             duration(replay->saving_s(o.is_of, 0.5)), duration(removed_s),
             Value::ratio(std::max(0.0, removed_s) / replay->replayed_step_s()), Value::text(o.name)});
  }
  table.note = fmt::format(
      "replayed, a step takes {}; recorded, {}. What gains less than it has on the path leaves another path the longest",
      short_duration(std::llround(replay->replayed_step_s() * 1e9)),
      short_duration(std::llround(replay->recorded_step_s() * 1e9)));
  if (std::abs(replay->replayed_step_s() / replay->recorded_step_s() - 1) > models::kFarFromRecorded)
    table.note += ". Something that is not in the replay holds the ranks up: take the answers with that much salt";
  return table;
}

}  // namespace ddl::reports
