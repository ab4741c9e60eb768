// ddl model allreduce, ddl model fit.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "analyzer/csv_table.h"
#include "analyzer/models/link_fit.h"
#include "analyzer/models/ring_plan.h"
#include "analyzer/models/run_facts.h"
#include "cli/model.h"
#include "core/error.h"
#include "reports/format.h"

namespace ddl::cli {
namespace {

using reports::Unit;
using reports::Value;

constexpr size_t kPlansShown = 5;

// The sizes of the run's allreduces on its largest communicator, with what they took.
struct RunSizes {
  int64_t ranks = 0;
  std::vector<std::pair<int64_t, double>> transfer_s;  // by bytes
};

RunSizes allreduces_of(ModelRun& run) {
  RunSizes sizes;
  const auto collectives = models::measured_collectives(run.view.db, run.view.world);
  const auto is_allreduce = [](const models::MeasuredCollective& c) {
    return models::collective_of(c.op) == models::Collective::kAllreduce;
  };
  for (const auto& c : collectives)
    if (is_allreduce(c)) sizes.ranks = std::max(sizes.ranks, c.sample.ranks);
  for (const auto& c : collectives)
    if (is_allreduce(c) && c.sample.ranks == sizes.ranks) sizes.transfer_s.emplace_back(std::llround(c.sample.bytes), c.sample.transfer_s);
  return sizes;
}

std::string plan_text(const std::vector<int64_t>& factors) { return fmt::format("{}", fmt::join(factors, " x ")); }

void add_plans(const models::Cluster& cluster, double bytes, Answer& answer) {
  const auto plans = models::best_ring_plans(cluster, bytes, kPlansShown);
  auto& table =
      answer.table("plans", fmt::format("Multi-dimensional rings for {}, neighbours first", reports::size_text(std::llround(bytes))),
                   {{"factors", "plan", Unit::kText}, {"time_ns", "time", Unit::kDuration}, {"links", "links", Unit::kText}});
  for (const models::RingPlan& plan : plans) {
    std::string links;
    int64_t span = 1;
    for (const int64_t factor : plan.factors) {
      span *= factor;
      links += fmt::format("{}{}", links.empty() ? "" : ", ", cluster.ranks_per_node % span == 0 ? "inner" : "outer");
    }
    table.rows.push_back({Value::text(plan_text(plan.factors)), seconds_value(plan.seconds), Value::text(links)});
  }
}

}  // namespace

int model_allreduce(const std::vector<std::string>& arguments) {
  VerbOptions options = model_options(
      "allreduce", "[RUN] [options]",
      "Time of an allreduce by algorithm, from latency, bandwidth and speed of reduction. With RUN: those fitted from its transfer\n"
      "times, its ranks and sizes, and what it took. With --per-node: hierarchical ones and rings over every ordered factorisation.");
  options.add()("ranks", takes<int64_t>("P"), "how many")("bytes", takes<std::string>("N,..."), "sizes of the buffer: 25e6, 25MB, 25MiB")(
      "per-node", takes<int64_t>("G"), "ranks on each node; --alpha-us and --bandwidth are then between nodes")(
      "inner-alpha-us", takes<double>("US"), "latency within a node")("inner-bandwidth", takes<double>("GB/S"),
                                                                      "of a rank's link within a node");
  add_link_options(options);
  if (!options.parse(arguments)) return 0;
  Answer answer("allreduce");
  const auto run = maybe_run(options);
  RunSizes measured;
  if (run) measured = allreduces_of(*run);
  const auto typed_ranks = count_option(options, "ranks");
  const int64_t ranks =
      needed(typed_ranks || measured.ranks == 0 ? typed_ranks : std::optional(measured.ranks), "ranks", "e.g. --ranks 16");
  std::vector<int64_t> sizes;
  if (const auto text = options.maybe<std::string>("bytes")) {
    sizes = parse_bytes_list(*text);
  } else {
    for (const auto& [bytes, seconds] : measured.transfer_s) sizes.push_back(bytes);
  }
  if (sizes.empty()) missing_option("bytes", "e.g. --bytes 1MiB,64MiB");
  answer.given("ranks", "ranks", Value::count(ranks));
  const models::Link link = link_of(options, run.get(), answer);

  std::optional<models::Cluster> cluster;
  if (const auto per_node = count_option(options, "per-node")) {
    if (ranks % *per_node != 0)
      throw Error(fmt::format("{} ranks do not fill nodes of {}", ranks, *per_node), "--ranks must be a multiple of --per-node",
                  ExitCode::kUsage);
    if (ranks > models::kMostPlannedRanks)
      throw Error(fmt::format("plans are searched up to {} ranks", models::kMostPlannedRanks), "leave --per-node out", ExitCode::kUsage);
    models::Link inner = typed_link(options, "inner-alpha-us", "inner-bandwidth", "reduce");
    inner.gamma_s_per_byte = link.gamma_s_per_byte;
    cluster = {ranks, *per_node, inner, link};
    answer.given("ranks_per_node", "on a node", Value::count(*per_node));
    answer.given("inner_alpha_ns", "there latency", seconds_value(inner.alpha_s));
    answer.given("inner_bandwidth_bytes_per_second", "bandwidth", Value::bandwidth(1 / inner.beta_s_per_byte));
  }

  std::vector<reports::Column> columns = {{"bytes", "bytes", Unit::kBytes},
                                          {"parameter_server_ns", "param. server", Unit::kDuration, 1},
                                          {"tree_ns", "tree", Unit::kDuration, 2},
                                          {"butterfly_ns", "butterfly", Unit::kDuration},
                                          {"rabenseifner_ns", "Rabenseifner", Unit::kDuration},
                                          {"ring_ns", "ring", Unit::kDuration}};
  if (cluster) {
    columns.push_back({"hierarchical_ns", "hierarchical", Unit::kDuration});
    columns.push_back({"leader_ns", "leaders", Unit::kDuration, 3});
    columns.push_back({"multi_ring_ns", "best rings", Unit::kDuration});
  }
  if (!cluster) columns.push_back({"lower_bound_ns", "bound", Unit::kDuration, 4});
  columns.push_back({"best", "best", Unit::kText});
  if (run) columns.push_back({"measured_ns", "measured", Unit::kDuration});
  auto& table = answer.table("allreduce", "Allreduce by algorithm", columns);
  for (const int64_t size : sizes) {
    const double bytes = static_cast<double>(size);
    std::vector<Value> row = {Value::bytes(size)};
    double best = INFINITY;
    std::string best_name;
    const auto add = [&](std::string_view name, double seconds) {
      row.push_back(seconds_value(seconds));
      if (seconds < best) best = seconds, best_name = name;
    };
    for (const models::Algorithm algorithm : models::kAlgorithms)
      add(models::name_of(algorithm), allreduce_seconds(algorithm, ranks, bytes, link));
    if (cluster) {
      const int64_t nodes = ranks / cluster->ranks_per_node;
      add("hierarchical", hierarchical_seconds(cluster->ranks_per_node, nodes, bytes, cluster->inner, cluster->outer));
      add("leaders", leader_seconds(cluster->ranks_per_node, nodes, bytes, cluster->inner, cluster->outer));
      add("rings", best_ring_plans(*cluster, bytes, 1)[0].seconds);
    }
    if (!cluster) row.push_back(seconds_value(lower_bound_seconds(ranks, bytes, link)));
    row.push_back(Value::text(best_name));
    if (run) {
      const auto found =
          std::find_if(measured.transfer_s.begin(), measured.transfer_s.end(), [&](const auto& m) { return m.first == size; });
      const bool same = found != measured.transfer_s.end() && ranks == measured.ranks;
      row.push_back(same ? seconds_value(found->second) : Value::absent(Unit::kDuration));
    }
    table.rows.push_back(std::move(row));
  }
  if (std::has_single_bit(static_cast<uint64_t>(ranks)) && ranks > 1 && !cluster) {
    const double crossover = butterfly_to_rabenseifner_bytes(ranks, link);
    if (std::isfinite(crossover))
      answer.note(fmt::format("Rabenseifner beats the butterfly from {} on.", reports::size_text(std::llround(crossover))));
  }
  if (cluster) answer.note("In flat algorithms every message pays for the link between nodes.");
  if (cluster) add_plans(*cluster, static_cast<double>(*std::max_element(sizes.begin(), sizes.end())), answer);
  answer.note("The models know neither congestion nor implementations: in them ring never beats Rabenseifner, on machines it does.");
  return answer.print(options);
}

int model_fit(const std::vector<std::string>& arguments) {
  VerbOptions options = model_options(
      "fit", "[RUN] [options]",
      "Latency (alpha), bandwidth (1/beta) and speed of reduction (1/gamma) from transfer times, never from raw ones: waiting for late\n"
      "ranks is not latency. Two fits, each with its range, where small and large operations go by different protocols. Refuses (exit\n"
      "code 3) where the data cannot carry a fit. Reduce-scatter and allgather count as rings,\n"
      "broadcast and reduce as binomial trees, allreduce as --algorithm.");
  options.add()("csv", takes<std::string>("FILE"), "without a run: columns bytes, time_us, and if wanted ranks, op")(
      "ranks", takes<int64_t>("P"), "of a CSV without column ranks")("reduce", takes<double>("GB/S"),
                                                                     "speed of reduction, if known: not fitted then")(
      "algorithm", takes<std::string>("NAME", "ring"), "parameter_server, tree, butterfly, rabenseifner, ring");
  options.one_of("algorithm", algorithm_names());
  if (!options.parse(arguments)) return 0;
  const auto csv = options.maybe<std::string>("csv");
  const auto run = maybe_run(options);
  if (csv.has_value() == (run != nullptr)) throw Error("either a run or --csv", "e.g. ddl model fit job.ddl", ExitCode::kUsage);
  std::vector<models::MeasuredCollective> collectives;
  if (run) {
    collectives = models::measured_collectives(run->view.db, run->view.world);
  } else {
    const CsvTable table = CsvTable::read(*csv);
    for (size_t r = 0; r < table.rows(); ++r) {
      models::MeasuredCollective& one = collectives.emplace_back();
      one.op = table.has("op") ? table.text(r, "op") : "MPI_Allreduce";
      const int64_t ranks = table.has("ranks") ? static_cast<int64_t>(table.number(r, "ranks"))
                                               : needed(count_option(options, "ranks", 2), "ranks", "or a column ranks in the CSV");
      one.sample = {models::collective_of(one.op).value_or(models::Collective::kAllreduce), ranks, table.number(r, "bytes"),
                    table.number(r, "time_us") * 1e-6, 1};
    }
  }
  const models::Algorithm algorithm = algorithm_option(options);
  const auto reduce = number_option(options, "reduce", 0, true);
  const std::vector<models::LinkFit> fits =
      fit_links(samples_of(collectives), algorithm, reduce ? std::optional(1e-9 / *reduce) : std::nullopt);

  Answer answer("fit");
  answer.given("algorithm", "allreduce is", Value::text(std::string(name_of(algorithm))));
  auto& result = answer.table("fit", "Fit",
                              {{"from_bytes", "from", Unit::kBytes},
                               {"to_bytes", "to", Unit::kBytes},
                               {"alpha_ns", "latency", Unit::kDuration},
                               {"alpha_error_ns", "+-", Unit::kDuration},
                               {"bandwidth_bytes_per_second", "bandwidth", Unit::kBandwidth},
                               {"beta_error_ratio", "+-", Unit::kRatio},
                               {"reduce_bytes_per_second", "reducing", Unit::kBandwidth},
                               {"r2", "R2", Unit::kNumber},
                               {"worst_residual_ratio", "worst residual", Unit::kRatio},
                               {"sizes", "sizes", Unit::kCount}});
  for (const models::LinkFit& fit : fits) {
    const auto& link = fit.link;
    result.rows.push_back({Value::bytes(std::llround(fit.from_bytes)), Value::bytes(std::llround(fit.to_bytes)),
                           seconds_value(link.alpha_s),
                           fit.alpha_is_zero ? Value::absent(Unit::kDuration) : seconds_value(fit.alpha_error_s),
                           Value::bandwidth(1 / link.beta_s_per_byte), Value::ratio(fit.beta_error_s_per_byte / link.beta_s_per_byte),
                           link.gamma_s_per_byte > 0 ? Value::bandwidth(1 / link.gamma_s_per_byte) : Value::absent(Unit::kBandwidth),
                           Value::number(fit.r2), Value::ratio(fit.worst_residual), Value::count(static_cast<int64_t>(fit.sizes))});
  }
  auto& points = answer.table("points", "What it was fitted to",
                              {{"op", "operation", Unit::kText},
                               {"ranks", "ranks", Unit::kCount},
                               {"bytes", "bytes", Unit::kBytes},
                               {"instances", "times", Unit::kCount},
                               {"measured_ns", "transfer", Unit::kDuration},
                               {"fitted_ns", "fitted", Unit::kDuration},
                               {"residual_ratio", "off by", Unit::kRatio}});
  for (const auto& [op, sample] : collectives) {
    if (!models::collective_of(op)) continue;
    const models::LinkFit& fit = sample.bytes <= fits.front().to_bytes ? fits.front() : fits.back();
    const double fitted = collective_work(sample.collective, algorithm, sample.ranks, sample.bytes).seconds(fit.link);
    points.rows.push_back({Value::text(op), Value::count(sample.ranks), Value::bytes(std::llround(sample.bytes)),
                           Value::count(std::llround(sample.instances)), seconds_value(sample.transfer_s), seconds_value(fitted),
                           Value::ratio(fitted / sample.transfer_s - 1)});
  }
  if (fits.size() > 1)
    answer.note(fmt::format(
        "Up to {} and from {} on the times follow different laws, as those of different protocols or algorithms do. Models take the second.",
        reports::size_text(std::llround(fits[0].to_bytes)), reports::size_text(std::llround(fits[1].from_bytes))));
  if (std::any_of(fits.begin(), fits.end(), [](const auto& fit) { return fit.alpha_is_zero; }))
    answer.note("Latency is too small to be seen in these sizes: taken as 0.");
  if (std::any_of(fits.begin(), fits.end(), [](const auto& fit) { return fit.gamma_in_beta; }))
    answer.note(
        "All of these reduce as many bytes per byte moved: the time of reducing is inside the bandwidth. Allgathers or broadcasts would "
        "tell them apart, --reduce sets it.");
  return answer.print(options);
}

}  // namespace ddl::cli
