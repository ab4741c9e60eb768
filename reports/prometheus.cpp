#include "reports/prometheus.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "analyzer/metrics/metrics.h"
#include "reports/safe_text.h"

namespace ddl::reports {
namespace {

constexpr size_t kMostLabelColumns = 120;  // of a name in a label

struct Fixed {
  const char* name;
  const char* type;
  const char* help;
};
constexpr Fixed kFixed[] = {
    {"ddl_run_info", "gauge", "What is recorded: 1, with its names as labels."},
    {"ddl_running", "gauge", "1: the job runs; 0: it has ended, and the numbers are its last."},
    {"ddl_stalled", "gauge", "1: ranks sit in a collective that others never entered. For running jobs."},
    {"ddl_silence_seconds", "gauge", "Since the job last showed a sign of life. For running jobs."},
    {"ddl_ranks", "gauge", "Ranks that were recorded."},
    {"ddl_expected_ranks", "gauge", "Size of MPI_COMM_WORLD."},
    {"ddl_lower_bound", "gauge",
     "1: ranks left no record, so that waiting is a lower bound and transfer an upper one; 0: both are known. Running jobs do not tell."},
    {"ddl_nodes", "gauge", "Hosts that the ranks run on."},
    {"ddl_step_number", "gauge", "Number of the newest step that has ended."},
    {"ddl_step_p99_seconds", "gauge", "Time of a step, 99th percentile; see ddl_step_seconds."},
    {"ddl_samples_per_second", "gauge",
     "Samples per second of all ranks: over the newest steps together while the job runs, the median of the steps afterwards."},
    {"ddl_time_share_ratio", "gauge",
     "Where the time of the steps goes, of each rank by its GPUs where these did anything, else by its thread: the parts add up to 1. transfer and waiting are "
     "outside of computing; where some of it cannot be told apart it is the part not_split, where nothing can, they are one part, communication."},
    {"ddl_rank_lateness_seconds", "gauge",
     "How much later than the median rank it enters the collectives of a step; the latest ranks only."},
    {"ddl_rank_wait_seconds", "gauge",
     "How long it waits for others in a step; of the ranks with ddl_rank_lateness_seconds."},
    {"ddl_rank_step_seconds", "gauge", "How long it takes for a step; of the ranks with ddl_rank_lateness_seconds."},
    {"ddl_lateness_min_seconds", "gauge",
     "Minimum of ddl_rank_lateness_seconds over all ranks. Its median is 0: lateness is measured from the median rank."},
    {"ddl_lateness_max_seconds", "gauge", "Maximum of ddl_rank_lateness_seconds over all ranks."},
    {"ddl_wait_min_seconds", "gauge", "Minimum of ddl_rank_wait_seconds over all ranks."},
    {"ddl_wait_median_seconds", "gauge", "Median of ddl_rank_wait_seconds over all ranks."},
    {"ddl_wait_max_seconds", "gauge", "Maximum of ddl_rank_wait_seconds over all ranks."},
    {"ddl_collective_seconds", "gauge",
     "Duration of a call, mean over calls and ranks: from its begin to its end, waiting included. Among calls of different sizes those that take the "
     "most time count: ddl_collective_bytes."},
    {"ddl_collective_bytes", "gauge",
     "Size of the collective, by nccl-tests' convention, to which the other numbers of it belong."},
    {"ddl_collective_wait_seconds", "gauge", "Part of ddl_collective_seconds: waiting for ranks that came later."},
    {"ddl_collective_transfer_seconds", "gauge", "Part of ddl_collective_seconds: all but the waiting."},
    {"ddl_collective_bus_bandwidth_bytes_per_second", "gauge",
     "Bus bandwidth by nccl-tests' convention, from the transfer time alone."},
    {"ddl_left_out", "gauge",
     "What is not here because the number of series is bounded: ranks, and collectives or sizes of them."},
    {"ddl_events_lost_total", "counter", "Events, ranges and threads that the job could not record."},
};

struct BaseUnit {
  const char* unit;
  const char* suffix;
  double in_one;  ///< of the base unit
};
constexpr BaseUnit kUnits[] = {{"ns", "_seconds", 1e9},
                               {"ratio", "_ratio", 1},
                               {"samples/s", "_samples_per_second", 1},
                               {"samples", "_samples", 1},
                               {"ranks", "_ranks", 1},
                               {"names", "_names", 1},
                               {"Hz", "_hertz", 1},
                               {"FLOP", "_flop", 1},
                               {"FLOP/s", "_flop_per_second", 1},
                               {"FLOP/byte", "_flop_per_byte", 1},
                               {"instructions", "", 1},
                               {"changes", "", 1},
                               {"1", "", 1}};

const BaseUnit& base_unit(const ddl::Metric& metric) {
  return *std::find_if(std::begin(kUnits), std::end(kUnits) - 1,
                       [&](const BaseUnit& unit) { return metric.unit == unit.unit; });
}

std::string family_of(const ddl::Metric& metric) {
  if (metric.id == "step_time") return "ddl_step_seconds";
  const std::string suffix = base_unit(metric).suffix;
  return "ddl_" + metric.id + (metric.id.ends_with(suffix) ? "" : suffix);
}

std::string help_of(const ddl::Metric& metric) { return metric.name + ": " + metric.sentence; }

std::string escaped(std::string_view text, bool quotes) {
  std::string out;
  for (const char c : text) {
    if (c == '\\' || (quotes && c == '"')) out += '\\';
    out += c == '\n' ? std::string("\\n") : std::string(1, c);
  }
  return out;
}

using Labels = std::vector<std::pair<const char*, std::string>>;

class PrometheusPage : public SeriesSink {
 public:
  void family(const PrometheusFamily& family) override {
    out_ +=
        fmt::format("# HELP {} {}\n# TYPE {} {}\n", family.name, escaped(family.help, false), family.name, family.type);
    name_ = family.name;
  }
  void sample(double value, const SeriesLabels& labels) override {
    out_ += name_;
    char before = '{';
    for (const auto& [key, name] : labels) {
      out_ += fmt::format("{}{}=\"{}\"", before, key, escaped(name, true));
      before = ',';
    }
    out_ += fmt::format("}} {}\n", value);
  }
  std::string take() { return std::move(out_); }

