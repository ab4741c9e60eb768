// ddl model allreduce, ddl model fit.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "analyzer/csv_table.h"
#include "analyzer/models/link_fit.h"
#include "analyzer/models/ring_plan.h"
#include "analyzer/models/run_facts.h"
#include "autotuner/openmpi_allreduce.h"
#include "cli/model.h"
#include "cli/model_topology.h"
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
    if (is_allreduce(c) && c.sample.ranks == sizes.ranks)
      sizes.transfer_s.emplace_back(std::llround(c.sample.bytes), c.sample.transfer_s);
  return sizes;
}

std::string plan_text(const std::vector<int64_t>& factors) { return fmt::format("{}", fmt::join(factors, " x ")); }

void add_plans(const models::Cluster& cluster, double bytes, Answer& answer) {
  const auto plans = models::best_ring_plans(cluster, bytes, kPlansShown);
  auto& table = answer.table(
      "plans", fmt::format("Multi-dimensional rings for {}, neighbours first", reports::size_text(std::llround(bytes))),
      {{"factors", "plan", Unit::kText}, {"time_ns", "time", Unit::kDuration}, {"tiers", "tier of each", Unit::kText}});
  for (const models::RingPlan& plan : plans) {
    std::string tiers;
    int64_t span = 1;
    for (const int64_t factor : plan.factors) {
      span *= factor;
      int64_t inside = 1;
      size_t tier = 0;
      while (tier + 1 < cluster.size() && (inside *= cluster[tier].ranks) % span != 0) ++tier;
      tiers += fmt::format("{}{}", tiers.empty() ? "" : ", ", tier + 1);
    }
    table.rows.push_back({Value::text(plan_text(plan.factors)), seconds_value(plan.seconds), Value::text(tiers)});
  }
  std::vector<std::string> dims = {fmt::format("{}", ranks_of(cluster))};  // the flat ring, which they are held against
  for (const auto& plan : plans)
    if (std::string words = fmt::format("{}", fmt::join(plan.factors, "x")); words != dims[0])
      dims.push_back(std::move(words));
  answer.note(fmt::format(
      "Tier 1 is the innermost. train and allreduce run a plan by --allreduce multi_ring --dims {}; to try them: ddl tune "
      "--tunable dims={} -- mpirun -np {} train --allreduce multi_ring --dims {{dims}}",
      fmt::join(plans[0].factors, "x"), fmt::join(dims, ","), dims[0]));
}

// ---------------------------------------------------------------- learners

/// Open MPI's built-in choice as a model's algorithm: what its segmented ring and its linear reduce and broadcast cost
/// is that of a ring and of a parameter server; nonoverlapping is a reduction and a broadcast along a tree.
models::Algorithm as_model(int64_t openmpi) {
  switch (openmpi) {
    case tune::kBasicLinear:
      return models::Algorithm::kParameterServer;
    case tune::kNonoverlapping:
      return models::Algorithm::kTree;
    case tune::kRecursiveDoubling:
      return models::Algorithm::kButterfly;
    case tune::kRabenseifner:
      return models::Algorithm::kRabenseifner;
    default:
      return models::Algorithm::kRing;
  }
}

/// Gloo halves and doubles up to about a million elements, and goes around a ring beyond (Goyal et al., 1706.02677).
constexpr double kGlooRingBytes = 4e6;

/// A flat algorithm on tiers. Where each rank has a link of its own, every message pays for the outermost one. Where
/// ranks share the link of their host, one message of a ring, a tree or a server is on it at a time; halving and
/// doubling with neighbours first shares it among the pairs that cross it. Nothing where these fold ranks: nobody says
/// which pairs share a link then.
std::optional<double> flat_seconds(models::Algorithm algorithm, const models::Cluster& cluster,
                                   const models::Link& alone, double bytes) {
  const int64_t ranks = ranks_of(cluster);
  const bool in_pairs = algorithm == models::Algorithm::kButterfly || algorithm == models::Algorithm::kRabenseifner;
  if (!in_pairs || !cluster.back().alone_s_per_byte) return allreduce_seconds(algorithm, ranks, bytes, alone);
  if (!std::has_single_bit(static_cast<uint64_t>(ranks))) return std::nullopt;
  const std::vector<int64_t> twos(static_cast<size_t>(std::countr_zero(static_cast<uint64_t>(ranks))), 2);
  const auto rounds = models::dimensions_of(twos, cluster);
  if (algorithm == models::Algorithm::kRabenseifner) return multi_ring_seconds(rounds, bytes);
  double seconds = 0;
  for (const models::Dimension& round : rounds) seconds += models::Work{1, bytes, bytes}.seconds(round.link);
  return seconds;
}

