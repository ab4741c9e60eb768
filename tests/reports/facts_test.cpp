// One set of facts under every output: over generated runs - host only, GPUs, damaged, without steps - all outputs show
// the same numbers, the parts of a step add up to 1, and the verdict follows from the shares that are shown. Shares are
// also computed as plain sums over step_part and gpu_part, and known beforehand for a job in words.
#include "analyzer/facts.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <regex>

#include "analyzer/analyze.h"
#include "analyzer/models/run_facts.h"
#include "reports/html/figure.h"
#include "reports/job_numbers.h"
#include "reports/json.h"
#include "reports/overview.h"
#include "reports/prometheus.h"
#include "reports/text.h"
#include "store/database.h"
#include "store/ingest.h"
#include "store/run_directory.h"
#include "tests/support/synthetic_run.h"
#include "tests/support/training_job.h"

namespace ddl::reports {
namespace {

using nlohmann::json;

/// A share as screens print it is off its exact value by less than a tenth of a percent, so that all of them
/// add up (round_shares).
constexpr double kRounding = 0.001;

class OneSetOfFacts {
 public:
  /// `change`: SQL on what was recorded.
  explicit OneSetOfFacts(const std::filesystem::path& folder, const std::string& change = "")
      : db_(open(folder, change)), view_(db_, std::nullopt) {}

  /// Every output against the facts. Returns the verdict's name.
  std::string check() {
    const RunView another(db_, std::nullopt);  // a view only reads: there may be several
    EXPECT_EQ(another.facts.step.p99_ns, view_.facts.step.p99_ns);
    const Document document = build_everything(view_, "job.ddl");
    json_ = json::parse(render_json(document));
    text_ = render_text(build_overview(view_, "job.ddl"), {.width = 200, .color = false});
    line_ = render_one_line(build_overview(view_, "job.ddl"));
    numbers_ = job_numbers(view_, "job.ddl");
    shares_add_up();
    steps_are_the_same();
    shares_are_a_plain_sum();
    figures_show_them();
    models_read_them();
    return verdict_follows_from_shares();
  }

  double shown(const char* key) const { return json_["where_it_goes"][key].get<double>(); }
  bool is_unknown(const char* key) const { return json_["where_it_goes"][key].is_null(); }
  const json& outputs_json() const { return json_; }
  const std::string& text() const { return text_; }
  const std::string& one_line() const { return line_; }
  std::string prometheus() const { return render_prometheus(numbers_, {}); }
  Resource resource() const { return view_.facts.resource; }
  const std::vector<RankFacts>& ranks() const { return view_.facts.ranks; }

 private:
  static SQLite::Database open(const std::filesystem::path& folder, const std::string& change) {
    const RunDirectory directory = find_run(folder.string());
    ingest(directory);
    SQLite::Database db = open_store(directory.store, Access::kReadWrite);
    db.exec(change);
    analyze(db);
    return db;
  }

  void shares_add_up() {
    if (!json_.contains("where_it_goes")) return;
    const json& where = json_["where_it_goes"];
    double sum = 0;
    for (const auto& [key, value] : where.items()) {
      if (!key.ends_with("_ratio") || value.is_null()) continue;
      sum += value.get<double>();
      EXPECT_GE(value.get<double>(), 0) << key;
    }
    EXPECT_NEAR(sum, 1, 1e-9) << where.dump();
    double whole = 0;
    for (const auto& [part, share] : numbers_.shares) whole += share;
    EXPECT_NEAR(whole, 1, 1e-9) << "Prometheus";
    const auto part = [&](const char* name) {
      for (const auto& [known, share] : numbers_.shares)
        if (known == name) return share;
      return 0.0;
    };
    // Computing is two parts of kTimeParts.
    const auto where_rounding = [](std::string_view key) { return (key == "compute_ratio" ? 2 : 1) * kRounding; };
    const auto same = [&](const char* key, double share) {
      if (!where.contains(key) || where[key].is_null()) return;
      EXPECT_NEAR(where[key].get<double>(), share, where_rounding(key)) << key;
      const std::string printed = fmt::format("{:.1f}%", where[key].get<double>() * 100);
      EXPECT_NE(text_.find(printed), std::string::npos) << key << " " << printed << " in\n" << text_;
      if (where[key].get<double>() < 0.001) return;  // left out of the one line
      EXPECT_NE(line_.find(printed), std::string::npos) << key << " " << printed << " in " << line_;
    };
    same("compute_ratio", part("compute") + part("compute_and_communication"));
    same("exposed_transfer_ratio", part("transfer"));
    same("waiting_ratio", part("waiting"));
    same("not_split_ratio", part("not_split"));
    same("exposed_ratio", part("communication"));
    same("copy_ratio", part("copy"));
    same("idle_ratio", part("idle"));
  }

