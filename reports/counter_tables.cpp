// What was counted in steps, phases and layers (ddl record --counters), and why something was not.
#include "analyzer/query.h"
#include "reports/overview.h"

namespace ddl::reports {

Table counters_table(const RunView& run) {
  Table table{.id = "counters",
              .caption = "Counters, summed over ranks, whole run; ranges inside are included",
              .columns = {{"counter", "Counter", Unit::kText},
                          {"value", "Value", Unit::kCount, 9, "NO_DATA"},
                          {"calls", "Calls", Unit::kCount, 3, "NO_DATA"},
                          {"per_call", "Per call", Unit::kCount, 4, "NO_DATA"},
                          {"source", "Source", Unit::kText, 5},
                          {"kind", "Range", Unit::kText},
                          {"phase", "Phase", Unit::kText},
                          {"layer", "Name", Unit::kText}},
              .when_empty = "No counters were recorded. Name some: ddl record --counters PAPI_TOT_INS,PAPI_TOT_CYC."};
  Query row(run.db, R"(
    SELECT counter, iif(sum(calls) > 0, sum(value), NULL), iif(sum(value) IS NULL, NULL, nullif(sum(calls), 0)),
           sum(value) / nullif(sum(calls), 0), max(coalesce(source, why)), kind, phase, layer
    FROM v_counter
    WHERE world = ?
    GROUP BY counter, kind, phase, layer
    ORDER BY counter, kind = 'step' DESC, sum(value) DESC, phase, layer)");
  row.bind(run.world);
  while (row.next()) table.rows.push_back(cells(row, table));
  return table;
}

}  // namespace ddl::reports
