// Axes of parallelism, rank by rank: for whom the others waited on each axis, and what ranks sent in all-to-alls.

#include "analyzer/query.h"
#include "reports/overview.h"

namespace ddl::reports {

Table axis_blame_table(const RunView& run) {
  Table table{
      .id = "axis_blame",
      .caption = "Who was waited for, axis by axis: in collectives the last rank to enter, whatever made it late",
      .columns = {{"wait_ratio", "Wait(%)", Unit::kRatio},
                  {"wait_ns", "Wait", Unit::kDuration},
                  {"longest_ns", "Longest", Unit::kDuration, 2},
                  {"instances", "Collectives", Unit::kCount, 1},
                  {"late", "Late rank", Unit::kCount},
                  {"axis", "Axis", Unit::kText}},
      .when_empty =
          "No rank waited on a communicator that serves an axis, or its waiting is not known (ddl report loss)."};
  if (run.negotiates()) table.caption = "Who was waited for, axis by axis: the last rank to be ready for a reduction";
  Query row(run.db, R"(
    SELECT sum(l.wait_ns) * 1.0 / sum(sum(l.wait_ns)) OVER (PARTITION BY a.axis), sum(l.wait_ns) AS wait_ns, max(l.longest_ns),
           sum(l.instances), l.rank, a.axis, sum(sum(l.wait_ns)) OVER (PARTITION BY a.axis) AS all_ns
    FROM late l
    JOIN communicator_axis a ON a.communicator = l.comm
    WHERE l.world = ?
    GROUP BY a.axis, l.rank
    HAVING sum(l.wait_ns) > 0
    ORDER BY all_ns DESC, a.axis, wait_ns DESC, l.rank)");
  row.bind(run.world);
  while (row.next()) table.rows.push_back(cells(row, table));
  return table;
}

Table traffic_table(const RunView& run) {
  Table table{
      .id = "traffic",
      .caption =
          "All-to-alls, rank by rank: with uneven bytes the others wait for data, with even ones for a slow rank",
      .columns = {{"bytes", "Sent", Unit::kBytes, 9, "NO_DATA"},
                  {"mean_ratio", "Of mean", Unit::kRatio, 9, ""},
                  {"calls", "Calls", Unit::kCount, 3},
                  {"wait_ns", "Wait", Unit::kDuration},
                  {"xfer_ns", "Transfer", Unit::kDuration, 2},
                  {"rank", "Rank", Unit::kCount},
                  {"axis", "Axis", Unit::kText},
                  {"op", "Name", Unit::kText, 4},
                  {"comm", "Communicator", Unit::kText, 1}},
      .when_empty = "The job called no all-to-all."};
  // v_traffic goes through all events.
  if (!Query(run.db, "SELECT 1 FROM collective_group g JOIN op o ON o.id = g.op WHERE lower(o.name) LIKE '%alltoall%'")
           .next())
    return table;
  Query row(run.db, R"(
    SELECT bytes, mean_ratio, calls, wait_ns, xfer_ns, rank, axis, op, comm, why
    FROM v_traffic
    WHERE world = ? AND lower(op) LIKE '%alltoall%' AND rank IS NOT NULL
    ORDER BY comm, op, bytes DESC, rank)");
  row.bind(run.world);
  while (row.next()) {
    std::vector<Value> values = cells(row, table, row.is_null(0) ? "NO_DATA" : "ZERO_DENOM");
    for (const size_t part : {size_t{3}, size_t{4}})
      if (values[part].is_absent()) values[part] = Value::absent(Unit::kDuration, row.text(9));
    add_row(run, table, std::move(values));
  }
  return table;
}

}  // namespace ddl::reports
