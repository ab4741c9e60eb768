// What several spools tell of one collective of background threads: whether it only coordinates is decided
// from all its members.
#include <gtest/gtest.h>

#include <algorithm>

#include "tui/observer.h"
#include "tui/steps.h"

namespace ddl::test {
namespace {

using Votes = std::vector<int>;

constexpr int8_t kCoordinates = 1, kDoesNotTell = 0, kMovesData = -1;
constexpr uint64_t kFirstBegin = 1'000'000, kStepNs = 10'000'000;  // ticks are ns

/// In each of its steps the ranks enter one collective, each 1 ms after the one before: the last one is late.
tui::Job job_of(const Votes& votes, uint64_t steps = 1) {
  tui::Job job;
  job.background = true;
  job.world_size = static_cast<int32_t>(votes.size());
  job.operations.push_back({describe_operation("MPI_Allreduce", "all_to_all", false), {}});
  tui::JobCommunicator& comm = job.communicators.emplace_back();
  comm.label = "MPI_COMM_WORLD";
  comm.size = job.world_size;
  comm.comparable = true;
  for (size_t r = 0; r < votes.size(); ++r) {
    comm.ranks.push_back(static_cast<int32_t>(r));
    tui::Rank& rank = job.ranks.emplace_back();
    rank.rank = static_cast<int32_t>(r);
    rank.life = tui::Life::kRunning;
    rank.begin_ticks = 1;
    for (uint64_t number = 0; number < steps; ++number) {
      const uint64_t begin = kFirstBegin + number * kStepNs;
      tui::Event& e = rank.events.emplace_back();
      e.start_ticks = begin + r * 1'000'000;
      e.duration_ticks = 5'000'000 - r * 1'000'000;
      e.bytes = 8;
      e.op = e.comm = 0;
      e.sequence = number + 1;
      e.thread = 1;
      e.coordination_vote = static_cast<int8_t>(votes[r]);
      tui::EndedStep& step = rank.steps.emplace_back();
      step.number = number;
      step.start_ticks = begin;
      step.end_ticks = begin + kStepNs;
    }
    rank.newest_ticks = kFirstBegin + steps * kStepNs;
  }
  job.now_ns = static_cast<int64_t>(kFirstBegin + steps * kStepNs);
  return job;
}

TEST(Coordination, IsWhatNoMemberContradictsAndOneTells) {
  struct Case {
    Votes votes;  // ascending
    bool coordination;
  };
  const Case cases[] = {
      {{kCoordinates, kCoordinates, kCoordinates}, true},
      {{kDoesNotTell, kCoordinates, kCoordinates}, true},  // the root of a gather has no bytes
      {{kDoesNotTell, kDoesNotTell, kCoordinates}, true},
      {{kDoesNotTell, kDoesNotTell, kDoesNotTell}, false},
      {{kMovesData, kCoordinates, kCoordinates}, false},  // of an uneven reduction some parts are small
      {{kMovesData, kDoesNotTell, kDoesNotTell}, false},
      {{kMovesData, kDoesNotTell, kCoordinates}, false},
      {{kMovesData, kMovesData, kMovesData}, false},
  };
  for (Case c : cases) {
    do {  // whichever spool is read first
      const std::string what = testing::PrintToString(c.votes);
      tui::Job job = job_of(c.votes);
      tui::Steps steps;
      steps.advance(job);
      ASSERT_EQ(steps.finished().size(), 1u) << what;
      const tui::FinishedStep& step = steps.finished().front();
      ASSERT_EQ(step.collectives.size(), 1u) << what;
      EXPECT_EQ(step.collectives.front().coordination, c.coordination) << what;
      EXPECT_EQ(step.collectives.front().wait_ns, 3'000'000) << what << ": two and one ms";
      EXPECT_EQ(step.by_thread.late.size(), c.coordination ? 0u : 1u)
          << what << ": nobody is late for what only coordinates";
      EXPECT_EQ(step.by_thread.blamed.size(), c.coordination ? 0u : 1u) << what;
    } while (std::next_permutation(c.votes.begin(), c.votes.end()));
  }
}

TEST(Coordination, DoesNotCountWhereTrainingThreadsCallMpi) {
  tui::Job job = job_of({kCoordinates, kCoordinates, kCoordinates});
  job.background = false;  // a barrier of the program's own is as good as any
  tui::Steps steps;
  steps.advance(job);
  ASSERT_EQ(steps.finished().size(), 1u);
  ASSERT_EQ(steps.finished().front().by_thread.late.size(), 1u);
  EXPECT_EQ(steps.finished().front().by_thread.late.front().rank, 2);
}

/// Votes fall call by call: the same operation of the same size coordinates in one and moves data in the next.
TEST(Coordination, IsNoCollectiveOnTheScreen) {
  tui::Job job = job_of({kDoesNotTell, kCoordinates, kCoordinates}, 4);
  for (tui::Rank& rank : job.ranks)
    for (tui::Event& e : rank.events)
      if (e.sequence == 3) e.coordination_vote = rank.rank == 1 ? kMovesData : kDoesNotTell;
  tui::Observer observer;
  const tui::Snapshot s = observer.look(job, false);
  ASSERT_EQ(s.window, 4u);
  EXPECT_TRUE(s.negotiates);
  EXPECT_TRUE(s.blame.empty()) << "who enters last is not whose training thread is late";
  ASSERT_EQ(s.collectives.size(), 1u);
  EXPECT_EQ(s.collectives.front().op, "MPI_Allreduce");
  EXPECT_EQ(s.collectives.front().per_step, 0.25);
  tui::Job data = job_of({kMovesData, kMovesData, kMovesData}, 4);
  const tui::Snapshot moved = tui::Observer().look(data, false);
  EXPECT_FALSE(moved.negotiates);
  EXPECT_FALSE(moved.blame.empty());
  ASSERT_EQ(moved.collectives.size(), 1u);
  EXPECT_EQ(moved.collectives.front().per_step, 1);
}

}  // namespace
}  // namespace ddl::test