/// A dimension for each tier.
double hierarchical_seconds(const TieredCluster& cluster, double bytes) {
  std::vector<int64_t> counts;
  for (const models::Dimension& tier : cluster.tiers) counts.push_back(tier.ranks);
  return multi_ring_seconds(models::dimensions_of(counts, cluster.tiers), bytes);
}

/// Leaders alone use what leaves their group.
double leaders_seconds(const TieredCluster& cluster, double bytes) {
  std::vector<models::Dimension> tiers;
  for (size_t t = 0; t < cluster.tiers.size(); ++t) tiers.push_back({cluster.tiers[t].ranks, cluster.alone[t]});
  return leader_seconds(tiers, bytes);
}

void add_learners(const TieredCluster& cluster, const std::vector<int64_t>& learners, double bytes, double compute_s,
                  Answer& answer) {
  auto& table = answer.table("learners", "Communication overhead and scaling efficiency by learners",
                             {{"learners", "learners", Unit::kCount},
                              {"mpi_overhead_ratio", "MPI_Allreduce", Unit::kRatio},
                              {"mpi_efficiency_ratio", "efficiency", Unit::kRatio},
                              {"baidu_overhead_ratio", "Baidu ring", Unit::kRatio},
                              {"baidu_efficiency_ratio", "efficiency", Unit::kRatio},
                              {"gloo_overhead_ratio", "Gloo", Unit::kRatio},
                              {"gloo_efficiency_ratio", "efficiency", Unit::kRatio},
                              {"rings_overhead_ratio", "best rings", Unit::kRatio},
                              {"rings_efficiency_ratio", "efficiency", Unit::kRatio},
                              {"plan", "their plan", Unit::kText}});
  for (const int64_t count : learners) {
    const models::Cluster some =
        count == 1 ? models::Cluster{{1, cluster.alone[0]}} : models::first_ranks(cluster.tiers, count);
    if (some.empty())
      throw Error(fmt::format("{} learners do not fill whole groups of the tiers", count),
                  "such as 4, 8, 16, ... where a host has 4", ExitCode::kUsage);
    // The outermost link that so many learners use.
    const models::Link& alone = cluster.alone[some.size() - 1];
    const models::Algorithm mpi =
        as_model(count > 1 ? tune::openmpi_fixed_allreduce(count, std::llround(bytes)) : tune::kRing);
    const models::Algorithm gloo = bytes < kGlooRingBytes ? models::Algorithm::kRabenseifner : models::Algorithm::kRing;
    const models::RingPlan plan = models::best_ring_plans(some, bytes, 1)[0];
    std::vector<Value> row = {Value::count(count)};
    for (const auto& seconds :
         {flat_seconds(mpi, some, alone, bytes), flat_seconds(models::Algorithm::kRing, some, alone, bytes),
          flat_seconds(gloo, some, alone, bytes), std::optional(plan.seconds)}) {
      row.push_back(seconds ? Value::ratio(*seconds / compute_s) : Value::absent(Unit::kRatio));
      row.push_back(seconds ? Value::ratio(compute_s / (compute_s + *seconds)) : Value::absent(Unit::kRatio));
    }
    row.push_back(Value::text(plan.factors.empty() ? "-" : plan_text(plan.factors)));
    table.rows.push_back(std::move(row));
  }
  table.note =
      "Overhead: transfer over computing. Efficiency: computing over both, against one learner: nothing overlaps, and each computes as long "
      "as before. MPI_Allreduce: what Open MPI chooses by its built-in table. Gloo: halving and doubling below 4 MB, then a ring.";
}

}  // namespace

