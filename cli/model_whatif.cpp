// ddl model whatif: the recorded steps replayed with other durations, and what has to answer for their slowness.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <utility>

#include "analyzer/models/rank_saving.h"
#include "analyzer/models/replay_imported.h"
#include "analyzer/models/replay_operators.h"
#include "analyzer/models/replay_run.h"
#include "analyzer/models/what_if.h"
#include "analyzer/passes/catalog.h"
#include "analyzer/query.h"
#include "cli/model.h"
#include "core/error.h"
#include "reports/format.h"

namespace ddl::cli {
namespace {

using reports::Unit;
using reports::Value;

constexpr size_t kShownRanks = 8;

/// A straggler that the report names.
struct Straggler {
  int64_t rank = 0;
  double saving_s = 0;
};

/// The first of all steps' (from a step on, its saving is of other steps than those that are replayed here).
std::optional<Straggler> straggler_of(SQLite::Database& db, int64_t world, std::optional<int64_t> rank) {
  Query row(db, R"(
    SELECT f.rank, f.saving_ns
    FROM finding f
    JOIN finding_about a ON a.position = f.position
    WHERE f.id = 'straggler' AND f.world = ?1 AND f.rank = coalesce(?2, f.rank) AND f.saving_ns > 0 AND a.since IS NULL
    ORDER BY f.position
    LIMIT 1)");
  row.bind(world, rank);
  if (!row.next()) return std::nullopt;
  return Straggler{row.integer(0), row.real(1) * 1e-9};
}

/// What mending the rank saves, as its finding says (specification.md J8): of non-blocking transfers a replay
/// knows bounds only.
double saving_of_rank(const ModelRun& run, const models::RunReplay& recorded, int64_t rank) {
  const double replayed_s = models::seconds_saved(recorded, healthy_rank(recorded.replay, rank));
  const auto found = recorded.nonblocking ? straggler_of(run.view.db, run.view.world, rank) : std::nullopt;
  return found ? std::max(found->saving_s, replayed_s) : replayed_s;
}

void add_scenarios(Answer& answer, const ModelRun& run, const models::RunReplay& recorded, double now_s,
                   const VerbOptions& options, int64_t worst_rank) {
  const models::Replay& replay = recorded.replay;
  auto& table = answer.table("whatif", "What if",
                             {{"scenario", "scenario", Unit::kText},
                              {"step_ns", "step", Unit::kDuration},
                              {"change_ratio", "change", Unit::kRatio},
                              {"throughput_factor", "throughput", Unit::kNumber}});
  const auto add = [&](const std::string& scenario, double step_s, double batch) {
    table.rows.push_back({Value::text(scenario), seconds_value(step_s), Value::ratio(step_s / now_s - 1),
                          Value::number(batch * now_s / step_s)});
  };
  const auto replayed = [&](const std::vector<double>& durations) { return replay.mean_step_seconds(durations); };
  const double network = *number_option(options, "network", 0, true), batch = *number_option(options, "batch", 0, true);
  const int64_t rank = count_option(options, "healthy", 0).value_or(worst_rank);
  add("as recorded", now_s, 1);
  add(fmt::format("network x{:g}", network), replayed(faster_network(replay, network)), 1);
  add(fmt::format("rank {} as the others", rank), now_s - saving_of_rank(run, recorded, rank), 1);
  add("all computing at its mean", replayed(balanced(replay)), 1);
  add("transfers hidden", overlapped_step_seconds(replay), 1);
  add(fmt::format("batch x{:g}", batch), replayed(larger_batch(replay, batch, recorded.within_s)), batch);
}

void add_shares(Answer& answer, const models::Slowdown& slowdown) {
  auto& table = answer.table(
      "slowdown", "Slowdown against a job in which every operation takes what its kind does in the mean (R5, R6)",
      {{"what", "what is not ideal", Unit::kText},
       {"slowdown", "slowdown", Unit::kFactor},
       {"wasted_ratio", "wasted", Unit::kRatio}});
  const auto add = [&](const std::string& what, double factor) {
    table.rows.push_back({Value::text(what), Value::factor(factor), Value::ratio(1 - 1 / factor)});
  };
  add("everything (S)", slowdown.slowdown);
  for (const models::SlowdownShare& type : slowdown.types) add("only " + type.name, type.slowdown);
  for (size_t i = 0; i < std::min(kShownRanks, slowdown.ranks.size()); ++i)
    add(fmt::format("only rank {}", slowdown.ranks[i].number), slowdown.ranks[i].slowdown);
  for (const models::SlowdownShare& stage : slowdown.stages)
    add(fmt::format("only stage {}", stage.number), stage.slowdown);
  if (slowdown.ranks.size() > kShownRanks)
    table.note = fmt::format("The {} worst of {} ranks.", kShownRanks, slowdown.ranks.size());
  const auto repaired = [](const std::optional<double>& share) {
    return share ? Value::ratio(*share) : Value::absent(Unit::kRatio, "ZERO_DENOM");
  };
  const std::vector<int64_t>& worst = slowdown.worst_ranks;
  const std::string who = fmt::format("rank {} would repair", worst.front());
  if (worst.size() == 1) {
    answer.given("fixed_by_ranks_ratio", who, repaired(slowdown.fixed_by_ranks), "of the slowness (M_W)");
  } else {
    answer.given("fixed_by_worst_rank_ratio", who, repaired(slowdown.fixed_by_worst_rank), "of the slowness");
    answer.given("fixed_by_ranks_ratio", fmt::format("the {} worst ranks", worst.size()),
                 repaired(slowdown.fixed_by_ranks), "of it (M_W)");
  }
  if (slowdown.fixed_by_last_stage)
    answer.given("fixed_by_last_stage_ratio", "the last stage", Value::ratio(*slowdown.fixed_by_last_stage),
                 "of it (M_S)");
}

/// --operator: the steps of a job with GPUs, with operators that take another time.
int answer_operator(const VerbOptions& options, const ModelRun& run, const std::string& name) {
  const double scale = *number_option(options, "scale", 0);
  if (scale > 1)
    throw Error("--scale is a share of the operator's time: 0 to 1", "0.5 is half of it, 0 is without it",
                ExitCode::kUsage);
  const std::optional<models::IsOfOperator> is_of = models::operator_named(run.view.db, name);
  const auto unknown = [&](const char* what) {
    return Error(fmt::format("{} '{}'", what, name),
                 did_you_mean(name, models::names_of_operators(run.view.db), "see: ddl report what_if"),
                 ExitCode::kUsage);
  };
  if (!is_of) throw unknown("there is no kernel, operator, layer or phase");
  const Catalog catalog(run.view.db);
  const models::OperatorReplay replay(run.view.db, catalog, run.view.world);
  const int64_t operations = replay.operations(*is_of);
  if (operations == 0) throw unknown("in the steady steps no GPU does anything for");
  const double saving_s = std::max(0.0, replay.saving_s(*is_of, scale)), now_s = replay.replayed_step_s();
  Answer answer("whatif");
  answer.given("recorded_step_ns", "recorded step", seconds_value(replay.recorded_step_s()));
  answer.given("replayed_step_ns", "replayed", seconds_value(now_s));
  answer.given("steps", "steps", Value::count(replay.steps()));
  answer.given("operations", "operations a step", Value::count(operations / std::max<int64_t>(1, replay.steps())),
               "(all ranks)");
  auto& table = answer.table("whatif", "What if",
                             {{"scenario", "scenario", Unit::kText},
                              {"step_ns", "step", Unit::kDuration},
                              {"saving_ns", "saves", Unit::kDuration},
                              {"change_ratio", "change", Unit::kRatio}});
  table.rows.push_back({Value::text("as recorded"), seconds_value(now_s), seconds_value(0), Value::ratio(0)});
  table.rows.push_back({Value::text(fmt::format("{} x{:g}", name, scale)), seconds_value(now_s - saving_s),
                        seconds_value(saving_s), Value::ratio(saving_s > 0 ? -saving_s / now_s : 0)});
  if (std::abs(now_s / replay.recorded_step_s() - 1) > models::kFarFromRecorded)
    answer.note(fmt::format(
        "The replay is {:+.1f}% off the recording: something outside the model delays the ranks. Expect errors of that size.",
        100 * (now_s / replay.recorded_step_s() - 1)));
  answer.note(
      "On the GPUs of all ranks; hosts launch at their recorded pace. ddl report what_if lists the operators with most on the path.");
  return answer.print(options);
}

}  // namespace

int model_whatif(const std::vector<std::string>& arguments) {
  VerbOptions options = model_options(
      "whatif", "[RUN] [options]",
      "Replays the recorded steps with other durations, transfers without the waiting in them: that is what comes out. Then how much slower "
      "the job is than one in which every operation takes what its kind does in the mean (computing) or median (transfers), and how much "
      "of that each type of operation and each rank would cause alone.");
  options.add()("network", takes<double>("X", 2), "transfers so many times as fast")(
      "batch", takes<double>("X", 2), "so many times the batch: computing in proportion")(
      "healthy", takes<int64_t>("RANK"),
      "which rank would compute as the others do; default: the straggler of the report, or the worst")(
      "operator", takes<std::string>("NAME"),
      "instead: kernels of that name, or that operators or layers of it launched, would take")(
      "scale", takes<double>("X", 0.5), "so much of their time, 0 to 1");
  if (!options.parse(arguments)) return 0;
  ModelRun run(options.words().empty() ? "" : options.words()[0], options.maybe<int64_t>("world"));
  if (const auto name = options.maybe<std::string>("operator")) return answer_operator(options, run, *name);
  std::optional<models::ImportedReplay> imported = models::imported_replay(run.view.db, run.view.world);
  const models::RunReplay recorded =
      imported ? std::move(imported->run)
               : models::replay_run(run.view.db, run.view.world, models::regions_of_samples(run.view.db));
  const std::map<int64_t, int64_t> stages =
      imported ? std::move(imported->stages) : models::stages_of(run.view.db, run.view.world);
  const std::function<int64_t(int64_t)> stage_of = [&](int64_t rank) { return stages.at(rank); };
  const models::Slowdown slowdown = slowdown_of(recorded.replay, stages.empty() ? nullptr : stage_of);
  Answer answer("whatif");
  answer.given("recorded_step_ns", "recorded step", seconds_value(recorded.recorded_step_s));
  answer.given("replayed_step_ns", "replayed", seconds_value(slowdown.step_s));
  answer.given("ideal_step_ns", "ideal", seconds_value(slowdown.ideal_step_s));
  answer.given("steps", "steps", Value::count(recorded.steps),
               recorded.left_out > 0 ? fmt::format("(the last; {} before them left out)", recorded.left_out) : "");
  const std::optional<Straggler> straggler = straggler_of(run.view.db, run.view.world, {});
  add_scenarios(answer, run, recorded, slowdown.step_s, options,
                straggler ? straggler->rank : slowdown.ranks[0].number);
  add_shares(answer, slowdown);
  const double off = slowdown.step_s / recorded.recorded_step_s - 1;
  if (std::abs(off) > models::kFarFromRecorded)
    answer.note(fmt::format(
        "The replay is {:+.1f}% off the recording: something outside the model delays the ranks. Expect errors of that size.",
        100 * off));
  if (recorded.nonblocking)
    answer.note("Transfers of non-blocking operations that ended while a rank computed are upper bounds.");
  answer.note(fmt::format(
      "A faster network does not make a late rank earlier; a larger batch is taken to compute in proportion{}.",
      recorded.within_s.empty() ? "" : ", but for what is in neither forward, backward nor loading"));
  return answer.print(options);
}

}  // namespace ddl::cli
