#include "reports/prometheus.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>

#include "analyzer/metrics/metrics.h"
#include "reports/safe_text.h"
#include "tests/analyzer/analyzed.h"
#include "tests/reports/golden.h"
#include "tests/reports/handmade_run.h"
#include "tests/support/prometheus_text.h"

namespace ddl::reports {
namespace {

using namespace test::literals;
using test::PrometheusText;
using test::read_prometheus;

std::string page_of(SQLite::Database& db, const PrometheusLimits& limits = {}) {
  const RunView view = test::view_of(db);
  return render_prometheus(job_numbers(view, "runs/train.ddl"), limits);
}

TEST(Golden, Prometheus) {
  test::HandmadeRun run;
  const std::string text = page_of(run.db());
  read_prometheus(text);
  test::expect_golden(text, "prometheus.txt");
}

/// Four ranks, rank 2 computes 25 ms longer in each of 20 steps of 50 ms computing and an allreduce of 5 ms.
TEST(Prometheus, AJobWithAKnownTruth) {
  test::Analyzed run(
      test::run().ranks(4).steps(20).compute(50_ms).allreduce(4_MiB, 5_ms).slow(2, 25_ms).value("samples", 32));
  const PrometheusText page = read_prometheus(page_of(run.db));
  EXPECT_DOUBLE_EQ(page.value("ddl_step_seconds"), 0.080);
  EXPECT_DOUBLE_EQ(page.value("ddl_rank_lateness_seconds", R"(rank="2")"), 0.025);
  EXPECT_DOUBLE_EQ(page.value("ddl_rank_lateness_seconds", R"(rank="0")"), 0);
  EXPECT_DOUBLE_EQ(page.value("ddl_rank_wait_seconds", R"(rank="2")"), 0);
  EXPECT_DOUBLE_EQ(page.value("ddl_lateness_max_seconds"), 0.025);
  EXPECT_DOUBLE_EQ(page.value("ddl_wait_median_seconds"), 0.025);
  EXPECT_DOUBLE_EQ(page.value("ddl_throughput_samples_per_second"), 4 * 32 / 0.080);
  EXPECT_DOUBLE_EQ(page.value("ddl_samples_per_second"), 4 * 32 / 0.080);
  EXPECT_DOUBLE_EQ(page.value("ddl_collective_transfer_seconds", "MPI_Allreduce"), 0.005);
  EXPECT_DOUBLE_EQ(page.value("ddl_collective_wait_seconds", "MPI_Allreduce"), 3 * 0.025 / 4);
  EXPECT_DOUBLE_EQ(page.value("ddl_collective_bus_bandwidth_bytes_per_second", "MPI_Allreduce"),
                   1.5 * (4 << 20) / 0.005);
  EXPECT_DOUBLE_EQ(page.value("ddl_running"), 0);
  EXPECT_DOUBLE_EQ(page.value("ddl_ranks"), 4);
  double whole = 0;
  for (const auto& [labels, share] : page.samples.at("ddl_time_share_ratio")) whole += share;
  EXPECT_NEAR(whole, 1, 1e-12);
  EXPECT_NEAR(page.value("ddl_time_share_ratio", "waiting"), 75.0 / 320, 1e-6);
}

/// Every sample of the text, and no other, with its labels; the request is what OTLP's JSON asks for.
TEST(Otlp, HasTheSamplesOfPrometheus) {
  test::Analyzed run(
      test::run().ranks(4).steps(20).compute(50_ms).allreduce(4_MiB, 5_ms).slow(2, 25_ms).value("samples", 32));
  JobNumbers job = job_numbers(test::view_of(run.db), "runs/train.ddl");
  job.name = "a \"name\" \\ with\nmore \xff";
  const std::string line = render_otlp(job, {.ranks = 2}, 1700000000123456789);
  EXPECT_EQ(std::count(line.begin(), line.end(), '\n'), 1) << "one line, as collectors read files";
  const nlohmann::json request = nlohmann::json::parse(line);
  const nlohmann::json& resource = request.at("resourceMetrics").at(0);
  EXPECT_EQ(resource.at("resource").at("attributes").at(0),
            nlohmann::json::parse(R"({"key": "service.name", "value": {"stringValue": "ddl"}})"));
  std::map<std::string, std::map<std::string, double>> samples;
  for (const nlohmann::json& metric : resource.at("scopeMetrics").at(0).at("metrics")) {
    const std::string name = metric.at("name");
    const bool counts = name.ends_with("_total");
    EXPECT_EQ(metric.contains("sum"), counts) << name;
    EXPECT_EQ(metric.contains("gauge"), !counts) << name;
    if (counts) {
      EXPECT_EQ(metric.at("sum").at("aggregationTemporality"), 2);
      EXPECT_EQ(metric.at("sum").at("isMonotonic"), true);
    }
    if (name.ends_with("_seconds")) {
      EXPECT_EQ(metric.at("unit"), "s");
    }
    if (name.ends_with("_bytes_per_second")) {
      EXPECT_EQ(metric.at("unit"), "By/s");
    }
    for (const nlohmann::json& point : metric.at(counts ? "sum" : "gauge").at("dataPoints")) {
      EXPECT_EQ(point.at("timeUnixNano"), "1700000000123456789");
      std::string labels;
      for (const nlohmann::json& a : point.at("attributes"))
        labels += a.at("key").get<std::string>() + "=" + a.at("value").at("stringValue").get<std::string>() + "\x1f";
      EXPECT_TRUE(samples[name].emplace(labels, point.at("asDouble")).second) << name << " " << labels;
    }
  }
  const std::string text = render_prometheus(job, {.ranks = 2});
  size_t lines = 0;
  static const std::regex sample(R"re(([a-z0-9_]+)\{(.*)\} (\S+))re"), label(R"re(([a-z_]+)="((?:[^"\\]|\\.)*)")re");
  std::istringstream in(text);
  for (std::string row; std::getline(in, row);) {
    std::smatch match;
    if (row.starts_with('#') || !std::regex_match(row, match, sample)) continue;
    ++lines;
    std::string labels;
    const std::string list = match[2].str();
    for (auto l = std::sregex_iterator(list.begin(), list.end(), label); l != std::sregex_iterator(); ++l) {
      const std::string name = std::regex_replace(std::regex_replace((*l)[2].str(), std::regex(R"(\\")"), "\""),
                                                  std::regex(R"(\\\\)"), "\\");
      labels += (*l)[1].str() + "=" + name + "\x1f";
    }
    ASSERT_TRUE(samples[match[1].str()].contains(labels)) << row;
    EXPECT_DOUBLE_EQ(samples[match[1].str()][labels], std::stod(match[3].str())) << row;
  }
  size_t points = 0;
  for (const auto& [name, of] : samples) points += of.size();
  EXPECT_EQ(points, lines);
  EXPECT_GT(lines, 40U);
}

TEST(Prometheus, TheNumberOfRowsIsBoundedAndSaysSo) {
  JobNumbers job;
  for (int64_t rank = 0; rank < 1000; ++rank)
    job.by_rank.push_back({.rank = rank,
                           .node = "n",
                           .late_ns = 1e6 * static_cast<double>(rank == 7 ? 5000 : rank),
                           .wait_ns = 1e9 - 1e6 * static_cast<double>(rank),
                           .step_ns = std::nullopt});
  job.by_rank[999].late_ns.reset();  // not known
  for (int i = 0; i < 100; ++i)
    job.collectives.push_back({.op = "MPI_Allreduce",
                               .comm = "c" + std::to_string(i / 10),
                               .bytes = i + 1,
                               .time_ns = 1000.0 - i,
                               .wait_ns = {},
                               .xfer_ns = {},
                               .busbw = {}});
  const PrometheusText page = read_prometheus(render_prometheus(job, {.ranks = 3, .collectives = 5}));
  EXPECT_EQ(page.samples.at("ddl_rank_lateness_seconds").size(), 3U);
  EXPECT_DOUBLE_EQ(page.value("ddl_rank_lateness_seconds", R"(rank="7")"), 5);
  EXPECT_DOUBLE_EQ(page.value("ddl_rank_lateness_seconds", R"(rank="998")"), 0.998);
  EXPECT_DOUBLE_EQ(page.value("ddl_rank_lateness_seconds", R"(rank="997")"), 0.997);
  EXPECT_DOUBLE_EQ(page.value("ddl_lateness_max_seconds"), 5);
  EXPECT_DOUBLE_EQ(page.value("ddl_lateness_min_seconds"), 0);
  EXPECT_DOUBLE_EQ(page.value("ddl_left_out", "ranks"), 997);
  EXPECT_EQ(page.samples.at("ddl_collective_seconds").size(), 5U);
  EXPECT_DOUBLE_EQ(page.value("ddl_left_out", "collectives"), 95);
  EXPECT_DOUBLE_EQ(page.value("ddl_collective_bytes", R"(comm="c1")"), 11)
      << "of several sizes the one that takes the most time";
  EXPECT_EQ(page.samples.at("ddl_collective_bytes").size(), 5U);
  EXPECT_FALSE(page.samples.contains("ddl_rank_step_seconds")) << "not known is not 0";
}

TEST(Prometheus, NamesAreInert) {
  std::vector<std::string> names = test::hostile_names();
  names.insert(names.end(), {"a\"b", "back\\slash", "end\\", "line\nbreak", "} 1\nddl_ranks{run=\"x\"} 7",
                             std::string(10'000, 'x'), "\xff\xfe"});
  JobNumbers job;
  for (const std::string& name : names) {
    job.run = job.name = job.job_id = name;
    job.by_rank = {{.rank = 0, .node = name, .late_ns = 1.0, .wait_ns = 1.0, .step_ns = 1.0}};
    job.collectives = {
        {.op = name, .comm = name, .bytes = 1, .time_ns = 1, .wait_ns = 0.0, .xfer_ns = 1.0, .busbw = 1.0},
        {.op = name, .comm = name, .bytes = 1, .time_ns = 2, .wait_ns = 0.0, .xfer_ns = 2.0, .busbw = 2.0}};
    const std::string text = render_prometheus(job, {});
    const PrometheusText page = read_prometheus(text);
    EXPECT_DOUBLE_EQ(page.value("ddl_ranks"), 0);
    EXPECT_EQ(page.samples.at("ddl_collective_seconds").size(), 1U);
    EXPECT_DOUBLE_EQ(page.value("ddl_left_out", "collectives"), 1)
        << "a second row of the same labels would make the file unreadable";
    EXPECT_LT(text.size(), 20'000U);
    for (size_t offset = 0; offset < text.size();) {
      const char32_t code = next_code_point(text, offset);
      ASSERT_TRUE(code == '\n' || (code >= 0x20 && code != 0x7f && code != kNotUtf8));
    }
  }
}

TEST(Prometheus, DefinitionsAreThoseOfTheMetrics) {
  std::set<std::string> names;
  for (const PrometheusFamily& family : prometheus_families()) {
    EXPECT_TRUE(names.insert(family.name).second) << family.name;
    EXPECT_TRUE(std::regex_match(family.name, std::regex("ddl_[a-z0-9_]+"))) << family.name;
    EXPECT_FALSE(family.help.empty());
  }
  for (const auto& metric : all_metrics()) {
    const auto families = prometheus_families();
    EXPECT_TRUE(std::any_of(families.begin(), families.end(), [&](const auto& f) {
      return f.help == metric.name + ": " + metric.sentence;
    })) << metric.id;
    const std::set<std::string> known = {"ns",   "ratio",  "samples/s", "samples",      "ranks",   "names", "Hz",
                                         "FLOP", "FLOP/s", "FLOP/byte", "instructions", "changes", "1"};
    EXPECT_TRUE(known.contains(metric.unit))
        << metric.id << ": unit " << metric.unit << " has no base unit in reports/prometheus.cpp";
  }
}

/// What the dashboard asks for is there, and a job with everything in it fills every panel.
TEST(Prometheus, TheDashboardAsksForWhatThereIs) {
  std::ifstream file(std::string(DDL_SOURCE_DIR) + "/docs/grafana/ddl-jobs.json");
  const auto dashboard = nlohmann::json::parse(file);
  std::set<std::string> names;
  for (const PrometheusFamily& family : prometheus_families()) names.insert(family.name);
  size_t queries = 0;
  std::set<std::string> asked;
  const auto check = [&](const std::string& query) {
    ++queries;
    const std::regex name("ddl_[a-z0-9_]+");
    EXPECT_TRUE(std::regex_search(query, name)) << query;
    for (std::sregex_iterator at(query.begin(), query.end(), name); at != std::sregex_iterator(); ++at) {
      EXPECT_TRUE(names.contains(at->str())) << query;
      asked.insert(at->str());
    }
  };
  for (const auto& panel : dashboard.at("panels"))
    for (const auto& target : panel.at("targets")) check(target.at("expr"));
  for (const auto& variable : dashboard.at("templating").at("list"))
    if (variable.at("type") == "query") check(variable.at("definition"));
  EXPECT_GE(queries, 15U);
  std::ifstream page(std::string(DDL_SOURCE_DIR) + "/docs/how-to/prometheus.md");
  for (std::string line; std::getline(page, line);)
    if (line.find("ddl_") != std::string::npos) check(line);
  EXPECT_TRUE(asked.contains("ddl_left_out")) << "the page was read";
}

}  // namespace
}  // namespace ddl::reports
