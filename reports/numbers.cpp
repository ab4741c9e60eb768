// The lines between the findings and the tables: STEP, THROUGHPUT, WHERE IT GOES, BY RANK, RATIOS. Most items are
// metrics and come from a table.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "analyzer/findings/job_end.h"
#include "analyzer/query.h"
#include "reports/format.h"
#include "reports/overview.h"
#include "reports/step_remarks.h"

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
constexpr MetricItem kRatios[] = {{"ccr_raw", "raw", Unit::kNumber, ""},
                                  {"ccr_xfer", "transfer", Unit::kNumber, ""},
                                  {"ccr_exposed", "exposed", Unit::kNumber, ""}};
constexpr MetricItem kGpuBalance[] = {{"gpu_load_balance", "load balance", Unit::kNumber, ""}};
constexpr MetricItem kGpuRatios[] = {{"gpu_ccr_raw", "raw", Unit::kNumber, ""},
                                     {"gpu_ccr_xfer", "transfer", Unit::kNumber, ""},
                                     {"gpu_ccr_exposed", "exposed", Unit::kNumber, ""}};
constexpr MetricItem kGpuEfficiency[] = {{"gpu_parallel_efficiency", "parallel", Unit::kNumber, ""},
                                         {"gpu_communication_efficiency", "communication", Unit::kNumber, ""},
                                         {"gpu_overlap", "overlap", Unit::kRatio, ""},
                                         {"gpu_exposed_comm", "exposed", Unit::kRatio, ""},
                                         {"wait_share", "waiting in collectives", Unit::kRatio, ""},
                                         {"message_wait_share", "in messages", Unit::kRatio, ""}};
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
NumberLine line_of(std::string id, std::string title, const MetricItem (&items)[n],
                   const std::map<std::string, Metric>& metrics) {
  NumberLine line{.id = std::move(id), .title = std::move(title)};
  for (const MetricItem& item : items) {
    const auto metric = metrics.find(item.metric);
    if (metric == metrics.end()) continue;
    const std::optional<double>& number = metric->second.value;
    Value value = !number                     ? Value::absent(item.unit, metric->second.why)
                  : item.unit == Unit::kRatio ? Value::ratio(*number)
                                              : Value::number(*number);
    value = value.bounded(metric->second.bound);
    line.items.push_back({item.metric, item.name, std::move(value), number ? item.note : ""});
  }
  return line;
}

/// "3 ranks then sat in calls for 20.1 s, to the end"
std::string after_the_last_record(const NeverReturned& open) {
  const std::string who = fmt::format("{} then sat in {} that never returned", plural(open.ranks, "rank"),
                                      open.ranks == 1 ? "a call" : "calls");
  if (!open.span_ns) return who + ", nobody saw for how long";
  return fmt::format("{}, for {}{}", who, open.seen ? "" : "at least ", short_duration(*open.span_ns));
}

void add_step(const RunView& run, Document& document) {
  const StepFacts& step = run.facts.step;
  if (!step.p50_ns) return;
  const bool by_steps = run.has_steps || step.timed > 0;
  NumberLine line{.id = "step", .title = by_steps ? "STEP" : "RUN"};
  if (by_steps) {
    const int64_t steps = step.timed > 0 ? step.timed : run.steps;
    const int64_t warmup = step.timed > 0 ? step.timed_warmup : run.warmup_steps;
    line.items = {{"p50_ns", "p50", Value::duration_ns(*step.p50_ns), ""},
                  {"p99_ns", "p99", Value::duration_ns(*step.p99_ns), ""},
                  {"min_ns", "min", Value::duration_ns(*step.min_ns), ""},
                  {"max_ns", "max", Value::duration_ns(*step.max_ns), ""},
                  {"steps", "", Value::count(steps), steps == 1 ? "step" : "steps"}};
    line.remark = warmup > 0 ? fmt::format("slowest rank; first {} steps left out", warmup) : "slowest rank";
    line.remark += step_remarks(run);
  } else {
    const NeverReturned open = never_returned(run.db, run.world);
    const Value::Bound bound = open.ranks > 0 ? Value::Bound::kLower : Value::Bound::kNone;
    line.items = {{"duration_ns", "", Value::duration_ns(*step.max_ns).bounded(bound), ""}};
    Query mpi(run.db, "SELECT 1 FROM process WHERE world = ? AND init_ns IS NOT NULL LIMIT 1");
    const bool is_mpi = mpi.bind(run.world).next();
    const char* begin = is_mpi ? "MPI_Init" : "the first process group";
    line.remark = fmt::format("from {}; the job marks no steps, so numbers are for the whole run",
                              open.ranks > 0 ? fmt::format("{} to the last record", begin)
                              : is_mpi       ? "MPI_Init to MPI_Finalize"
                                             : "the first process group to the end");
    if (open.ranks > 0) line.remark += "; " + after_the_last_record(open);
  }
  document.lines.push_back(std::move(line));
}