 private:
  std::string out_, name_;
};

/// Names as labels, of which no two become the same.
class Page {
 public:
  Page(std::string run, SeriesSink& to) : run_(std::move(run)), to_(to) {}

  void family(const PrometheusFamily& family) {
    to_.family(family);
    seen_.clear();
  }
  /// False: two names have become the same label.
  bool sample(double value, const Labels& labels = {}) {
    SeriesLabels all = {{"run", label(run_)}};
    for (const auto& [key, name] : labels) all.emplace_back(key, label(name));
    if (!seen_.insert(all).second) return false;
    to_.sample(value, all);
    return true;
  }

 private:
  static std::string label(const std::string& name) { return shorten_middle(printable(name), kMostLabelColumns); }

  std::string run_;
  SeriesSink& to_;
  std::set<SeriesLabels> seen_;
};

/// A family is written when its first sample is: one without samples is none.
class Families {
 public:
  Families(Page& page) : page_(page) {}
  bool add(const char* name, std::optional<double> value, const Labels& labels = {}) {
    if (!value) return true;
    if (name_ != name) {
      const Fixed& fixed = *std::find_if(std::begin(kFixed), std::end(kFixed) - 1,
                                         [&](const Fixed& f) { return std::string_view(f.name) == name; });
      page_.family({fixed.name, fixed.type, fixed.help});
      name_ = name;
    }
    return page_.sample(*value, labels);
  }

