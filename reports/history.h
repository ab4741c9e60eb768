// The report of the history: jobs and their change points, runs, hosts that were slow again and again.
#pragma once

#include <string>
#include <vector>
#include "history/row.h"
#include "reports/run_view.h"

#include "history/nodes.h"
#include "history/trend.h"
#include "reports/document.h"

namespace ddl::reports {

constexpr size_t kLatelyRuns = 50;  ///< older slowdowns are no longer alerts

/// The input of the builders; `series` and `nodes` point into `rows`.
struct HistoryView {
  explicit HistoryView(std::vector<history::RunRow> all_rows, std::string shown_place);
  HistoryView(const HistoryView&) = delete;

  std::vector<history::RunRow> rows;  ///< by start
  std::string place;
  std::vector<history::JobSeries> series;
  history::SlowHosts nodes;
};

/// Jobs, changes, the newest `most_runs` runs, hosts. Alerts: jobs that got slower lately.
Document build_history(const HistoryView& view, size_t most_runs);

/// Jobs and changes: `ddl history check`.
Document build_trends(const HistoryView& view);

/// Hosts: `ddl history nodes`.
Document build_nodes(const HistoryView& view);

/// Commands for Slurm, each with its reason, for a person to read and run; lines with # name what is left out, and why.
std::string drain_list(const HistoryView& view);

/// "train on 16 ranks, 2 hosts".
std::string series_title(const history::JobSeries& series);
/// "job 4711", else the name of the run's folder.
std::string run_word(const history::RunRow& run);
/// "2026-11-03", UTC.
std::string date_of_run(const history::RunRow& run);
/// "step time +7.0% since job 4711, 2026-11-03: exposed transfer, data axis (+4.2 ms of +5.1 ms)".
std::string change_sentence(const history::JobSeries& series, const history::RunChange& change);
/// About the whole job: its last change, or that it has none, or too few runs.
std::string trend_sentence(const history::JobSeries& series);

/// An SVG badge of a job: its step time, and by how much it got slower lately.
std::string render_badge(const history::JobSeries& series);

/// `path`: the run's place for the history. The caller adds user and time. Texts are masked (core/secrets.h).
history::RunRow history_row(const RunView& run, const std::string& path);

}  // namespace ddl::reports
