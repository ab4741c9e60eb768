// Carries a TrainingJob out: what every rank does in a step, action by action, and when.
#pragma once

#include <deque>
#include <filesystem>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "tests/support/synthetic_run_ops.h"
#include "tests/support/synthetic_run_process.h"
#include "tests/support/training_job.h"
#include "tests/support/training_job_random.h"

namespace ddl::test {

/// One thing that a rank does.
struct Action {
  enum class Kind { kCompute, kOpen, kClose, kCollective, kPost, kWaitall, kSend, kReceive, kLaunch, kSynchronize };
  Kind kind = Kind::kCompute;
  int64_t ns = 0;          ///< compute; launch: what the GPU does
  bool irregular = false;  ///< compute: as loading data is
  int64_t bytes = 0;
  size_t comm = 0;  ///< index into the rank's communicators: world, node, column
  const char* op = nullptr;
  int peer = -1;
  ContextKind range = ContextKind::kPhase;
  std::string name = {};  ///< of the range
  uint32_t site = 0;      ///< place in the program
};

/// What `rank` does in `step`, without its noise.
std::vector<Action> program_of(const TrainingJob& job, int rank, uint64_t step);

enum : size_t { kWorldComm = 0, kNodeComm = 1, kColumnComm = 2 };

class TrainingSimulation {
 public:
  /// `recorded`: the ranks write spools.
  TrainingSimulation(const TrainingJob& job, bool recorded);
  void run();
  /// For every step, the longest time over the ranks.
  const std::vector<int64_t>& step_ns() const { return step_ns_; }
  void write(const std::filesystem::path& folder);

 private:
  struct Group {
    std::vector<int> members;
    TrainingJob::Link link;
    double slow_by = 1;  ///< factor on the time per byte
    uint64_t slow_from = 0;
    int64_t free_ns = 0;  ///< when earlier bytes in the background are over
  };
  struct Meeting {
    std::vector<std::pair<int, int64_t>> entered;  ///< rank, when
    int64_t done_ns = -1;                          ///< posted ones: when the bytes have moved
  };
  struct Posted {
    size_t group;
    uint32_t sequence;
    synthetic::SyntheticProcess::Call call;
    uint64_t payload;
  };
  struct Rank {
    int64_t now = 0;
    std::vector<Action> program;
    size_t at = 0;
    bool in_collective = false;
    synthetic::SyntheticProcess::Call call;  ///< of that
    std::vector<Posted> posted;
    int64_t gpu_free_ns = 0;
    uint32_t launches = 0;
    std::unique_ptr<synthetic::SyntheticProcess> process;
  };

  void make_ranks(bool recorded);
  void make_groups();
  void initialize();
  void finalize();
  void run_step(uint64_t step);
  bool advance(int rank, uint64_t step);  ///< false: it waits for others
  void meet(int rank, const Action& action, uint64_t step);
  bool wait_all(int rank, const Action& action);
  void launch(int rank, const Action& action, uint64_t step, size_t place);
  bool receive(int rank, const Action& action);
  void send(int rank, const Action& action, uint64_t step);
  int64_t computing_ns(int rank, uint64_t step, const Action& action, size_t place) const;
  int64_t transfer_ns(const Group& group, const Action& action, uint32_t sequence, uint64_t step) const;
  synthetic::SyntheticProcess::Call enter(int rank, const Action& action, const char* op, uint32_t sequence, int peer,
                                          uint64_t payload);
  void leave(int rank, synthetic::SyntheticProcess::Call& call, int64_t t, uint64_t payload);
  Rank& at(int rank) { return ranks_[static_cast<size_t>(rank)]; }
  size_t group_of(int rank, size_t comm) const;

  const TrainingJob& job_;
  Dice dice_;
  std::vector<Rank> ranks_;
  std::vector<Group> groups_;                            ///< world, nodes, columns
  std::vector<std::vector<uint32_t>> sequence_;          ///< by group and rank
  std::map<std::pair<size_t, uint32_t>, Meeting> open_;  ///< by group and number
  /// by sender and receiver: arrival, bytes
  std::map<std::pair<int, int>, std::deque<std::pair<int64_t, int64_t>>> mail_;
  std::vector<int64_t> step_ns_;
};

}  // namespace ddl::test
