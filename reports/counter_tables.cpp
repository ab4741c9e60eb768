// What was counted in steps, phases and layers (ddl record --counters), and why something was not.
#include "analyzer/query.h"
#include "reports/overview.h"

namespace ddl::reports {

Table counters_table(const RunView& run) {
  Table table{.id = "counters",
              .caption = "Counters, summed over ranks, whole run; ranges inside are included",
              .columns = {{"counter", "Counter", Unit::kText},
                          {"value", "Value", Unit::kCount},
                          {"calls", "Calls", Unit::kCount, 3},
                          {"per_call", "Per call", Unit::kCount, 4},
                          {"source", "Source", Unit::kText, 5},
                          {"kind", "Range", Unit::kText},
                          {"phase", "Phase", Unit::kText},
                          {"layer", "Name", Unit::kText}},
              .when_empty = "No counters were recorded. Name some: ddl record --counters PAPI_TOT_INS,PAPI_TOT_CYC."};
  Query row(run.db,
            "SELECT counter, sum(value), sum(calls), max(coalesce(source, why)), kind, phase, layer FROM v_counter WHERE world = ?"
            " GROUP BY counter, kind, phase, layer ORDER BY counter, kind = 'step' DESC, sum(value) DESC, phase, layer");
  row.bind(run.world);
  const auto text = [&](int column) { return cell(row, column, Unit::kText, "NOT_APPLICABLE"); };
  while (row.next()) {
    const bool known = !row.is_null(1) && row.integer(2) > 0;
    const auto count = [&](int64_t n) { return known ? Value::count(n) : Value::absent(Unit::kCount, "NO_DATA"); };
    table.rows.push_back({text(0), count(known ? row.integer(1) : 0), count(known ? row.integer(2) : 0),
                          count(known ? row.integer(1) / row.integer(2) : 0), text(3), text(4), text(5), text(6)});
  }
  return table;
}

}  // namespace ddl::reports
