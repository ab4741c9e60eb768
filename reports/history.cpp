#include "reports/history.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <limits>

#include "reports/format.h"
#include "reports/safe_text.h"

namespace ddl::reports {
namespace {

using history::JobSeries;
using history::RunChange;
using history::RunRow;
using history::SlowHost;

/// Names that Slurm can have: anything else would be words of a shell.
bool is_node_name(const std::string& name) {
  return !name.empty() && name[0] != '-' &&
         name.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") ==
             std::string::npos;
}

std::string time_of_run(const RunRow& run) {
  return fmt::format("{:%F %H:%M}", fmt::gmtime(static_cast<std::time_t>(run.started_ns / 1'000'000'000)));
}

std::string change_percent(double ratio) { return (ratio >= 0 ? "+" : "") + percent_text(ratio); }
std::string change_duration(double ns) { return (ns >= 0 ? "+" : "") + short_duration(std::llround(ns)); }

Value maybe_text_value(const std::optional<std::string>& text, const RunRow& run, const char* column) {
  return text ? Value::text(*text) : Value::absent(Unit::kText, run.why_not(column));
}

Value maybe_number_value(const std::optional<double>& number, Value (*make)(double), Unit unit, const RunRow& run,
                         const char* column) {
  return number ? make(*number) : Value::absent(unit, run.why_not(column));
}

Value duration_value(double ns) { return Value::duration_ns(std::llround(ns)); }

/// Median step time of the newest stretch; nothing without runs.
std::optional<double> step_now(const JobSeries& series) {
  if (!series.changes.empty()) return series.changes.back().after_ns;
  if (series.runs.empty()) return std::nullopt;
  std::vector<int64_t> times;
  for (const RunRow* run : series.runs) times.push_back(*run->step_time_ns);
  std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2), times.end());
  return static_cast<double>(times[times.size() / 2]);
}

Table jobs_table(const HistoryView& view) {
  Table table{.id = "jobs",
              .caption = "Jobs, the newest first: runs of one name on as many ranks and hosts",
              .columns = {{"job", "Job", Unit::kText},
                          {"ranks", "Ranks", Unit::kCount},
                          {"hosts", "Hosts", Unit::kCount, 4},
                          {"runs", "Runs", Unit::kCount},
                          {"unknown_runs", "Unknown", Unit::kCount, 0},
                          {"step_time_ns", "Step time", Unit::kDuration},
                          {"trend", "Trend", Unit::kText}},
              .when_empty = "No run was added."};
  for (const JobSeries& series : view.series) {
    const auto now = step_now(series);
    table.rows.push_back({Value::text(series.name), Value::count(series.ranks), Value::count(series.hosts),
                          Value::count(static_cast<int64_t>(series.runs.size() + series.unknown)),
                          Value::count(static_cast<int64_t>(series.unknown)),
                          now ? duration_value(*now) : Value::absent(Unit::kDuration),
                          Value::text(trend_sentence(series))});
  }
  return table;
}

Table changes_table(const HistoryView& view) {
  Table table{.id = "changes",
              .caption = "Changes of the step time, the newest first",
              .columns = {{"change_ratio", "Change", Unit::kRatio},
                          {"before_ns", "Before", Unit::kDuration},
                          {"after_ns", "After", Unit::kDuration},
                          {"before_runs", "Runs before", Unit::kCount, 2},
                          {"after_runs", "Runs since", Unit::kCount, 2},
                          {"date", "Date", Unit::kText},
                          {"first_run", "First run", Unit::kText},
                          {"first_started_ns", "", Unit::kCount, 0},
                          {"part", "Part", Unit::kText},
                          {"part_ns", "Part grew by", Unit::kDuration},
                          {"axis", "Axis", Unit::kText, 5},
                          {"commit_before", "Commit before", Unit::kText, 3},
                          {"commit_after", "Commit after", Unit::kText, 3},
                          {"job", "Job", Unit::kText},
                          {"ranks", "Ranks", Unit::kCount, 4},
                          {"hosts", "Hosts", Unit::kCount, 1},
                          {"sentence", "", Unit::kText, 0}}};
  std::vector<std::pair<int64_t, std::vector<Value>>> rows;
  for (const JobSeries& series : view.series)
    for (const RunChange& change : series.changes) {
      const RunRow& first = *series.runs[change.first];
      const RunRow& last = *series.runs[change.first - 1];
      rows.push_back(
          {first.started_ns,
           {Value::ratio(change.ratio()), duration_value(change.before_ns), duration_value(change.after_ns),
            Value::count(static_cast<int64_t>(change.before_runs)),
            Value::count(static_cast<int64_t>(change.after_runs)), Value::text(date_of_run(first)),
            Value::text(run_word(first)), Value::count(first.started_ns),
            change.part != nullptr ? Value::text(change.part->name) : Value::absent(Unit::kText, change.why),
            change.part != nullptr ? duration_value(change.part_ns) : Value::absent(Unit::kDuration, change.why),
            change.axis.empty() ? Value::absent(Unit::kText, "NOT_APPLICABLE") : Value::text(change.axis),
            last.commit_id ? Value::text(last.commit_id->substr(0, 9))
                           : Value::absent(Unit::kText, last.why_not("commit_id")),
            first.commit_id ? Value::text(first.commit_id->substr(0, 9))
                            : Value::absent(Unit::kText, first.why_not("commit_id")),
            Value::text(series.name), Value::count(series.ranks), Value::count(series.hosts),
            Value::text(change_sentence(series, change))}});
    }
  std::stable_sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  for (auto& [started_ns, row] : rows) table.rows.push_back(std::move(row));
  return table;
}

Table runs_table(const HistoryView& view, size_t most_runs) {
  Table table{.id = "runs",
              .caption = "Runs, the newest first",
              .columns = {{"started", "Started (UTC)", Unit::kText},
                          {"name", "Job", Unit::kText},
                          {"job_id", "Id", Unit::kText},
                          {"ranks", "Ranks", Unit::kCount},
                          {"hosts", "Hosts", Unit::kCount, 4},
                          {"step_time_ns", "Step time", Unit::kDuration},
                          {"throughput", "Samples/s", Unit::kNumber, 5},
                          {"efficiency", "Efficiency", Unit::kEfficiency, 6},
                          {"ccr", "Computing/transfer", Unit::kNumber, 1},
                          {"wait_ns", "Waiting", Unit::kDuration, 3},
                          {"loss", "Loss", Unit::kNumber, 2},
                          {"finding", "First finding", Unit::kText, 7},
                          {"commit", "Commit", Unit::kText, 2},
                          {"run", "Run", Unit::kText, 8},
                          {"command", "Command", Unit::kText, 0},
                          {"started_ns", "", Unit::kCount, 0},
                          {"id", "", Unit::kText, 0}}};
  const size_t shown = std::min(most_runs, view.rows.size());
  for (size_t i = 0; i < shown; ++i) {
    const RunRow& run = view.rows[view.rows.size() - 1 - i];
    const std::string folder = run.path.substr(run.path.rfind('/') + 1);
    table.rows.push_back(
        {Value::text(time_of_run(run)), Value::text(run.name), maybe_text_value(run.job_id, run, "job_id"),
         Value::count(run.expected_ranks), Value::count(run.hosts),
         run.step_time_ns ? Value::duration_ns(*run.step_time_ns)
                          : Value::absent(Unit::kDuration, run.why_not("step_time_ns")),
         maybe_number_value(run.throughput, Value::number, Unit::kNumber, run, "throughput"),
         maybe_number_value(run.efficiency, Value::efficiency, Unit::kEfficiency, run, "efficiency"),
         maybe_number_value(run.ccr, Value::number, Unit::kNumber, run, "ccr"),
         maybe_number_value(run.wait_ns, duration_value, Unit::kDuration, run, "wait_ns")
             .bounded(run.bounded != 0 && run.wait_ns ? Value::Bound::kLower : Value::Bound::kNone),
         maybe_number_value(run.loss, Value::number, Unit::kNumber, run, "loss"),
         run.found.empty() ? Value::absent(Unit::kText, "NOT_APPLICABLE") : Value::text(run.found[0].id),
         run.commit_id ? Value::text(run.commit_id->substr(0, 9))
                       : Value::absent(Unit::kText, run.why_not("commit_id")),
         Value::text(folder), maybe_text_value(run.command, run, "command"), Value::count(run.started_ns),
         Value::text(run.run)});
  }
  table.left_out = view.rows.size() - shown;
  if (table.left_out > 0) table.note = fmt::format("{} older: ddl history list --rows N, --json", table.left_out);
  return table;
}

std::string judgement(const SlowHost& host) {
  if (host.corrected >= history::kSlowHostP) return "chance may do that";
  if (host.one_rank)
    return fmt::format("always rank {} of {}: perhaps the program", *host.one_rank, host.named_by[0]->name);
  return "drain: ddl history nodes --drain";
}

Table nodes_table(const HistoryView& view) {
  Table table{.id = "nodes",
              .caption = "Hosts that others waited for, the least likely by chance first",
              .columns = {{"host", "Host", Unit::kText},
                          {"slow_runs", "Slow in", Unit::kCount},
                          {"runs", "Of runs", Unit::kCount},
                          {"expected_runs", "By chance", Unit::kNumber},
                          {"p", "p", Unit::kNumber, 3},
                          {"corrected_p", "p corrected", Unit::kNumber},
                          {"jobs", "Jobs", Unit::kCount, 2},
                          {"newest", "Newest", Unit::kText, 5},
                          {"judgement", "", Unit::kText}}};
  for (const SlowHost& host : view.nodes.hosts)
    table.rows.push_back({Value::text(host.host), Value::count(host.slow), Value::count(host.runs),
                          Value::number(host.expected), Value::number(host.p), Value::number(host.corrected),
                          Value::count(host.jobs), Value::text(date_of_run(*host.named_by.back())),
                          Value::text(judgement(host))});
  table.note = fmt::format(
      "{} in which findings name some of several hosts, {} in them. By chance: the slow hosts of each run drawn at random among its hosts. p: of being "
      "named so often or more; corrected: times the number of hosts.",
      plural(view.nodes.runs, "run"), plural(view.nodes.looked_at, "host"));
  table.when_empty = view.nodes.runs == 0 ? "No run on several hosts in which a finding names one of them." : "";
  if (view.nodes.runs == 0) table.note.clear();
  return table;
}

Document begin_document(const HistoryView& view) {
  Document document;
  document.headline = {"History", plural(static_cast<int64_t>(view.rows.size()), "run"),
                       plural(static_cast<int64_t>(view.series.size()), "job")};
  document.source = view.place;
  document.facts = {{"database", Value::text(view.place)},
                    {"runs", Value::count(static_cast<int64_t>(view.rows.size()))},
                    {"jobs", Value::count(static_cast<int64_t>(view.series.size()))},
                    {"false_alarm", Value::number(history::kFalseAlarm)}};
  for (const JobSeries& series : view.series)
    if (history::slower_lately(series, kLatelyRuns))
      document.alerts.push_back(fmt::format("{}: {}", series_title(series), trend_sentence(series)));
  return document;
}

/// "; 3 of 16 runs took 1.38 to 1.42 times the median: job 4114, job 4117, job 4121"
std::string slow_runs_text(const JobSeries& series) {
  constexpr size_t kShown = 4;
  const std::vector<const RunRow*> slow = history::slow_runs(series);
  if (slow.empty()) return "";
  double least = std::numeric_limits<double>::infinity(), most = 0;
  std::string names;
  for (size_t i = 0; i < slow.size(); ++i) {
    const double times = static_cast<double>(*slow[i]->step_time_ns) / history::median_step_ns(series);
    least = std::min(least, times);
    most = std::max(most, times);
    if (i < kShown) names += (i == 0 ? "" : ", ") + run_word(*slow[i]);
  }
  if (slow.size() > kShown) names += fmt::format(" and {} more", slow.size() - kShown);
  const std::string factor = fmt::format("{:.2f}", least), highest = fmt::format("{:.2f}", most);
  return fmt::format("; {} of {} runs took {} times the median: {}", slow.size(), series.runs.size(),
                     factor == highest ? factor : factor + " to " + highest, names);
}

// Of characters of Verdana at 11 px, about.
double badge_width(const std::string& text) { return 6.6 * static_cast<double>(text.size()) + 12; }

}  // namespace

HistoryView::HistoryView(std::vector<RunRow> all_rows, std::string shown_place)
    : rows(std::move(all_rows)),
      place(std::move(shown_place)),
      series(history::job_series(rows)),
      nodes(history::slow_hosts(rows)) {}

std::string series_title(const JobSeries& series) {
  return fmt::format("{} on {}, {}", series.name, plural(series.ranks, "rank"), plural(series.hosts, "host"));
}

std::string run_word(const RunRow& run) {
  return run.job_id ? "job " + *run.job_id : run.path.substr(run.path.rfind('/') + 1);
}

std::string date_of_run(const RunRow& run) {
  return fmt::format("{:%F}", fmt::gmtime(static_cast<std::time_t>(run.started_ns / 1'000'000'000)));
}

std::string change_sentence(const JobSeries& series, const RunChange& change) {
  const RunRow& first = *series.runs[change.first];
  std::string text =
      fmt::format("step time {} since {}, {}: ", change_percent(change.ratio()), run_word(first), date_of_run(first));
  if (change.part == nullptr)
    return text + (change.why == "NO_DATA" ? "what of the step is n/a (NO_DATA)"
                                           : "in no part of the mean step, only on the slowest rank");
  text += change.part->name;
  if (!change.axis.empty()) text += fmt::format(", {}{}", change.axis, change.axis == "all ranks" ? "" : " axis");
  return text + fmt::format(" ({} of {})", change_duration(change.part_ns),
                            change_duration(change.after_ns - change.before_ns));
}

std::string trend_sentence(const JobSeries& series) {
  if (series.runs.empty())
    return fmt::format("n/a ({} without a step time)", plural(static_cast<int64_t>(series.unknown), "run"));
  if (!series.changes.empty()) return change_sentence(series, series.changes.back());
  const auto runs = static_cast<int64_t>(series.runs.size());
  if (series.runs.size() < history::kLeastRuns)
    return fmt::format("n/a ({}: a change point needs {})", plural(runs, "run"), history::kLeastRuns);
  return "no change seen" + slow_runs_text(series);
}

Document build_history(const HistoryView& view, size_t most_runs) {
  Document document = begin_document(view);
  document.tables = {jobs_table(view), changes_table(view), runs_table(view, most_runs)};
  if (view.nodes.runs > 0) document.tables.push_back(nodes_table(view));
  return document;
}

Document build_trends(const HistoryView& view) {
  Document document = begin_document(view);
  document.alerts.clear();  // the table of jobs says it
  document.tables = {jobs_table(view), changes_table(view)};
  return document;
}

Document build_nodes(const HistoryView& view) {
  Document document = begin_document(view);
  document.alerts.clear();
  document.tables = {nodes_table(view)};
  return document;
}

std::string drain_list(const HistoryView& view) {
  std::string text = fmt::format(
      "# Hosts that were slow again and again, of {} in {}: p < {} after correction for {}. Nothing was drained: read this, then run it.\n",
      plural(view.nodes.runs, "run"), printable(view.place), history::kSlowHostP, plural(view.nodes.looked_at, "host"));
  size_t drained = 0;
  for (const SlowHost& host : view.nodes.hosts) {
    if (host.corrected >= history::kSlowHostP) continue;
    if (!host.to_drain()) {
      text += fmt::format("# not {}: {}\n", is_node_name(host.host) ? host.host : "a host",
                          "all of its runs blame one rank of one job: perhaps the program is slow there");
      continue;
    }
    if (!is_node_name(host.host)) {
      text += "# not a host whose name Slurm could not have: see ddl history nodes\n";
      continue;
    }
    ++drained;
    text += fmt::format("scontrol update nodename={} state=drain reason=\"ddl: slow in {} of {}, {} expected, p={}\"\n",
                        host.host, host.slow, plural(host.runs, "run"), number_text(host.expected),
                        number_text(host.corrected));
  }
  if (drained == 0) text += "# none\n";
  return text;
}

std::string render_badge(const JobSeries& series) {
  const auto now = step_now(series);
  const auto slower = history::slower_lately(series, kLatelyRuns);
  const std::string label = "step time";
  std::string value = now ? short_duration(std::llround(*now)) : "n/a (NO_DATA)";
  if (slower)
    value +=
        fmt::format(", {} since {}", change_percent(*slower), date_of_run(*series.runs[series.changes.back().first]));
  const bool judged = series.runs.size() >= history::kLeastRuns;
  const char* color = slower ? "#b3261e" : judged ? "#2e7d32" : "#5f6368";
  const double left = badge_width(label), right = badge_width(value), width = left + right;
  // All words are ours or numbers: nothing to escape.
  return fmt::format(
      R"(<svg xmlns="http://www.w3.org/2000/svg" width="{0:.0f}" height="20" role="img" aria-label="{1}: {2}"><title>{1}: {2}</title>)"
      R"(<rect width="{0:.0f}" height="20" rx="3" fill="#3c4043"/><path d="M{3:.0f} 0H{4:.0f}a3 3 0 0 1 3 3v14a3 3 0 0 1-3 3H{3:.0f}z" fill="{5}"/>)"
      R"(<g fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11" text-anchor="middle">)"
      R"(<text x="{6:.1f}" y="14" textLength="{7:.0f}">{1}</text><text x="{8:.1f}" y="14" textLength="{9:.0f}">{2}</text></g></svg>)"
      "\n",
      width, label, value, left, width - 3, color, left / 2, left - 12, left + right / 2, right - 12);
}

}  // namespace ddl::reports