int model_allreduce(const std::vector<std::string>& arguments) {
  VerbOptions options = model_options(
      "allreduce", "[RUN] [options]",
      "Time of an allreduce by algorithm, from latency, bandwidth and speed of reduction; with RUN from those fitted to its transfer times. "
      "With --per-node, --tiers or --links also hierarchical ones, and rings over every ordered factorisation of the ranks.");
  options.add()("ranks", takes<int64_t>("P"), "how many")("bytes", takes<std::string>("N,..."),
                                                          "sizes of the buffer: 25e6, 25MB, 25MiB")(
      "per-node", takes<int64_t>("G"), "ranks on each node; --alpha-us and --bandwidth are then between nodes")(
      "inner-alpha-us", takes<double>("US"), "latency within a node")("inner-bandwidth", takes<double>("GB/S"),
                                                                      "of a rank's link within a node")(
      "tiers", takes<std::string>("COUNT:GB/S:US,..."), "innermost first, with what each rank gets of their links")(
      "learners", takes<std::string>("P,..."),
      "overhead and efficiency of so many of the ranks, the innermost tiers filled first")(
      "compute-ms", takes<double>("MS"), "for --learners: computing of a step");
  options.one_row({"ranks", "bytes"}, "how many; sizes of the buffer: 25e6, 25MB, 25MiB");
  options.one_row({"per-node", "inner-alpha-us", "inner-bandwidth"}, "ranks on a node; links within it");
  options.one_row({"learners", "compute-ms"}, "overhead and efficiency of so many ranks; computing of a step");
  add_link_options(options);
  add_topology_options(options, false);
  if (!options.parse(arguments)) return 0;
  Answer answer("allreduce");
  const auto run = maybe_run(options);
  RunSizes measured;
  if (run) measured = allreduces_of(*run);
  const auto typed_ranks = count_option(options, "ranks");
  const auto reduce = number_option(options, "reduce", 0, true);
  const auto tiers_text = options.maybe<std::string>("tiers");
  auto typed = tiers_text ? std::optional(typed_cluster(*tiers_text, reduce ? 1e-9 / *reduce : 0)) : std::nullopt;
  if (typed && options.has("links"))
    throw Error("--tiers and --links exclude each other", "leave --tiers out: the file of --links gives the tiers",
                ExitCode::kUsage);
  const auto seats = options.has("links") ? seats_of(options, run.get()) : std::nullopt;
  if (seats && typed_ranks)
    throw Error("--ranks and --links exclude each other",
                "leave --ranks out: there is a rank for each place of --links; --learners P,... asks for fewer",
                ExitCode::kUsage);
  const auto ranks_of_tiers = typed   ? std::optional(ranks_of(typed->tiers))
                              : seats ? std::optional(static_cast<int64_t>(seats->topology.places))
                                      : std::nullopt;
  const int64_t ranks = needed(ranks_of_tiers                       ? ranks_of_tiers
                               : typed_ranks || measured.ranks == 0 ? typed_ranks
                                                                    : std::optional(measured.ranks),
                               "ranks", "e.g. --ranks 16");
  std::vector<int64_t> sizes;
  if (const auto text = options.maybe<std::string>("bytes")) {
    sizes = parse_bytes_list(*text);
  } else {
    for (const auto& [bytes, seconds] : measured.transfer_s) sizes.push_back(bytes);
  }
  if (sizes.empty()) missing_option("bytes", "e.g. --bytes 1MiB,64MiB");
  answer.given("ranks", "ranks", Value::count(ranks));
  models::Link link;
  if (typed || seats) {
    link.gamma_s_per_byte = reduce ? 1e-9 / *reduce : 0;
  } else {
    link = link_of(options, run.get(), answer);
  }

  std::optional<TieredCluster> cluster = typed ? std::move(typed) : std::nullopt;
  if (seats) {
    cluster = cluster_of(seats->topology, link.gamma_s_per_byte);
    add_tier_table(answer, *seats);
  }
  if (const auto per_node = count_option(options, "per-node")) {
    if (cluster)
      throw Error("--per-node excludes --tiers and --links", "leave --per-node out: they say how many ranks a node has",
                  ExitCode::kUsage);
    if (ranks % *per_node != 0)
      throw Error(fmt::format("{} ranks do not fill nodes of {}", ranks, *per_node),
                  "make --ranks a multiple of --per-node", ExitCode::kUsage);
    if (ranks > models::kMostPlannedRanks)
      throw Error(fmt::format("too many ranks to search plans for: {}, at most {}", ranks, models::kMostPlannedRanks),
                  "leave --per-node out", ExitCode::kUsage);
    models::Link inner = typed_link(options, "inner-alpha-us", "inner-bandwidth", "reduce");
    inner.gamma_s_per_byte = link.gamma_s_per_byte;
    cluster = {{{*per_node, inner}, {ranks / *per_node, link}}, {inner, link}};
    answer.given("ranks_per_node", "on a node", Value::count(*per_node));
    answer.given("inner_alpha_ns", "there latency", seconds_value(inner.alpha_s));
    answer.given("inner_bandwidth_bytes_per_second", "bandwidth", Value::bandwidth(1 / inner.beta_s_per_byte));
  }
  if (const auto learners = options.maybe<std::string>("learners")) {
    const auto typed_ms = number_option(options, "compute-ms", 0, true);
    if (!typed_ms && !run) missing_option("compute-ms", "how long a learner computes in a step, or a recorded run");
    const double compute_s =
        typed_ms ? *typed_ms * 1e-3 : models::mean_step(run->view.db, run->view.world).parts.compute_s;
    answer.given("compute_ns", "computing", seconds_value(compute_s), typed_ms ? "" : "(of the run, mean step)");
    if (sizes.size() > 1)
      throw Error("--learners needs one size, not several", "--bytes: all gradients of a step", ExitCode::kUsage);
    add_learners(cluster.value_or(TieredCluster{{{ranks, link}}, {link}}), parse_counts(*learners),
                 static_cast<double>(sizes[0]), compute_s, answer);
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
    const auto add = [&](std::string_view name, std::optional<double> seconds) {
      row.push_back(seconds ? seconds_value(*seconds) : Value::absent(Unit::kDuration));
      if (seconds && *seconds < best) best = *seconds, best_name = name;
    };
    for (const models::Algorithm algorithm : models::kAlgorithms)
      add(models::name_of(algorithm), cluster ? flat_seconds(algorithm, cluster->tiers, cluster->alone.back(), bytes)
                                              : allreduce_seconds(algorithm, ranks, bytes, link));
    if (cluster) {
      add("hierarchical", hierarchical_seconds(*cluster, bytes));
      add("leaders", leaders_seconds(*cluster, bytes));
      add("rings", best_ring_plans(cluster->tiers, bytes, 1)[0].seconds);
    }
    if (!cluster) row.push_back(seconds_value(lower_bound_seconds(ranks, bytes, link)));
    row.push_back(Value::text(best_name));
    if (run) {
      const auto found = std::find_if(measured.transfer_s.begin(), measured.transfer_s.end(),
                                      [&](const auto& m) { return m.first == size; });
      const bool same = found != measured.transfer_s.end() && ranks == measured.ranks;
      row.push_back(same ? seconds_value(found->second) : Value::absent(Unit::kDuration));
    }
    table.rows.push_back(std::move(row));
  }
  if (std::has_single_bit(static_cast<uint64_t>(ranks)) && ranks > 1 && !cluster) {
    const double crossover = butterfly_to_rabenseifner_bytes(ranks, link);
    if (std::isfinite(crossover))
      answer.note(
          fmt::format("Rabenseifner beats the butterfly from {} on.", reports::size_text(std::llround(crossover))));
  }
  if (cluster)
    answer.note(
        seats
            ? "Ranks of a host share its link: a ring, a tree or a server has one message on it at a time, pairwise exchanges have all that cross it."
            : "In flat algorithms every message pays for the outermost link.");
  if (cluster) add_plans(cluster->tiers, static_cast<double>(*std::max_element(sizes.begin(), sizes.end())), answer);
  answer.note(
      "The models know neither congestion nor implementations: in them ring never beats Rabenseifner, on machines it does.");
  return answer.print(options);
}

