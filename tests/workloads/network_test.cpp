// The layer tables and schedules of `network`.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <numeric>
#include <random>
#include <sstream>

#include "workloads/network/layer_table.h"
#include "workloads/network/options.h"
#include "workloads/network/schedule.h"
#include "workloads/train/error.h"

namespace ddl::network {
namespace {

const std::filesystem::path kTables = DDL_SOURCE_DIR "/workloads/network/tables";

// The totals of people who counted them in other ways.
TEST(LayerTable, TotalsArePublished) {
  std::ifstream totals(DDL_SOURCE_DIR "/tests/published/layer_totals.csv");
  std::string line, model, computed, gmacs, published;
  std::getline(totals, line);
  std::vector<std::string> names;
  for (; std::getline(totals, line); names.push_back(model)) {
    std::istringstream fields(line);
    for (std::string* field : {&model, &computed, &gmacs, &published}) std::getline(fields, *field, ',');
    const LayerTable table = find_layer_table(model, kTables);
    EXPECT_EQ(std::to_string(table.parameters()), computed) << model;
    if (line.find(",exact,") != std::string::npos) {
      EXPECT_EQ(std::to_string(table.parameters()), published) << model;
    }
    // Inception's published multiply-adds are those without its second head.
    if (model != "inception_v3") {
      EXPECT_NEAR(static_cast<double>(table.macs()) * 1e-9, std::stod(gmacs), 5.1e-5) << model;
    }
  }
  std::sort(names.begin(), names.end());
  EXPECT_EQ(names, layer_table_names(kTables));
  EXPECT_EQ(names.size(), 19U);
}

std::string refusal(const std::string& text) {
  const std::filesystem::path file =
      std::filesystem::path(testing::TempDir()) / ("network_test_" + std::to_string(getpid()) + ".csv");
  std::ofstream(file) << text;
  std::string message = "accepted";
  try {
    read_layer_table(file);
  } catch (const train::DataError& error) {
    message = std::string(error.what()).substr(file.string().size());
  }
  std::filesystem::remove(file);
  return message;
}

TEST(LayerTable, WhatIsBrokenIsSaidWithItsLine) {
  const std::string header = "layer,params,fwd_macs_per_sample,act_out_elems_per_sample\n";
  EXPECT_EQ(refusal(header + "l0,1,2,3\r\n\n\"l,1\",0,0,0\n"), "accepted");
  EXPECT_EQ(refusal(""), ":0: no header");
  EXPECT_EQ(refusal(header), ":1: no layers");
  EXPECT_EQ(refusal("layer,params,fwd_macs_per_sample\n"), ":1: no column 'act_out_elems_per_sample'");
  EXPECT_EQ(refusal(header + "l0,1,2,3\nl1,1,2\n"), ":3: 3 fields, the header has 4");
  const std::string params = ":2: column 'params': expected a whole number from 0 to 2147483647";
  for (const char* bad : {"-1", "", "1.5", "2147483648", "99999999999999999999999", "nan", " 1", "0x10"}) {
    EXPECT_EQ(refusal(header + "l0," + bad + ",1,1\n"), params) << bad;
  }
  EXPECT_EQ(refusal(header + "l0,1,10000000000001,1\n"),
            ":2: column 'fwd_macs_per_sample': expected a whole number from 0 to 10000000000000");
  EXPECT_EQ(refusal(header + "\x1b[31m,1,1,1\n"), ":2: control character in a name");
  EXPECT_EQ(refusal(header + ",1,1,1\n"), ":2: a layer without a name");
  EXPECT_NE(refusal(header + "l\\x,1,1,1\n"), "accepted");  // no such escape
  EXPECT_THROW(read_layer_table("/no/such.csv"), train::DataError);
  EXPECT_THROW(read_layer_table("/"), train::DataError);
  EXPECT_THROW(find_layer_table("no-such", kTables), train::UsageError);
  EXPECT_THROW(find_layer_table("../tables/alexnet", kTables), train::UsageError);
  EXPECT_THROW(find_layer_table("alexnet", "/no/such"), train::DataError);
}

Options parse(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), {"network", "--table", "alexnet"});
  return parse_options(static_cast<int>(arguments.size()), arguments.data());
}

TEST(NetworkOptions, OutOfRange) {
  using Arguments = std::vector<const char*>;
  for (const Arguments& bad : {Arguments{"--scale", "2"},
                               {"--scale", "nan"},
                               {"--batch", "0"},
                               {"--batch", "-1"},
                               {"--steps", "0"},
                               {"--micro-batches", "5"},
                               {"--schedule", "zb"},
                               {"--stages", "0"},
                               {"--fixed-ms", "-1"},
                               {"--bucket-mb", "5000"},
                               {"--allreduce", "star"},
                               {"--dims", "2x2"},
                               {"--segment-kb", "4"},
                               {"--step", "2"},
                               {"resnet50"}}) {
    EXPECT_THROW(parse(bad), train::UsageError) << bad[0];
  }
  const char* none[] = {"network"};
  EXPECT_THROW(parse_options(1, none), train::UsageError);
  EXPECT_FALSE(parse({"--allreduce", "ring"}).overlap);
  EXPECT_EQ(parse({"--micro-batches", "8"}).samples_per_pass(), 4U);
  EXPECT_NO_THROW(check_fit(parse({"--stages", "2"}), 4, 8));
  EXPECT_THROW(check_fit(parse({"--stages", "3"}), 4, 8), train::UsageError);
  EXPECT_THROW(check_fit(parse({"--stages", "4"}), 4, 3), train::UsageError);
}

