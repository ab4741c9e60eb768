// What a step gains from faster operators: by construction, and for random jobs against the simulator that made them,
// run once more with other durations.
#include "analyzer/models/replay_operators.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <optional>
#include <random>

#include "analyzer/intervals.h"
#include "analyzer/passes/catalog.h"
#include "core/error.h"
#include "tests/analyzer/tables.h"

namespace ddl::test {
namespace {

constexpr int64_t kMicro = 1000;
constexpr size_t kStreamsUsed = 2;

/// What the host of a rank does next, in ns. Streams are 7 and 8.
struct Action {
  enum What { kLaunch, kCopy, kCollective, kWaitFor, kSynchronize, kWork } what = kWork;
  size_t stream = 0;        ///< of kWaitFor: that waits, for the other one
  int64_t name = 0;         ///< gpu_name.id
  int64_t ns = 0;           ///< on the GPU, of collectives the transfer; kWork: on the host
  int64_t delay_ns = 0;     ///< from when all is over that an operation awaits to its begin
  bool everything = false;  ///< kSynchronize: not this stream alone
};
using Script = std::vector<std::vector<Action>>;  // by step

struct Times {
  Interval launch, interval;
};
struct Ran {
  std::vector<std::vector<std::vector<Times>>> of;  ///< by rank, step and action
  std::vector<std::vector<Interval>> windows;       ///< by rank and step
  int64_t end_ns = 0;
};

/// All ranks, action by action: collectives are the same ones on all of them. `takes(name)`: the share of its time.
template <class Takes>
Ran simulate(const std::vector<Script>& ranks, const Takes& takes) {
  struct Rank {
    int64_t now_ns = 0;
    /// what the stream awaits next; the end of what it was given last
    std::array<int64_t, kStreamsUsed> over_ns{}, last_ns{};
  };
  Ran ran;
  std::vector<Rank> state(ranks.size());
  ran.of.resize(ranks.size()), ran.windows.resize(ranks.size());
  for (size_t s = 0; s < ranks[0].size(); ++s) {
    std::vector<int64_t> begin_ns;
    for (size_t r = 0; r < ranks.size(); ++r)
      begin_ns.push_back(state[r].now_ns), ran.of[r].emplace_back(ranks[r][s].size());
    for (size_t a = 0; a < ranks[0][s].size(); ++a) {
      int64_t met_ns = 0;
      for (size_t r = 0; r < ranks.size(); ++r) {
        const Action& action = ranks[r][s][a];
        Rank& rank = state[r];
        Times& times = ran.of[r][s][a];
        times.launch = {rank.now_ns, rank.now_ns + 2 * kMicro};
        const auto ns = static_cast<int64_t>(static_cast<double>(action.ns) * takes(action.name));
        switch (action.what) {
          case Action::kWork:
            rank.now_ns += action.ns;
            break;
          case Action::kWaitFor:
            rank.over_ns[action.stream] = std::max(rank.over_ns[action.stream], rank.last_ns[1 - action.stream]);
            break;
          case Action::kSynchronize:
            for (size_t on = 0; on < kStreamsUsed; ++on)
              if (action.everything || on == action.stream) rank.now_ns = std::max(rank.now_ns, rank.last_ns[on]);
            rank.now_ns += kMicro;
            times.launch.end_ns = rank.now_ns;
            break;
          default:
            times.interval.begin_ns = std::max(rank.now_ns, rank.over_ns[action.stream]) + action.delay_ns;
            times.interval.end_ns = times.interval.begin_ns + ns;
            met_ns = std::max(met_ns, times.interval.begin_ns);
            rank.now_ns += 2 * kMicro;
            if (action.what == Action::kCopy) rank.now_ns = std::max(rank.now_ns, times.interval.end_ns + kMicro);
            times.launch.end_ns = rank.now_ns;
            rank.over_ns[action.stream] = rank.last_ns[action.stream] = times.interval.end_ns;
        }
      }
      for (size_t r = 0; r < ranks.size(); ++r) {
        const Action& action = ranks[r][s][a];
        if (action.what != Action::kCollective) continue;
        Times& times = ran.of[r][s][a];
        times.interval.end_ns = met_ns + static_cast<int64_t>(static_cast<double>(action.ns) * takes(action.name));
        state[r].over_ns[action.stream] = state[r].last_ns[action.stream] = times.interval.end_ns;
      }
    }
    for (size_t r = 0; r < ranks.size(); ++r) {
      ran.windows[r].push_back({begin_ns[r], state[r].now_ns});
      ran.end_ns = std::max({ran.end_ns, state[r].now_ns, state[r].last_ns[0], state[r].last_ns[1]});
    }
  }
  return ran;
}

class OperatorReplays {
 public:
  explicit OperatorReplays(const std::vector<Script>& ranks, bool waits_are_known = true)
      : ranks_(ranks), run_(static_cast<int64_t>(ranks.size())) {
    run_.exec(
        "INSERT INTO gpu_name VALUES (1, 'a', 'compute'), (2, 'b', 'compute'), (3, 'c', 'compute'), (4, 'ncclDevKernel_AllReduce',"
        " 'communication'), (5, '[CUDA memcpy HtoD]', 'copy'), (6, '[CUDA synchronisation: Stream Sync]', 'other');"
        "INSERT INTO op (id, name, class, nonblocking) VALUES (100, 'ncclAllReduce', 'all_to_all', 1);"
        "INSERT INTO region VALUES (1, 0, 'layer', 'fc', NULL, 'fc'), (2, 1, 'operator', 'aten::b', NULL, 'fc')");
    std::vector<int64_t> members;
    for (size_t r = 0; r < ranks.size(); ++r) members.push_back(static_cast<int64_t>(r));
    comm_ = run_.communicator("ncclcomm", members);
    const Ran ran = simulate(ranks, [](int64_t) { return 1.0; });
    recorded_ns_ = ran.end_ns;
    for (size_t r = 0; r < ranks.size(); ++r) write(r, ran, waits_are_known);
    run_.exec("UPDATE process SET end_ns = " + std::to_string(ran.end_ns + 1'000'000));
    run_.analyze();
    run_.exec("DELETE FROM steady_number");
    for (size_t s = 0; s < ranks[0].size(); ++s)
      run_.exec("INSERT INTO steady_number (world, step) VALUES (0, " + std::to_string(s) + ")");
    catalog_.emplace(run_.db());
    replay.emplace(run_.db(), *catalog_, 0);
  }