int model_fit(const std::vector<std::string>& arguments) {
  VerbOptions options = model_options(
      "fit", "[RUN] [options]",
      "Latency (alpha), bandwidth (1/beta) and speed of reduction (1/gamma) from transfer times, without waiting for late ranks: two fits where "
      "small and large operations go by different protocols, and one for each tier of links of several hosts or --links. Exit code 3: the data "
      "cannot carry a fit.");
  options.add()("csv", takes<std::string>("FILE"), "without a run: columns bytes, time_us, and if wanted ranks, op")(
      "ranks", takes<int64_t>("P"), "of a CSV without column ranks")("reduce", takes<double>("GB/S"),
                                                                     "speed of reduction, if known: not fitted then")(
      "algorithm", takes<std::string>("NAME", "ring"), "parameter_server, tree, butterfly, rabenseifner, ring");
  options.one_of("algorithm", algorithm_names());
  add_topology_options(options, false);
  if (!options.parse(arguments)) return 0;
  const auto csv = options.maybe<std::string>("csv");
  const auto run = maybe_run(options);
  if (csv.has_value() == (run != nullptr))
    throw Error("name either a run or --csv FILE", "e.g. ddl model fit job.ddl", ExitCode::kUsage);
  std::vector<models::MeasuredCollective> collectives;
  if (run) {
    collectives = models::measured_collectives(run->view.db, run->view.world);
  } else {
    const CsvTable table = CsvTable::read(*csv);
    for (size_t r = 0; r < table.rows(); ++r) {
      models::MeasuredCollective& one = collectives.emplace_back();
      one.op = table.has("op") ? table.text(r, "op") : "MPI_Allreduce";
      const int64_t ranks = table.has("ranks")
                                ? static_cast<int64_t>(table.number(r, "ranks"))
                                : needed(count_option(options, "ranks", 2), "ranks", "or a column ranks in the CSV");
      one.sample = {models::collective_of(one.op).value_or(models::Collective::kAllreduce), ranks,
                    table.number(r, "bytes"), table.number(r, "time_us") * 1e-6, 1};
    }
  }
  const models::Algorithm algorithm = algorithm_option(options);
  const auto reduce = number_option(options, "reduce", 0, true);
  if (csv && options.has("links"))
    throw Error("--links and --csv exclude each other", "leave --links out: times in a CSV file belong to no rank",
                ExitCode::kUsage);
  const auto seats = run ? seats_of(options, run.get()) : std::nullopt;
  const bool has_tiers = seats && seats->topology.tiers.size() > 1;

  Answer answer("fit");
  std::vector<models::LinkFit> fits;
  try {
    fits = fit_links(samples_of(collectives), algorithm, reduce ? std::optional(1e-9 / *reduce) : std::nullopt);
  } catch (const Error& error) {  // several tiers may follow a law each, and none together
    if (!has_tiers ||
        std::none_of(seats->fits.begin(), seats->fits.end(), [](const auto& tier) { return tier.fit.has_value(); }))
      throw;
    answer.note(fmt::format("All links together: {}.", error.what()));
  }
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
    result.rows.push_back(
        {Value::bytes(std::llround(fit.from_bytes)), Value::bytes(std::llround(fit.to_bytes)),
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
    if (!models::collective_of(op) || fits.empty()) continue;
    const models::LinkFit& fit = sample.bytes <= fits.front().to_bytes ? fits.front() : fits.back();
    const double fitted = collective_work(sample.collective, algorithm, sample.ranks, sample.bytes).seconds(fit.link);
    points.rows.push_back({Value::text(op), Value::count(sample.ranks), Value::bytes(std::llround(sample.bytes)),
                           Value::count(std::llround(sample.instances)), seconds_value(sample.transfer_s),
                           seconds_value(fitted), Value::ratio(fitted / sample.transfer_s - 1)});
  }
  if (has_tiers) {
    add_tier_table(answer, *seats);
    answer.note(
        "By tier: collectives and messages that need this tier and no wider one. A flat collective pays for its widest tier all the way.");
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