uint64_t cost_of(const std::vector<uint64_t>& costs, const Stage& stage) {
  return std::accumulate(costs.begin() + static_cast<std::ptrdiff_t>(stage.begin),
                         costs.begin() + static_cast<std::ptrdiff_t>(stage.end), uint64_t{0});
}

/// Among all ways to cut, by trying them.
uint64_t least_cost(const std::vector<uint64_t>& costs, std::size_t begin, std::size_t stages) {
  if (stages == 1) return cost_of(costs, {begin, costs.size()});
  uint64_t least = UINT64_MAX;
  for (std::size_t end = begin + 1; end + stages - 1 <= costs.size(); ++end) {
    least = std::min(least, std::max(cost_of(costs, {begin, end}), least_cost(costs, end, stages - 1)));
  }
  return least;
}

TEST(Stages, AreTheBestOfAllCuts) {
  std::mt19937 random(7);
  for (int i = 0; i < 500; ++i) {
    std::vector<uint64_t> costs(1 + random() % 9);
    for (uint64_t& cost : costs) cost = random() % 3 == 0 ? 0 : random() % 20;
    for (std::size_t stages = 1; stages <= costs.size(); ++stages) {
      const std::vector<Stage> cut = split_stages(costs, stages);
      ASSERT_EQ(cut.size(), stages);
      uint64_t most = 0;
      for (std::size_t s = 0; s < stages; ++s) {
        EXPECT_EQ(cut[s].begin, s == 0 ? 0 : cut[s - 1].end);
        EXPECT_LT(cut[s].begin, cut[s].end);
        most = std::max(most, cost_of(costs, cut[s]));
      }
      EXPECT_EQ(cut.back().end, costs.size());
      EXPECT_EQ(most, least_cost(costs, 0, stages));
    }
  }
}

/// Time of a step on all stages, forward 1 and backward 2, messages free: each pass begins when its stage and its
/// message are there.
std::size_t makespan(Schedule schedule, std::size_t stages, std::size_t micro_batches) {
  std::vector<std::vector<Pass>> todo;
  for (std::size_t s = 0; s < stages; ++s) todo.push_back(passes(schedule, s, stages, micro_batches));
  std::vector<std::size_t> next(stages), free_at(stages, 1);
  std::vector<std::vector<std::size_t>> forward(stages, std::vector<std::size_t>(micro_batches)), backward = forward;
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t s = 0; s < stages; ++s) {
      if (next[s] == todo[s].size()) continue;
      const Pass pass = todo[s][next[s]];
      std::size_t ready = 1;  // 0: not yet
      if (!pass.backward && s > 0) ready = forward[s - 1][pass.micro_batch];
      if (pass.backward) ready = s + 1 < stages ? backward[s + 1][pass.micro_batch] : forward[s][pass.micro_batch];
      if (ready == 0) continue;
      free_at[s] = std::max(free_at[s], ready) + (pass.backward ? 2 : 1);
      (pass.backward ? backward : forward)[s][pass.micro_batch] = free_at[s];
      ++next[s], moved = true;
    }
  }
  for (std::size_t s = 0; s < stages; ++s) EXPECT_EQ(next[s], 2 * micro_batches) << "stage " << s << " never ends";
  return *std::max_element(free_at.begin(), free_at.end()) - 1;  // the clock began at 1
}

TEST(Passes, LeaveTheBubbleOfTheFormula) {
  for (const Schedule schedule : {Schedule::kGpipe, Schedule::k1F1B}) {
    for (std::size_t stages = 1; stages <= 6; ++stages) {
      for (std::size_t micro_batches = 1; micro_batches <= 9; ++micro_batches) {
        EXPECT_EQ(makespan(schedule, stages, micro_batches), 3 * (micro_batches + stages - 1))
            << stages << " " << micro_batches;
      }
    }
  }
}

TEST(Passes, OneForwardOneBackwardHoldsFewerMicroBatches) {
  for (const auto& [schedule, most] : {std::pair(Schedule::kGpipe, 9), std::pair(Schedule::k1F1B, 4)}) {
    int held = 0, peak = 0;
    for (const Pass& pass : passes(schedule, 0, 4, 9)) peak = std::max(peak, held += pass.backward ? -1 : 1);
    EXPECT_EQ(peak, most);
  }
}

}  // namespace
}  // namespace ddl::network