  int64_t saving_ns(const std::string& name, double scale) {
    return std::llround(replay->saving_s(*models::operator_named(run_.db(), name), scale) * 1e9 *
                        static_cast<double>(ranks_[0].size()));
  }
  /// By the simulator.
  int64_t truth_ns(int64_t name, double scale) const {
    return recorded_ns_ - simulate(ranks_, [&](int64_t of) { return of == name ? scale : 1.0; }).end_ns;
  }
  Tables& run() { return run_; }
  std::optional<models::OperatorReplay> replay;

 private:
  void write(size_t r, const Ran& ran, bool waits_are_known) {
    const std::string process = std::to_string(r + 1);
    int64_t call = 0, seq = 0;
    for (size_t s = 0; s < ranks_[r].size(); ++s) {
      run_.step(static_cast<int64_t>(r), static_cast<int64_t>(s), ran.windows[r][s].begin_ns, ran.windows[r][s].end_ns,
                0);
      for (size_t a = 0; a < ranks_[r][s].size(); ++a) {
        const Action& action = ranks_[r][s][a];
        const Times& t = ran.of[r][s][a];
        call += 2;
        if (action.what == Action::kWork) continue;
        const std::string stream = std::to_string(7 + action.stream);
        if (action.what == Action::kWaitFor) {
          if (waits_are_known)
            run_.exec("INSERT INTO stream_wait VALUES (" + process + ", 1, " + stream + ", " +
                      std::to_string(call + 1) + ", 1, " + std::to_string(8 - action.stream) + ", " +
                      std::to_string(call) + ")");
          continue;
        }
        const bool is_sync = action.what == Action::kSynchronize, is_collective = action.what == Action::kCollective;
        const Interval on_gpu = is_sync ? t.launch : t.interval;
        seq += is_collective ? 1 : 0;
        const std::string begin = std::to_string(on_gpu.begin_ns), ns = std::to_string(on_gpu.length_ns());
        run_.exec(
            "INSERT INTO gpu_event (process, kind, name, device, context, stream, region, step, thread, start_ns, duration_ns, correlation,"
            " comm, seq, launch_ns, launch_duration_ns) VALUES (" +
            process + ", " +
            (is_sync                        ? "4"
             : action.what == Action::kCopy ? "2"
                                            : "1") +
            ", " + std::to_string(is_sync ? 6 : action.name) + ", 0, 1, " + (action.everything ? "NULL" : stream) +
            ", " + (action.name == 2 ? "2" : "1") + ", " + std::to_string(s) + ", 0, " + begin + ", " + ns + ", " +
            std::to_string(call) + ", " +
            (is_collective ? std::to_string(comm_) + ", " + std::to_string(seq) : "NULL, NULL") + ", " +
            std::to_string(t.launch.begin_ns) + ", " + std::to_string(t.launch.length_ns()) + ")");
        if (is_collective)
          run_.exec(
              "INSERT INTO event (id, process, thread, kind, op, comm, seq, region, step, start_ns, duration_ns, bytes) VALUES (" +
              std::to_string(++event_) + ", " + process + ", 0, 4, 100, " + std::to_string(comm_) + ", " +
              std::to_string(seq) + ", 1, " + std::to_string(s) + ", " + begin + ", " + ns + ", 8)");
      }
    }
  }

