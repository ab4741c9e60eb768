// Steps, and phases, layers and operators in them.
#include <fmt/format.h>

#include <optional>

#include "reports/trace/lanes.h"
#include "reports/trace/perfetto_tracks.h"

namespace ddl::reports {

void write_steps(PerfettoTracks& tracks) {
  Query row(
      tracks.db,
      "SELECT t.process, s.step, s.start_ns, s.duration_ns, p.end_ns, a.compute_ns, a.comm_ns, a.exposed_ns, a.wait_ns, a.xfer_ns,"
      " a.input_ns, a.bubble_ns, a.why FROM temp.trace_process t CROSS JOIN process p ON p.id = t.process CROSS JOIN step s ON"
      " s.process = t.process LEFT JOIN step_part a ON a.process = s.process AND a.step = s.step AND s.measured"
      " WHERE t.first_step IS NULL OR (s.measured AND s.step BETWEEN t.first_step AND t.last_step) ORDER BY t.process, s.start_ns, s.duration_ns DESC");
  constexpr ArgumentColumn kParts[] = {{"compute_ns"}, {"comm_ns"},  {"exposed_ns"}, {"wait_ns"},
                                       {"xfer_ns"},    {"input_ns"}, {"bubble_ns"},  {"why", true}};
  std::optional<Lanes> lanes;
  for (int64_t current = 0; row.next();) {
    if (row.integer(0) != current) {
      current = row.integer(0);
      lanes.emplace(tracks.packets, tracks.process_tracks.at(current), "steps",
                    PerfettoTracks::order(TrackGroup::kSteps));
    }
    const bool ended = !row.is_null(3);
    const int64_t start_ns = row.integer(2),
                  end_ns = ended ? start_ns + row.integer(3) : std::max(start_ns, row.integer(4));
    Arguments arguments;
    for (int i = 0; const ArgumentColumn& part : kParts) add_argument(arguments, part, row, 5 + i++);
    const std::string name = fmt::format("step {}{}", row.integer(1), ended ? "" : " (never ended)");
    lanes->add(start_ns, end_ns,
               {.category = "step", .name = name, .name_is_unique = true, .arguments = std::move(arguments)});
  }
}

void write_ranges(PerfettoTracks& tracks) {
  Query row(
      tracks.db,
      "SELECT t.process, e.thread, r.kind, r.name, e.step, e.start_ns, e.duration_ns, e.mpi_ns, e.seq, r.phase"
      " FROM temp.trace_process t CROSS JOIN range_event e ON e.process = t.process JOIN region r ON r.id = e.region WHERE " +
          in_window("e") + " ORDER BY t.process, e.thread, e.start_ns, e.duration_ns DESC, e.rowid DESC");
  std::optional<NestedLanes> lanes;
  for (int64_t process = 0, thread = 0; row.next(); tracks.rows_done(1)) {
    if (row.integer(0) != process || row.integer(1) != thread || !lanes) {
      if (lanes) lanes->finish();
      process = row.integer(0);
      thread = row.integer(1);
      lanes.emplace(tracks.packets, tracks.process_tracks.at(process), "layers, " + tracks.thread_name(process, thread),
                    PerfettoTracks::order(TrackGroup::kRanges, thread));
    }
    Arguments arguments;
    add_argument(arguments, {"step"}, row, 4);
    add_argument(arguments, {"phase", true}, row, 9);
    add_argument(arguments, {"mpi_ns"}, row, 7);
    add_argument(arguments, {"seq"}, row, 8);
    const std::string kind = row.text(2), name = row.text(3);
    lanes->add(row.integer(5), row.integer(5) + row.integer(6),
               {.category = kind, .name = name, .arguments = std::move(arguments)});
  }
  if (lanes) lanes->finish();
}

}  // namespace ddl::reports