  void steps_are_the_same() {
    const StepFacts& step = view_.facts.step;
    if (!step.has_steps) return;
    EXPECT_EQ(json_["step"]["p50_ns"], *step.p50_ns);
    EXPECT_EQ(json_["step"]["p99_ns"], *step.p99_ns);
    EXPECT_EQ(json_["step"]["steps"], step.used);
    EXPECT_EQ(numbers_.step_p99_ns, static_cast<double>(*step.p99_ns));
    ASSERT_EQ(json_["ranks"].size(), numbers_.by_rank.size());
    for (size_t i = 0; i < numbers_.by_rank.size(); ++i) {
      const json& row = json_["ranks"][i];
      EXPECT_EQ(row["rank"], numbers_.by_rank[i].rank);
      EXPECT_EQ(row["host"], numbers_.by_rank[i].node);
      EXPECT_EQ(row["wait_ns"].is_null(), !numbers_.by_rank[i].wait_ns.has_value());
      EXPECT_EQ(row["wait_ns"].is_null() ? 0 : row["wait_ns"].get<double>(), numbers_.by_rank[i].wait_ns.value_or(0));
    }
  }

  double scalar(const std::string& sql) { return db_.execAndGet(sql).getDouble(); }

  void shares_are_a_plain_sum() {
    const JobTime& threads = view_.facts.threads;
    const std::string steady =
        " FROM step_part t JOIN process p ON p.id = t.process WHERE p.rank IS NOT NULL AND t.step IN (SELECT step FROM"
        " steady_number)";
    if (!view_.facts.step.has_steps) return;
    EXPECT_DOUBLE_EQ(threads.sum.computing_ns(), scalar("SELECT total(t.compute_ns)" + steady));
    EXPECT_DOUBLE_EQ(threads.sum.communication_ns(), scalar("SELECT total(t.exposed_ns)" + steady));
    EXPECT_DOUBLE_EQ(threads.sum.wait_ns, scalar("SELECT total(t.wait_ns)" + steady));
    EXPECT_DOUBLE_EQ(threads.sum.unsplit_ns, scalar("SELECT total(iif(t.wait_ns IS NULL, t.exposed_ns, 0))" + steady));
    const JobTime& headline = view_.facts.headline;
    const std::string by_device = "SELECT rank FROM rank_resource WHERE resource = 'device'";
    EXPECT_DOUBLE_EQ(
        headline.sum.computing_ns(),
        scalar("SELECT total(t.compute_ns)" + steady + " AND p.rank NOT IN (" + by_device + ")") +
            scalar("SELECT total(g.compute_ns) FROM gpu_part g JOIN process p ON p.id = g.process AND p.rank IN (" +
                   by_device + ") WHERE g.step IN (SELECT step FROM steady_number)"));
    const JobTime& devices = view_.facts.devices;
    const std::string gpus = " FROM gpu_part g WHERE g.step IN (SELECT step FROM steady_number)";
    EXPECT_DOUBLE_EQ(devices.sum.computing_ns(), scalar("SELECT total(g.compute_ns)" + gpus));
    EXPECT_DOUBLE_EQ(devices.sum.total_ns(), scalar("SELECT total(g.duration_ns)" + gpus));
    EXPECT_EQ(view_.facts.resource != Resource::kThread, scalar("SELECT count(*)" + gpus) > 0);
    EXPECT_EQ(view_.facts.ranks_by(Resource::kDevice), scalar("SELECT count(DISTINCT process)" + gpus));
  }

  void figures_show_them() {
    for (const html::Figure& figure : html::where_a_step_goes(view_)) {
      const bool gpus = figure.id == "where-gpus";
      const std::vector<ResourceTime>& by = gpus ? view_.facts.by_device : view_.facts.by_thread;
      ASSERT_EQ(figure.data.rows.size(), by.size());
      for (size_t i = 0; i < by.size(); ++i) {
        double sum = 0;
        for (size_t c = 1; c < figure.data.columns.size(); ++c) sum += figure.data.rows[i][c].as_double();
        EXPECT_NEAR(sum, by[i].mean.total_ns(), 4) << "row " << i;
      }
    }
  }

