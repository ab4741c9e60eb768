// ddl model consistency: recorded computing and transfers under other rules of who waits for whom.
#include <fmt/format.h>

#include <cmath>
#include <optional>

#include "analyzer/csv_table.h"
#include "analyzer/models/run_consistency.h"
#include "cli/model.h"
#include "core/error.h"
#include "core/number.h"
#include "reports/format.h"

namespace ddl::cli {
namespace {

using models::Consistency;
using models::ConsistencyRule;
using reports::Unit;
using reports::Value;

constexpr const char* kRuleHint = "sync, ssp:S, async, async:SERVERS, gossip, easgd:TAU, local:H, partial:K";
/// A replay that is further from the recording than this says little.
constexpr double kFarFromRecordedStep = 0.05;

struct NamedRule {
  std::string name;
  ConsistencyRule rule;
};

struct RuleWord {
  std::string_view word;
  Consistency kind;
  bool takes_value;
  int64_t without;  ///< the value of the word alone; -1: it needs one
};
constexpr RuleWord kRuleWords[] = {
    {"sync", Consistency::kSynchronous, false, 0},  {"ssp", Consistency::kBounded, true, -1},
    {"async", Consistency::kAsynchronous, true, 1}, {"gossip", Consistency::kGossip, false, 0},
    {"easgd", Consistency::kElastic, true, -1},     {"local", Consistency::kLocal, true, -1},
    {"partial", Consistency::kPartial, true, -1}};

NamedRule parse_rule(const std::string& text) {
  const std::string_view word = std::string_view(text).substr(0, text.find(':'));
  const std::string_view value = word.size() < text.size() ? std::string_view(text).substr(word.size() + 1) : "";
  for (const RuleWord& known : kRuleWords) {
    if (word != known.word) continue;
    const auto number = word.size() == text.size() ? known.without
                        : known.takes_value        ? number_in<int64_t>(value).value_or(-1)
                                                   : -1;
    if (number >= 0) return {text, {known.kind, number}};
  }
  throw Error(fmt::format("--rules: unknown rule '{}'", text), kRuleHint, ExitCode::kUsage);
}

std::vector<NamedRule> rules_of(const VerbOptions& options, size_t ranks) {
  std::vector<NamedRule> rules;
  if (const auto typed = options.maybe<std::string>("rules")) {
    for (const std::string& text : split_list(*typed)) rules.push_back(parse_rule(text));
  } else {
    for (const char* text : {"sync", "ssp:0", "ssp:1", "ssp:4", "async", "gossip", "easgd:4", "local:4"})
      rules.push_back(parse_rule(text));
    if (ranks > 1)
      rules.push_back(parse_rule(fmt::format("async:{}", ranks))), rules.push_back(parse_rule("partial:1"));
  }
  const std::string name = options.get<std::string>("graph");
  std::vector<std::pair<size_t, size_t>> graph;
  if (name.ends_with(".csv")) {
    const CsvTable table = CsvTable::read(name);
    for (size_t r = 0; r < table.rows(); ++r) {
      const double from = table.number(r, "from"), to = table.number(r, "to");
      if (from < 0 || to < 0 || from != std::floor(from) || to != std::floor(to))
        throw Error(fmt::format("{}: row {} does not join two ranks", name, r + 1),
                    "columns from and to hold whole numbers from 0", ExitCode::kUsage);
      graph.emplace_back(static_cast<size_t>(from), static_cast<size_t>(to));
    }
  } else {
    graph = models::gossip_graph(name, ranks);
  }
  for (NamedRule& rule : rules) rule.rule.graph = graph;
  return rules;
}

models::ConsistencyJob typed_job(const VerbOptions& options) {
  constexpr const char* kHint =
      "milliseconds that each rank computes in a step, above 0: 10,10,10,14; or a recorded run";
  models::ConsistencyJob job;
  for (const std::string& text : split_list(needed(options.maybe<std::string>("compute-ms"), "compute-ms", kHint))) {
    const auto ms = number_in<double>(text);
    if (!(ms > 0) || !std::isfinite(*ms))
      throw Error(fmt::format("--compute-ms: invalid time '{}'", text), kHint, ExitCode::kUsage);
    job.compute_s.emplace_back(100, *ms * 1e-3);
  }
  const double transfer_ms =
      needed(number_option(options, "transfer-ms", 0), "transfer-ms", "exchanging the gradients of a step");
  job.exchange_s.assign(100, transfer_ms * 1e-3);
  return job;
}

void add_staleness(Answer& answer, const std::vector<std::pair<std::string, models::ConsistencyReplay>>& replays) {
  constexpr std::pair<size_t, size_t> kBins[] = {{0, 0}, {1, 1}, {2, 2},  {3, 3},
                                                 {4, 4}, {5, 8}, {9, 16}, {17, SIZE_MAX}};
  std::vector<reports::Column> columns{{"rule", "rule", Unit::kText}};
  for (const auto& [from, to] : kBins) {
    const std::string title = from == to       ? fmt::format("{}", from)
                              : to == SIZE_MAX ? fmt::format("{} on", from)
                                               : fmt::format("{}-{}", from, to);
    columns.push_back({fmt::format("from_{}_ratio", from), title, Unit::kRatio});
  }
  columns.push_back({"most", "most", Unit::kCount});
  auto& table = answer.table(
      "staleness", "Staleness: share of steps that began so many steps ahead of the slowest rank", std::move(columns));
  for (const auto& [name, replay] : replays) {
    double all = 0;
    for (const int64_t count : replay.staleness) all += static_cast<double>(count);
    std::vector<Value> row{Value::text(name)};
    for (const auto& [from, to] : kBins) {
      double in = 0;
      for (size_t n = from; n < replay.staleness.size() && n <= to; ++n) in += static_cast<double>(replay.staleness[n]);
      row.push_back(Value::ratio(in / all));
    }
    row.push_back(Value::count(static_cast<int64_t>(replay.staleness.size()) - 1));
    table.rows.push_back(std::move(row));
  }
  table.note = "Partial collectives: exchanged so many collectives late.";
}

void say_losses(Answer& answer, const models::RunConsistency& recorded,
                const std::vector<std::pair<int64_t, double>>& losses) {
  if (losses.size() < 2) {
    answer.note(
        "What staleness costs in steps until the model is as good (statistical efficiency) is unknown: the run reports no losses "
        "(ddl_value(\"loss\")).");
    return;
  }
  answer.given("first_loss", "loss", Value::number(losses.front().second),
               fmt::format("in step {}", losses.front().first));
  answer.given("last_loss", "then", Value::number(losses.back().second),
               fmt::format("in step {}", losses.back().first));
  answer.note(fmt::format(
      "These losses are of the rule {}. How many more steps another rule needs for the same loss is unknown until it is recorded as well.",
      recorded.server ? "that was recorded" : "sync"));
}

void say_where_from(Answer& answer, const models::RunConsistency& recorded, double synchronous_s) {
  answer.given("recorded_step_ns", "recorded step", seconds_value(recorded.recorded_step_s));
  answer.given("steps", "steps", Value::count(static_cast<int64_t>(recorded.steps.size())));
  if (recorded.server)
    answer.given("servers", "parameter servers", Value::text("rank " + reports::rank_list(recorded.server->servers)),
                 "(by its messages; not among the ranks that are replayed)");
  if (recorded.overlapped)
    answer.note(
        "Gradients move behind the computing: only their exposed transfer is replayed, so the bandwidth is too high.");
  if (const double off = synchronous_s / recorded.recorded_step_s - 1;
      !recorded.server && std::abs(off) > kFarFromRecordedStep)
    answer.note(fmt::format(
        "sync is {:+.1f}% off the recorded step: ranks meet more than once a step, or between steps. Expect errors of that size.",
        100 * off));
}

}  // namespace

int model_consistency(const std::vector<std::string>& arguments) {
  VerbOptions options = model_options(
      "consistency", "[RUN] [options]",
      "Replays what each rank computed and transferred under other rules: synchronous; ssp:S, nobody begins a step more than S ahead of the "
      "slowest; async with a parameter server, async:N with N; gossip with neighbours in a graph; easgd:TAU, a centre every TAU steps; "
      "local:H, averaging every H steps; partial:K, not waiting for the slowest K.");
  options.add()("rules", takes<std::string>("LIST"), kRuleHint)(
      "graph", takes<std::string>("NAME", "ring"),
      "of gossip: ring, hypercube, all, or a FILE.csv with columns from, to")(
      "bytes", takes<std::string>("SIZE"), "gradients of a step; default: what the run's ranks reduce or push")(
      "alpha-us", takes<double>("US", 0), "latency of a message")(
      "bandwidth", takes<double>("GB/S"),
      "of each direction of a link; default: what a ring had that took the "
      "run's transfer times")("compute-ms", takes<std::string>("LIST"),
                              "without RUN: computing of each rank in a step")("transfer-ms", takes<double>("MS"),
                                                                               "without RUN: exchanging gradients");
  options.suggest("rules", {"sync", "ssp:1", "ssp:4", "async", "gossip", "easgd:4", "local:4", "partial:1"}, true);
  if (!options.parse(arguments)) return 0;
  const auto run = maybe_run(options);
  if (run && (options.has("compute-ms") || options.has("transfer-ms")))
    throw Error("--compute-ms and --transfer-ms exclude RUN", "leave them out: the run has its own times",
                ExitCode::kUsage);
  std::optional<models::RunConsistency> recorded;
  if (run) recorded = models::run_consistency(run->view.db, run->view.world);
  models::ConsistencyJob job = recorded ? recorded->job : typed_job(options);
  if (const auto bytes = bytes_option(options, "bytes")) job.bytes = *bytes;
  if (job.bytes <= 0)
    missing_option("bytes", run ? "no gradients were seen in the run's steps" : "gradients of a step");
  models::set_ring_bandwidth(job);
  job.alpha_s = *number_option(options, "alpha-us", 0) * 1e-6;
  if (const auto bandwidth = number_option(options, "bandwidth", 0, true)) job.beta_s_per_byte = 1e-9 / *bandwidth;
  const std::vector<NamedRule> rules = rules_of(options, job.compute_s.size());

  Answer answer("consistency");
  const double synchronous_s = replay_consistency(job, {}).step_s;
  answer.given("ranks", "ranks", Value::count(static_cast<int64_t>(job.compute_s.size())));
  answer.given("bytes", "gradients", Value::bytes(std::llround(job.bytes)));
  if (job.beta_s_per_byte > 0)
    answer.given("bandwidth_bytes_per_second", "bandwidth", Value::bandwidth(1 / job.beta_s_per_byte));
  if (recorded) say_where_from(answer, *recorded, synchronous_s);
  auto& table = answer.table("consistency", "What a step would take, and what a rank would do in it",
                             {{"rule", "rule", Unit::kText},
                              {"step_ns", "step", Unit::kDuration},
                              {"throughput_factor", "throughput", Unit::kNumber},
                              {"idle_ratio", "idle", Unit::kRatio},
                              {"transfer_ratio", "transferring", Unit::kRatio},
                              {"missed_updates", "updates missed", Unit::kNumber, 3},
                              {"sent_bytes", "sent by a rank", Unit::kBytes, 5},
                              {"server_bytes", "into a server", Unit::kBytes, 4}});
  std::vector<std::pair<std::string, models::ConsistencyReplay>> replays;
  for (const NamedRule& rule : rules) {
    const models::ConsistencyReplay replay = replay_consistency(job, rule.rule);
    const bool counts_updates = rule.rule.kind == Consistency::kAsynchronous || rule.rule.kind == Consistency::kElastic;
    table.rows.push_back(
        {Value::text(rule.name), seconds_value(replay.step_s), Value::number(synchronous_s / replay.step_s),
         Value::ratio(replay.idle_ratio), Value::ratio(replay.transfer_ratio),
         counts_updates ? Value::number(replay.missed_updates) : Value::absent(Unit::kNumber, "NOT_APPLICABLE"),
         Value::bytes(std::llround(replay.sent_bytes)),
         replay.server_bytes > 0 ? Value::bytes(std::llround(replay.server_bytes))
                                 : Value::absent(Unit::kBytes, "NOT_APPLICABLE")});
    replays.emplace_back(rule.name, replay);
  }
  table.note =
      "A step: as many steps as there are ranks, whoever does them. Throughput: against sync. Updates missed: by others, between reading and changing.";
  add_staleness(answer, replays);
  if (recorded) {
    say_losses(answer, *recorded, models::reported_losses(run->view.db, run->view.world));
  } else {
    answer.note(
        "Not included: the extra steps that staleness costs until the model is as good (statistical efficiency).");
  }
  answer.note(
      "sync, partial and local exchange by the recorded transfers; with ssp each rank pays for them itself, through servers. Servers are machines beside the ranks, with one message at a time in each direction; changing parameters is free.");
  return answer.print(options);
}

}  // namespace ddl::cli
