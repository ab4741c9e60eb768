#include "reports/trace/traces.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/number.h"
#include "reports/format.h"
#include "reports/trace/perfetto_tracks.h"

namespace ddl::reports {
namespace {

int64_t integer(SQLite::Database& db, const std::string& sql) {
  Query row(db, sql);
  return row.next() ? row.integer(0) : 0;
}

/// Clocks that were put right may have moved something before the run's zero; the format knows no negative times.
int64_t origin(SQLite::Database& db) {
  return integer(
      db,
      "SELECT min(0, (SELECT coalesce(min(start_ns), 0) FROM process), (SELECT coalesce(min(start_ns), 0) FROM event), (SELECT "
      "coalesce(min(start_ns), 0) FROM gpu_event), (SELECT coalesce(min(start_ns), 0) FROM range_event), (SELECT "
      "coalesce(min(start_ns), 0) FROM step), (SELECT coalesce(min(time_ns), 0) FROM node_sample), (SELECT "
      "coalesce(min(time_ns), 0) FROM value))");
}

std::string process_name(const RunView& run, const TraceProcess& p) {
  std::string name = p.rank ? fmt::format("rank {}", *p.rank) : "process without a rank";
  if (run.worlds > 1) name = fmt::format("world {} {}", run.world, name);
  name += fmt::format(" on {}", p.host);
  if (p.ended == "lost" || p.ended == "aborted") name += fmt::format(" ({})", p.ended);
  return name;
}

std::vector<std::string> labels(const TraceProcess& p) {
  std::vector<std::string> labels = {fmt::format("pid {}", p.pid), fmt::format("ended: {}", p.ended)};
  if (p.sigma_ns && *p.sigma_ns > 0)
    labels.push_back(fmt::format("clock error {}", short_duration(static_cast<int64_t>(*p.sigma_ns))));
  if (!p.sigma_ns) labels.emplace_back("clock error not known");
  return labels;
}

/// In the order of ranks, those that left nothing among the others.
void write_processes(PerfettoTracks& tracks, const RunView& run, const std::vector<int64_t>& missing) {
  constexpr size_t kMostMissing = 256;  // that are a process each
  const size_t shown = std::min(missing.size(), kMostMissing);
  int64_t number = 0;
  for (const TraceProcess& p : tracks.processes) number = std::max(number, p.id);
  size_t next = 0;
  const auto missing_before = [&](int64_t rank) {
    for (; next < shown && missing[next] < rank; ++next)
      write_missing_process(tracks, ++number, fmt::format("rank {} (nothing recorded)", missing[next]));
  };
  for (const TraceProcess& p : tracks.processes) {
    missing_before(p.rank.value_or(INT64_MAX));
    tracks.process_tracks[p.id] = tracks.packets.process(p.id, process_name(run, p), labels(p));
  }
  missing_before(INT64_MAX);
  if (shown < missing.size())
    write_missing_process(tracks, ++number, fmt::format("{} more ranks (nothing recorded)", missing.size() - shown));
}

}  // namespace

std::string PerfettoTracks::thread_name(int64_t process, int64_t thread) const {
  Query row(db, "SELECT name FROM thread WHERE process = ? AND thread = ?");
  row.bind(process, thread);
  const std::string name = row.next() ? row.text(0) : std::string();
  return name.empty() ? fmt::format("thread {}", thread) : fmt::format("thread {} ({})", thread, name);
}

void add_argument(Arguments& arguments, const ArgumentColumn& argument, const Query& row, int column) {
  if (row.is_null(column)) return;
  if (argument.is_text)
    arguments.push_back({argument.name, row.text(column)});
  else
    arguments.push_back({argument.name, row.integer(column)});
}

void write_perfetto(const RunView& run, const TraceRequest& request, const Sink& sink, const TraceProgress& progress) {
  const std::vector<TraceProcess> processes = select_processes(run, request);
  PerfettoPackets packets(sink, origin(run.db), number_in<int64_t>(run.meta("epoch_realtime_ns")).value_or(0));

  const int64_t rows =
      integer(run.db,
              "SELECT (SELECT coalesce(max(id), 0) FROM event) + (SELECT coalesce(max(id), 0) FROM gpu_event) +"
              " (SELECT coalesce(max(rowid), 0) FROM range_event)");
  int64_t done = 0;
  PerfettoTracks tracks{run.db, packets, processes, {}, [&](int64_t more) {
                          done += more;
                          constexpr int64_t kEvery = 10'000;
                          if (done % kEvery == 0)
                            progress(static_cast<double>(done) / static_cast<double>(std::max(done, rows)));
                        }};
  write_processes(tracks, run, missing_ranks(run, request));
  write_missing(tracks, run);
  write_steps(tracks);
  write_ranges(tracks);
  write_compute(tracks);
  write_calls(tracks);
  write_gpu(tracks);
  write_counters(tracks);
  packets.flush();
}

}  // namespace ddl::reports