  void models_read_them() {
    if (!view_.facts.headline.is_known()) return;
    const models::MeanStep step = models::mean_step(db_, view_.world);
    const JobTime& time = view_.facts.headline;
    EXPECT_NEAR(step.parts.compute_s * 1e9, time.sum.computing_ns() / time.windows, 1);
    EXPECT_NEAR(
        step.parts.compute_s + step.parts.transfer_s + step.parts.wait_s + step.parts.copy_s + step.parts.idle_s,
        step.parts.step_s, 1e-9);
    EXPECT_EQ(step.split, time.sum.unsplit_ns == 0);
  }

  /// The numbers of the verdict are those of WHERE IT GOES or HOSTS, and the largest of them above the threshold is
  /// what bounds the job.
  std::string verdict_follows_from_shares() {
    const std::string name = view_.meta("verdict"), text = view_.verdict();
    if (name == "withheld" || name == "n/a" || name.empty()) return name;
    std::vector<double> shown;
    for (const char* line : {"where_it_goes", "hosts"})
      if (json_.contains(line))
        for (const auto& [key, value] : json_[line].items())
          if (key.ends_with("_ratio") && value.is_number()) shown.push_back(value.get<double>());
    const auto is_shown = [&](double share) {
      return std::any_of(shown.begin(), shown.end(), [&](double known) { return std::abs(known - share) < 1e-9; });
    };
    double largest = 0, bound = -1;
    const std::regex number(
        "(wait beside the bubble|wait|transfer|copy|host|idling|input|bubble|not split) ([0-9.]+)%");
    for (std::sregex_iterator at(text.begin(), text.end(), number), end; at != end; ++at) {
      const std::string what = (*at)[1];
      const double share = std::stod((*at)[2]) / 100;
      const bool is_part = what == "wait" || what == "transfer" || what == "copy" || what == "not split";
      EXPECT_TRUE(!is_part || is_shown(share)) << what << " in: " << text << "\n" << text_;
      if (what != "not split") largest = std::max(largest, share);
      if (what == name) bound = share;
    }
    EXPECT_TRUE(name != "compute" || largest <= 0.05 + kRounding) << text;
    EXPECT_TRUE(bound < 0 || bound >= largest - kRounding) << text;
    return name;
  }