 private:
  Page& page_;
  std::string name_;
};

std::optional<double> seconds(std::optional<double> ns) { return ns ? std::optional(*ns / 1e9) : std::nullopt; }

std::optional<double> ratio(std::optional<bool> is) { return is ? std::optional(*is ? 1.0 : 0.0) : std::nullopt; }

void add_ranks(const JobNumbers& job, size_t most, Families& page) {
  std::vector<const JobNumbers::Rank*> latest;
  std::vector<double> late, waits;
  for (const JobNumbers::Rank& rank : job.by_rank) {
    latest.push_back(&rank);
    if (rank.late_ns) late.push_back(*rank.late_ns);
    if (rank.wait_ns) waits.push_back(*rank.wait_ns);
  }
  // unknown last
  std::stable_sort(latest.begin(), latest.end(), [](const auto* a, const auto* b) { return a->late_ns > b->late_ns; });
  latest.resize(std::min(latest.size(), most));
  const auto each = [&](const char* family, std::optional<double> JobNumbers::Rank::*member) {
    for (const JobNumbers::Rank* rank : latest)
      page.add(family, seconds(rank->*member), {{"rank", std::to_string(rank->rank)}, {"node", rank->node}});
  };
  each("ddl_rank_lateness_seconds", &JobNumbers::Rank::late_ns);
  each("ddl_rank_wait_seconds", &JobNumbers::Rank::wait_ns);
  each("ddl_rank_step_seconds", &JobNumbers::Rank::step_ns);
  std::sort(late.begin(), late.end());
  if (!late.empty()) {
    page.add("ddl_lateness_min_seconds", seconds(late.front()));
    page.add("ddl_lateness_max_seconds", seconds(late.back()));
  }
  std::sort(waits.begin(), waits.end());
  if (!waits.empty()) {
    page.add("ddl_wait_min_seconds", seconds(waits.front()));
    // the upper one, from which lateness is measured
    page.add("ddl_wait_median_seconds", seconds(waits[waits.size() / 2]));
    page.add("ddl_wait_max_seconds", seconds(waits.back()));
  }
}

/// How many were left out. A size as a label would be a new series for every length of a sequence: of each operation
/// and communicator the size that takes the most time stands for all.
size_t add_collectives(const JobNumbers& job, size_t most, Families& page) {
  std::vector<const JobNumbers::Collective*> rows;
  const auto each = [&](const char* family, const auto& value_of) {
    for (const auto* row : rows) page.add(family, value_of(*row), {{"op", row->op}, {"comm", row->comm}});
  };
  for (const JobNumbers::Collective& row : job.collectives)
    if (rows.size() < most &&
        page.add("ddl_collective_seconds", seconds(row.time_ns), {{"op", row.op}, {"comm", row.comm}}))
      rows.push_back(&row);
  each("ddl_collective_bytes",
       [](const auto& row) { return row.bytes ? std::optional(static_cast<double>(*row.bytes)) : std::nullopt; });
  each("ddl_collective_wait_seconds", [](const auto& row) { return seconds(row.wait_ns); });
  each("ddl_collective_transfer_seconds", [](const auto& row) { return seconds(row.xfer_ns); });
  each("ddl_collective_bus_bandwidth_bytes_per_second", [](const auto& row) { return row.busbw; });
  return job.collectives.size() - rows.size();
}

}  // namespace

void tell_job_series(const JobNumbers& job, const PrometheusLimits& limits, SeriesSink& to) {
  Page page(job.run, to);
  Families fixed(page);
  fixed.add("ddl_run_info", 1, {{"name", job.name}, {"job_id", job.job_id}});
  fixed.add("ddl_running", job.running ? 1 : 0);
  fixed.add("ddl_stalled", ratio(job.stalled));
  fixed.add("ddl_silence_seconds", seconds(job.silent_ns));
  fixed.add("ddl_ranks", static_cast<double>(job.ranks));
  fixed.add("ddl_expected_ranks", static_cast<double>(job.expected_ranks));
  fixed.add("ddl_lower_bound", ratio(job.bounded));
  fixed.add("ddl_nodes", static_cast<double>(job.nodes));
  if (job.step) fixed.add("ddl_step_number", static_cast<double>(*job.step));
  fixed.add("ddl_step_p99_seconds", seconds(job.step_p99_ns));
  fixed.add("ddl_samples_per_second", job.samples_per_s);
  for (const auto& [part, share] : job.shares) fixed.add("ddl_time_share_ratio", share, {{"part", part}});
  add_ranks(job, limits.ranks, fixed);
  const size_t left_out = add_collectives(job, limits.collectives, fixed);
  fixed.add("ddl_left_out", static_cast<double>(job.by_rank.size() - std::min(job.by_rank.size(), limits.ranks)),
            {{"what", "ranks"}});
  fixed.add("ddl_left_out", static_cast<double>(left_out), {{"what", "collectives"}});
  fixed.add("ddl_events_lost_total", static_cast<double>(job.lost_events));
  for (const ddl::Metric& metric : all_metrics()) {
    const auto value = job.metrics.find(metric.id);
    if (value == job.metrics.end()) continue;
    page.family({family_of(metric), "gauge", help_of(metric)});
    page.sample(value->second / base_unit(metric).in_one);
  }
}

std::string render_prometheus(const JobNumbers& job, const PrometheusLimits& limits) {
  PrometheusPage page;
  tell_job_series(job, limits, page);
  return page.take();
}

std::vector<PrometheusFamily> prometheus_families() {
  std::vector<PrometheusFamily> families;
  for (const Fixed& fixed : kFixed) families.push_back({fixed.name, fixed.type, fixed.help});
  for (const ddl::Metric& metric : all_metrics()) families.push_back({family_of(metric), "gauge", help_of(metric)});
  return families;
}

}  // namespace ddl::reports