/// The parts of `time`, which add up to 1 as printed. What cannot be told stays a part: "not split", or "in MPI" where
/// nothing can be told.
NumberLine parts_line(const RunView& run, const JobTime& time, Resource resource) {
  const auto share = [&](double TimeParts::*part) {
    const bool is_bound = time.bounded && (part == &TimeParts::wait_ns || part == &TimeParts::transfer_ns);
    const Value::Bound bound = part == &TimeParts::wait_ns ? Value::Bound::kLower : Value::Bound::kUpper;
    return Value::ratio(time.shown_share(part)).bounded(is_bound ? bound : Value::Bound::kNone);
  };
  NumberLine line;
  line.items.push_back({"compute_ratio", "compute", Value::ratio(time.shown_computing()), ""});
  if (time.nothing_split()) {
    line.items.push_back({"exposed_ratio",
                          resource == Resource::kThread && calls_mpi(run.db) ? "in MPI" : "in collectives",
                          share(&TimeParts::unsplit_ns), ""});
    line.items.push_back({"waiting_ratio", "of which waiting", Value::absent(Unit::kRatio, time.why), ""});
  } else {
    line.items.push_back({"exposed_transfer_ratio", "exposed transfer", share(&TimeParts::transfer_ns), ""});
    line.items.push_back({"waiting_ratio", "waiting", share(&TimeParts::wait_ns), ""});
    if (time.sum.unsplit_ns > 0)
      line.items.push_back(
          {"not_split_ratio", "not split", share(&TimeParts::unsplit_ns), fmt::format("({})", time.why)});
  }
  if (resource != Resource::kThread)
    line.items.push_back({"copy_ratio", "exposed copies", share(&TimeParts::copy_ns), ""});
  line.items.push_back({"idle_ratio", "idle", share(&TimeParts::idle_ns), ""});
  return line;
}

/// WHERE IT GOES: of each rank its GPUs where they did anything, else the thread that calls MPI. HOSTS: those threads
/// beside GPUs, if they communicate.
void add_where_it_goes(const RunView& run, Document& document) {
  const Facts& facts = run.facts;
  const std::string whole = run.has_steps ? " and steps" : "";
  const char* outside = calls_mpi(run.db) ? "outside MPI" : "outside collectives";
  const std::string of[] = {
      facts.coordination.ranks > 0
          ? fmt::format("all ranks{}: their training threads, for which background threads communicate", whole)
          : fmt::format("all ranks{}", whole),
      fmt::format("all GPUs{}; compute: kernels that are not collectives", whole),
      fmt::format(
          "the GPUs of {}, the threads of {} without{}; compute: kernels that are not collectives, or what is {}",
          plural(facts.ranks_by(Resource::kDevice), "rank"), plural(facts.ranks_by(Resource::kThread), "rank"), whole,
          outside)};
  if (facts.headline.is_known()) {
    NumberLine line = parts_line(run, facts.headline, facts.resource);
    line.id = "where_it_goes";
    line.title = "WHERE IT GOES";
    line.remark = of[static_cast<size_t>(facts.resource)];
    const CoverageFacts& known = facts.coverage;
    if (known.ranks < known.world_size)
      line.remark += fmt::format("; {} of {} ranks known", known.ranks, known.world_size);
    if (facts.headline.bounded) line.remark += "; estimator lower_bound";
    document.lines.push_back(std::move(line));
  }
  if (facts.resource == Resource::kThread || !facts.threads_tell()) return;
  NumberLine line = parts_line(run, facts.threads, Resource::kThread);
  line.id = "hosts";
  line.title = "HOSTS";
  line.remark = fmt::format("all ranks{}; compute: everything {}, waiting for the GPU too", whole, outside);
  document.lines.push_back(std::move(line));
}