  SQLite::Database db_;
  RunView view_;
  json json_;
  std::string text_, line_;
  JobNumbers numbers_;
};

using test::Fault;

class GeneratedRun : public ::testing::TestWithParam<std::vector<Fault>> {};

TEST_P(GeneratedRun, IsToldTheSameEverywhere) {
  for (const uint64_t seed : {410'001, 410'002}) {
    SCOPED_TRACE(seed);
    test::ScratchFolder folder;
    const test::TrainingJob job = test::draw_training_job(seed, GetParam());
    test::write_training_job(job, folder.path());
    OneSetOfFacts facts(folder.path());
    facts.check();
    EXPECT_EQ(facts.resource() == Resource::kDevice, job.gpu.kernels_per_layer > 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Facts, GeneratedRun,
                         ::testing::Values(std::vector<Fault>{}, std::vector{Fault::kSlowRank},
                                           std::vector{Fault::kSlowLink}, std::vector{Fault::kBubble},
                                           std::vector{Fault::kInputStall}, std::vector{Fault::kHostBound},
                                           std::vector{Fault::kSlowCopies},
                                           std::vector{Fault::kSlowRank, Fault::kSlowLink}));

test::SyntheticRun slow_job() {
  return test::SyntheticRun()
      .ranks(4)
      .steps(20)
      .each_step()
      .compute(8'000'000)
      .allreduce(1 << 20, 1'000'000)
      .slow(2, 4'000'000);
}

TEST(Facts, OfARunWithoutSteps) {
  test::ScratchFolder folder;
  slow_job().no_steps().write(folder.path());
  OneSetOfFacts(folder.path()).check();
}

TEST(Facts, OfAJobThatWaits) {
  test::ScratchFolder folder;
  slow_job().write(folder.path());
  OneSetOfFacts facts(folder.path());
  EXPECT_EQ(facts.check(), "wait");
  EXPECT_TRUE(facts.outputs_json()["run"]["estimator"].is_null());
  EXPECT_NE(facts.prometheus().find("ddl_lower_bound{run=\"job.ddl\"} 0\n"), std::string::npos);
  // Steps of 13 ms on four ranks: three wait 4 ms, and one computes in that time; all transfer for 1 ms.
  EXPECT_EQ(facts.shown("waiting_ratio"), 0.231) << "12 of 52 ms";
  EXPECT_EQ(facts.shown("exposed_transfer_ratio"), 0.077) << "4 of 52 ms";
  EXPECT_EQ(facts.shown("compute_ratio"), 0.692) << "36 of 52 ms";
}

TEST(Facts, OfARunThatLacksARank) {
  test::ScratchFolder folder;
  slow_job().missing(1).write(folder.path());
  OneSetOfFacts facts(folder.path());
  EXPECT_EQ(facts.check(), "wait");
  // The three that are known: two wait 4 ms of 13 at least, all transfer for 1 ms at most.
  EXPECT_EQ(facts.shown("waiting_ratio"), 0.205) << "8 of 39 ms";
  EXPECT_EQ(facts.shown("exposed_transfer_ratio"), 0.077) << "3 of 39 ms";
  const json& all = facts.outputs_json();
  EXPECT_EQ(all["where_it_goes"]["waiting_ratio_bound"], "lower");
  EXPECT_EQ(all["where_it_goes"]["exposed_transfer_ratio_bound"], "upper");
  EXPECT_FALSE(all["where_it_goes"].contains("compute_ratio_bound"));
  EXPECT_EQ(all["run"]["known_ranks"], 3);
  EXPECT_EQ(all["run"]["expected_ranks"], 4);
  EXPECT_EQ(all["run"]["estimator"], "lower_bound");
  EXPECT_EQ(all["findings"][0]["estimator"], "lower_bound");
  EXPECT_EQ(all["findings"][0]["bound"], "upper");
  EXPECT_EQ(all["ranks"][0]["wait_ns_bound"], "lower");
  for (const json& metric : all["metrics"]) {
    if (metric["id"] == "f_wait") {
      EXPECT_EQ(metric["bound"], "lower");
    }
    if (metric["id"] == "f_xfer") {
      EXPECT_EQ(metric["bound"], "upper");
    }
    if (metric["id"] == "ccr_raw") {
      EXPECT_TRUE(metric["bound"].is_null());
    }
  }
  for (const char* words : {"waiting at least 20.5%", "exposed transfer at most 7.7%", "3 of 4 ranks known",
                            "estimator lower_bound", "wait at least 20.5%"})
    EXPECT_NE(facts.text().find(words), std::string::npos) << words << " in\n" << facts.text();
  EXPECT_NE(facts.one_line().find("waiting at least 20.5%"), std::string::npos) << facts.one_line();
  EXPECT_NE(facts.prometheus().find("ddl_lower_bound{run=\"job.ddl\"} 1\n"), std::string::npos);
}

/// GPUs compute, and threads reduce what they computed: who is late the calls of MPI tell.
TEST(Facts, OfAJobThatComputesOnGpusAndWaitsInMpi) {
  test::ScratchFolder folder;
  slow_job().write(folder.path());
  OneSetOfFacts facts(folder.path(), R"(
    INSERT INTO gpu_name VALUES (1, 'gemm', 'compute');
    INSERT INTO gpu_event (process, kind, name, device, region, step, start_ns, duration_ns, correlation)
    SELECT process, 1, 1, 0, 0, step, start_ns, 6000000, 0 FROM step)");
  facts.check();
  EXPECT_EQ(facts.resource(), Resource::kDevice);
  for (const RankFacts& rank : facts.ranks()) {
    EXPECT_EQ(rank.compute_ns, 6'000'000) << "on its GPU";
    EXPECT_EQ(rank.late_ns, rank.rank == 2 ? 4'000'000 : 0);
    EXPECT_EQ(rank.wait_ns, rank.rank == 2 ? 0 : 4'000'000);
    EXPECT_EQ(rank.xfer_ns, 1'000'000);
  }
}

/// Some ranks used a GPU, one did not (as a rank of a parameter server does).
TEST(Facts, OfAJobOfWhichOneRankHasNoGpu) {
  test::ScratchFolder folder;
  test::write_training_job(test::draw_training_job(410'001, {Fault::kHostBound}), folder.path());
  OneSetOfFacts facts(folder.path(), "DELETE FROM gpu_event WHERE process = 1");
  facts.check();
  EXPECT_EQ(facts.resource(), Resource::kMixed);
}

TEST(Facts, OfAKilledJob) {
  test::ScratchFolder folder;
  slow_job().killed(3, 15).write(folder.path());
  OneSetOfFacts(folder.path()).check();
}

TEST(Facts, OfARunWithLostEvents) {
  test::ScratchFolder folder;
  slow_job().window(5, 12).loss(0, kLossRequests, 40).write(folder.path());
  OneSetOfFacts(folder.path()).check();
}

}  // namespace
}  // namespace ddl::reports
