// The lines between the findings and the tables: STEP, THROUGHPUT, WHERE IT GOES, BY RANK, RATIOS. Most items are metrics and come from a
// table.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "analyzer/query.h"
#include "reports/format.h"
#include "reports/overview.h"

namespace ddl::reports {
namespace {

using Item = NumberLine::Item;

struct MetricItem {
  const char* metric;  ///< metric.id
  const char* name;    ///< before the number
  Unit unit;
  const char* note;  ///< behind it
};

constexpr MetricItem kThroughput[] = {{"throughput", "", Unit::kNumber, "samples/s"}};
constexpr MetricItem kBalance[] = {{"load_balance", "load balance", Unit::kNumber, ""}};
constexpr MetricItem kRatios[] = {
    {"ccr_raw", "raw", Unit::kNumber, ""}, {"ccr_xfer", "transfer", Unit::kNumber, ""}, {"ccr_exposed", "exposed", Unit::kNumber, ""}};
constexpr MetricItem kEfficiency[] = {{"parallel_efficiency", "parallel", Unit::kNumber, ""},
                                      {"communication_efficiency", "communication", Unit::kNumber, ""},
                                      {"overlap", "overlap", Unit::kRatio, ""},
                                      {"wait_share", "waiting in collectives", Unit::kRatio, ""},
                                      {"message_wait_share", "in messages", Unit::kRatio, ""}};

std::map<std::string, Metric> by_id(const std::vector<Metric>& metrics) {
  std::map<std::string, Metric> result;
  for (const Metric& metric : metrics) result.emplace(metric.id, metric);
  return result;
}

template <size_t n>
NumberLine line_of(std::string id, std::string title, const MetricItem (&items)[n], const std::map<std::string, Metric>& metrics) {
  NumberLine line{.id = std::move(id), .title = std::move(title), .items = {}, .remark = {}};
  for (const MetricItem& item : items) {
    const auto metric = metrics.find(item.metric);
    if (metric == metrics.end()) continue;
    const std::optional<double>& number = metric->second.value;
    Value value = !number                     ? Value::absent(item.unit, metric->second.why)
                  : item.unit == Unit::kRatio ? Value::ratio(*number)
                                              : Value::number(*number);
    line.items.push_back({item.metric, item.name, std::move(value), number ? item.note : ""});
  }
  return line;
}

int64_t nearest_rank(const std::vector<int64_t>& sorted, double fraction) {
  const auto index = static_cast<size_t>(std::ceil(fraction * static_cast<double>(sorted.size())));
  return sorted[std::clamp<size_t>(index, 1, sorted.size()) - 1];
}

void add_step(const RunView& run, Document& document) {
  std::vector<int64_t> durations;
  Query row(run.db, "SELECT longest_ns FROM temp.steady_step WHERE world = ? ORDER BY longest_ns");
  row.bind(run.world);
  while (row.next()) durations.push_back(row.integer(0));
  if (durations.empty()) return;
  NumberLine line{.id = "step", .title = run.has_steps ? "STEP" : "RUN", .items = {}, .remark = {}};
  if (run.has_steps) {
    line.items = {{"p50_ns", "p50", Value::duration_ns(nearest_rank(durations, 0.5)), ""},
                  {"p99_ns", "p99", Value::duration_ns(nearest_rank(durations, 0.99)), ""},
                  {"min_ns", "min", Value::duration_ns(durations.front()), ""},
                  {"max_ns", "max", Value::duration_ns(durations.back()), ""},
                  {"steps", "", Value::count(run.steps), run.steps == 1 ? "step" : "steps"}};
    line.remark = run.warmup_steps > 0 ? fmt::format("slowest rank; first {} steps left out", run.warmup_steps) : "slowest rank";
    if (run.inferred_steps) line.remark += "; inferred: the job marks no steps, its collectives repeat";
  } else {
    line.items = {{"duration_ns", "", Value::duration_ns(durations.back()), ""}};
    line.remark = "from MPI_Init to MPI_Finalize; the job marks no steps, so numbers are for the whole run";
  }
  document.lines.push_back(std::move(line));
}

// Ratio of sums over steps and ranks. Where the waiting is not known, it stays with the transfer in one share, "in MPI".
void add_where_it_goes(const RunView& run, Document& document) {
  Query row(run.db,
            "SELECT sum(duration_ns), sum(compute_ns), sum(exposed_ns), iif(count(wait_ns) = count(*), sum(wait_ns), NULL), max(why)"
            " FROM temp.steady_step WHERE world = ?");
  row.bind(run.world);
  if (!row.next() || row.is_null(0) || row.integer(0) <= 0) return;
  const double whole = row.real(0);
  const int64_t compute_ns = row.integer(1), exposed_ns = row.integer(2), idle_ns = row.integer(0) - compute_ns - exposed_ns;
  const bool split = !row.is_null(3);
  const int64_t wait_ns = split ? row.integer(3) : 0;
  const std::vector<double> shares =
      round_shares({static_cast<double>(compute_ns) / whole, static_cast<double>(exposed_ns - wait_ns) / whole,
                    static_cast<double>(wait_ns) / whole, static_cast<double>(idle_ns) / whole});
  NumberLine line{
      .id = "where_it_goes", .title = "WHERE IT GOES", .items = {}, .remark = run.has_steps ? "all ranks and steps" : "all ranks"};
  line.items.push_back({"compute_ratio", "compute", Value::ratio(shares[0]), ""});
  if (split) {
    line.items.push_back({"exposed_transfer_ratio", "exposed transfer", Value::ratio(shares[1]), ""});
    line.items.push_back({"waiting_ratio", "waiting", Value::ratio(shares[2]), ""});
  } else {
    line.items.push_back({"exposed_ratio", "in MPI", Value::ratio(shares[1]), ""});
    line.items.push_back({"waiting_ratio", "of which waiting", Value::absent(Unit::kRatio, row.text(4)), ""});
  }
  line.items.push_back({"idle_ratio", "idle", Value::ratio(shares[3]), ""});
  document.lines.push_back(std::move(line));
}

void add_by_rank(const RunView& run, const std::map<std::string, Metric>& metrics, Document& document) {
  NumberLine line{.id = "by_rank", .title = "BY RANK", .items = {}, .remark = {}};
  struct Late {
    int64_t late_ns, rank;
  };
  std::vector<Late> late;
  const Table ranks = ranks_table(run);
  for (const auto& row : ranks.rows)
    if (!row[1].is_absent()) late.push_back({row[1].as_integer(), row[0].as_integer()});
  std::sort(late.begin(), late.end(), [](const Late& a, const Late& b) { return a.late_ns < b.late_ns; });
  if (late.size() > 1) {
    line.items.push_back({"lateness_min_ns", "lateness  min", Value::duration_ns(late.front().late_ns), ""});
    line.items.push_back({"lateness_max_ns", "max", Value::duration_ns(late.back().late_ns), fmt::format("(rank {})", late.back().rank)});
  } else {
    const Value why = ranks.rows.empty() || run.ranks < 2
                          ? Value::absent(Unit::kDuration, "NOT_APPLICABLE")
                          : Value::absent(Unit::kDuration, ranks.rows.front()[1].is_absent() ? ranks.rows.front()[1].why() : "");
    line.items.push_back({"lateness_max_ns", "lateness", why, ""});
  }
  NumberLine balance = line_of("", "", kBalance, metrics);
  std::move(balance.items.begin(), balance.items.end(), std::back_inserter(line.items));
  document.lines.push_back(std::move(line));
}

void add_line(NumberLine line, std::string remark, Document& document) {
  if (line.items.empty()) return;
  line.remark = std::move(remark);
  document.lines.push_back(std::move(line));
}

}  // namespace

void add_numbers(const RunView& run, Document& document) {
  const std::map<std::string, Metric> metrics = by_id(document.metrics);
  add_step(run, document);
  // A job that reports no samples has no throughput to speak of.
  if (const auto throughput = metrics.find("throughput"); throughput != metrics.end() && throughput->second.value)
    add_line(line_of("throughput", "THROUGHPUT", kThroughput, metrics), {}, document);
  add_where_it_goes(run, document);
  add_by_rank(run, metrics, document);
  add_line(line_of("ccr", "COMPUTE / COMM", kRatios, metrics), "more is better; transfer = without waiting: the one to tune by", document);
  NumberLine efficiency = line_of("efficiency", "EFFICIENCY", kEfficiency, metrics);
  // Jobs without messages have no waiting in them to speak of.
  std::erase_if(efficiency.items, [](const Item& item) { return item.key == "message_wait_share" && item.value.why() == "NO_DATA"; });
  add_line(std::move(efficiency), {}, document);
  document.verdict = run.verdict();
}

}  // namespace ddl::reports
