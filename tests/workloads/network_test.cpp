// The layer tables and schedules of `network`.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <numeric>
#include <random>
#include <sstream>

#include "workloads/network/layer_table.h"
#include "workloads/network/schedule.h"

namespace ddl::network {
namespace {

const std::filesystem::path kTables = DDL_SOURCE_DIR "/workloads/network/tables";

// T5 of the source documents: the totals of people who counted them in other ways.
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
    if (line.find(",exact,") != std::string::npos) EXPECT_EQ(std::to_string(table.parameters()), published) << model;
    // Inception's published multiply-adds are those without its second head.
    if (model != "inception_v3") EXPECT_NEAR(static_cast<double>(table.macs()) * 1e-9, std::stod(gmacs), 5.1e-5) << model;
  }
  std::sort(names.begin(), names.end());
  EXPECT_EQ(names, layer_table_names(kTables));
  EXPECT_EQ(names.size(), 15U);
}

uint64_t cost_of(const std::vector<uint64_t>& costs, const Stage& stage) {
  return std::accumulate(costs.begin() + static_cast<std::ptrdiff_t>(stage.begin), costs.begin() + static_cast<std::ptrdiff_t>(stage.end),
                         uint64_t{0});
}

/// Of all ways to cut, by trying them.
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

/// Time of a step on all stages, forward 1 and backward 2, messages free: each pass begins when its stage and its message are there.
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
        EXPECT_EQ(makespan(schedule, stages, micro_batches), 3 * (micro_batches + stages - 1)) << stages << " " << micro_batches;
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