  std::vector<Script> ranks_;
  Tables run_;
  std::optional<Catalog> catalog_;
  int64_t comm_ = 0, event_ = 1000, recorded_ns_ = 0;
};

Action kernel_of(size_t stream, int64_t name, int64_t us) {
  return {Action::kLaunch, stream, name, us * kMicro, kMicro, false};
}
Action work_of(int64_t us) { return {Action::kWork, 0, 0, us * kMicro, 0, false}; }

TEST(OperatorReplay, ASecondStreamBecomesTheLongest) {
  // a takes 300 us beside b, which takes 200; c comes after both.
  const Script script(4, {kernel_of(0, 1, 300),
                          kernel_of(1, 2, 200),
                          {Action::kWaitFor, 0, 0, 0, 0, false},
                          kernel_of(0, 3, 50),
                          {Action::kSynchronize, 0, 0, 0, 0, true}});
  OperatorReplays job({script});
  EXPECT_NEAR(job.replay->replayed_step_s(), job.replay->recorded_step_s(), 1e-9);
  EXPECT_EQ(job.saving_ns("a", 0.9), 4 * 30 * kMicro);
  // b was launched 2 us later.
  EXPECT_EQ(job.saving_ns("a", 0.5), 4 * 98 * kMicro);
  EXPECT_EQ(job.saving_ns("a", 0), 4 * 98 * kMicro);
  EXPECT_EQ(job.saving_ns("b", 0), 0);
  EXPECT_EQ(job.saving_ns("aten::b", 0), 0) << "the range that launched it";
  EXPECT_EQ(job.saving_ns("c", 0.5), 4 * 25 * kMicro);
  EXPECT_EQ(job.saving_ns("fc", 0), 4 * (353 - 7) * kMicro) << "everything is in the layer: what is left is the host";
  EXPECT_FALSE(models::operator_named(job.run().db(), "nonsense"));
  // a has most on the path: all of its time.
  const std::vector<models::OperatorOnPath> on_path = models::operators_on_path(job.run().db(), 0, 8);
  ASSERT_FALSE(on_path.empty());
  EXPECT_EQ(on_path[0].name, "fc");
  EXPECT_EQ(on_path[0].path_ns, 350e3);
}

TEST(OperatorReplay, WithoutKnownWaitsTheyAreReadOffTheSteps) {
  const Script script(4, {kernel_of(0, 1, 300),
                          kernel_of(1, 2, 200),
                          {Action::kWaitFor, 0, 0, 0, 0, false},
                          kernel_of(0, 3, 50),
                          {Action::kSynchronize, 0, 0, 0, 0, true}});
  OperatorReplays job({script}, false);
  EXPECT_EQ(job.run().integer("SELECT count(*) FROM stream_wait"), 0);
  EXPECT_EQ(job.saving_ns("a", 0.9), 4 * 30 * kMicro);
  EXPECT_EQ(job.saving_ns("a", 0.5), 4 * 98 * kMicro) << "c never began before b was over";
  EXPECT_EQ(job.saving_ns("b", 0), 0) << "b began before a was over";
}

TEST(OperatorReplay, AHostThatComesLateGainsNothing) {
  std::vector<Action> step;
  for (int i = 0; i < 10; ++i) step.insert(step.end(), {work_of(100), kernel_of(0, 1, 40)});
  step.push_back(work_of(100));
  OperatorReplays job({Script(4, step)});
  EXPECT_EQ(job.saving_ns("a", 0.5), 0);
  EXPECT_EQ(job.saving_ns("a", 0), 0);
}

TEST(OperatorReplay, WhatALateRankDoesIsWhatOthersWaitFor) {
  const Action reduce{Action::kCollective, 0, 4, 50 * kMicro, kMicro, false},
      wait{Action::kSynchronize, 0, 0, 0, 0, false};
  const Script quick(4, {kernel_of(0, 1, 100), kernel_of(0, 3, 20), reduce, wait}),
      slow(4, {kernel_of(0, 1, 160), kernel_of(0, 2, 20), reduce, wait});
  OperatorReplays job({quick, slow});
  EXPECT_EQ(job.saving_ns("a", 0.5), 4 * 80 * kMicro);
  EXPECT_EQ(job.saving_ns("c", 0), 0) << "of the rank that waits";
  EXPECT_EQ(job.saving_ns("b", 0), 4 * 20 * kMicro);
  EXPECT_EQ(job.saving_ns("ncclDevKernel_AllReduce", 0), 4 * 50 * kMicro) << "the transfer, not the waiting";
}

TEST(OperatorReplay, NothingIsKnownWithoutGpus) {
  Tables run(2);
  run.analyze();
  const Catalog catalog(run.db());
  EXPECT_THROW(models::OperatorReplay(run.db(), catalog, 0), Error);
}

TEST(OperatorReplay, IsWhatTheSimulatorSays) {
  size_t saved = 0, hidden = 0;
  for (unsigned seed = 1; seed <= 20; ++seed) {
    std::mt19937_64 random(seed);
    const auto any = [&](int64_t least, int64_t most) {
      return std::uniform_int_distribution<int64_t>(least, most)(random) * kMicro +
             2 * static_cast<int64_t>(random() % 500);
    };
    const size_t ranks = 1 + seed % 3;
    std::vector<Script> job(ranks, Script(6));
    for (size_t s = 0; s < 6; ++s) {
      for (size_t i = 0; i < 3 + seed % 20; ++i) {
        const size_t what = random() % 12, stream = random() % kStreamsUsed;
        for (Script& rank : job) {
          Action action{Action::kLaunch, stream, 1 + static_cast<int64_t>(random() % 3), any(1, 120), any(1, 5), false};
          if (what < 2) action = {Action::kWork, 0, 0, any(1, 200), 0, false};
          if (what == 2) action = {Action::kWaitFor, stream, 0, 0, 0, false};
          if (what == 3) action = {Action::kSynchronize, stream, 0, 0, 0, random() % 2 == 0};
          if (what == 4) action.what = Action::kCopy, action.name = 5;
          if (what == 5) action.what = Action::kCollective, action.name = 4;
          rank[s].push_back(action);
        }
      }
      for (Script& rank : job) rank[s].push_back(work_of(1));
    }
    OperatorReplays replays(job);
    EXPECT_NEAR(replays.replay->replayed_step_s(), replays.replay->recorded_step_s(), 1e-9) << seed;
    const char* const names[] = {"a", "b", "c", "ncclDevKernel_AllReduce", "[CUDA memcpy HtoD]"};
    for (size_t n = 0; n < 5; ++n) {
      if (!models::operator_named(replays.run().db(), names[n])) continue;
      for (const double scale : {0.5, 0.0}) {
        const int64_t truth_ns = replays.truth_ns(static_cast<int64_t>(n) + 1, scale),
                      found_ns = replays.saving_ns(names[n], scale);
        EXPECT_LE(std::abs(found_ns - truth_ns), 30) << found_ns << " for " << truth_ns << ", "
                                                     << "seed " << seed << ", " << names[n] << " x" << scale;
        ++(truth_ns > 0 ? saved : hidden);
      }
    }
  }
  EXPECT_GT(saved, 50u);
  EXPECT_GT(hidden, 5u);
}

}  // namespace
}  // namespace ddl::test