void add_coordination(const RunView& run, Document& document) {
  const CoordinationFacts& facts = run.facts.coordination;
  if (facts.ranks == 0) return;
  document.lines.push_back({.id = "coordination",
                            .title = "COORDINATION",
                            .items = {{"calls", "calls", Value::count(facts.calls), ""},
                                      {"time_ns", "time", Value::duration_ns(static_cast<int64_t>(facts.time_ns)), ""}},
                            .remark = "how background threads agree on what to move; neither waiting nor transfer"});
}

void add_by_rank(const RunView& run, const std::map<std::string, Metric>& metrics, Document& document) {
  NumberLine line{.id = "by_rank", .title = "BY RANK"};
  struct Late {
    int64_t late_ns, rank;
  };
  std::vector<Late> late;
  const std::vector<RankFacts>& ranks = run.facts.ranks;
  for (const RankFacts& rank : ranks)
    if (rank.late_ns) late.push_back({*rank.late_ns, rank.rank});
  std::sort(late.begin(), late.end(), [](const Late& a, const Late& b) { return a.late_ns < b.late_ns; });
  if (late.size() > 1) {
    line.items.push_back({"lateness_min_ns", "lateness  min", Value::duration_ns(late.front().late_ns), ""});
    line.items.push_back({"lateness_max_ns", "max", Value::duration_ns(late.back().late_ns),
                          fmt::format("(rank {})", late.back().rank)});
  } else {
    const Value why = ranks.empty() || run.ranks < 2
                          ? Value::absent(Unit::kDuration, "NOT_APPLICABLE")
                          : Value::absent(Unit::kDuration, ranks.front().late_ns ? "" : ranks.front().why);
    line.items.push_back({"lateness_max_ns", "lateness", why, ""});
  }
  NumberLine balance = run.facts.resource == Resource::kThread ? line_of("", "", kBalance, metrics)
                                                               : line_of("", "", kGpuBalance, metrics);
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
  add_coordination(run, document);
  add_by_rank(run, metrics, document);
  const bool by_gpus = run.facts.resource != Resource::kThread;
  const bool ratios_of_gpus = by_gpus && (run.facts.waits_by == Resource::kDevice || !run.facts.threads_tell());
  add_line(ratios_of_gpus ? line_of("ccr", "COMPUTE / COMM", kGpuRatios, metrics)
                          : line_of("ccr", "COMPUTE / COMM", kRatios, metrics),
           fmt::format("{}higher is better; tune by 'transfer', which excludes waiting", ratios_of_gpus ? "of GPUs; "
                                                                                         : by_gpus      ? "of hosts; "
                                                                                                        : ""),
           document);
  NumberLine efficiency = by_gpus ? line_of("efficiency", "EFFICIENCY", kGpuEfficiency, metrics)
                                  : line_of("efficiency", "EFFICIENCY", kEfficiency, metrics);
  // Jobs without messages have no waiting in them to speak of.
  std::erase_if(efficiency.items,
                [](const Item& item) { return item.key == "message_wait_share" && item.value.why() == "NO_DATA"; });
  add_line(std::move(efficiency), {}, document);
  document.verdict = run.verdict();
}

}  // namespace ddl::reports
