// From events to finished steps, by the analyzer's rules, one step after the other while the job runs.
//
// A collective is split when all its members are here (analyzer/passes/instance.h). A step is cut when all ranks have
// ended it, all its collectives are split and nothing posted in it is in flight (analyzer/passes/partition.h). What is
// missing after two more steps will not come: the step is cut without it, and unknown waiting is not shown. Only the
// analyzer splits waiting in messages: live, calls that complete messages have an unknown wait.
//
// GPU work is cut beside that of threads (devices.h); the observer, which sees a whole window, decides which to show.
//
// A job without steps is cut into seconds. If no step ends for long, the oldest events are dropped: memory
// is always bounded.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "analyzer/findings/straggler_case.h"
#include "analyzer/passes/partition.h"
#include "tui/collective_use.h"
#include "tui/devices.h"

namespace ddl::tui {

/// The waiting that one rank caused in one step.
struct Blamed {
  int32_t rank = 0;
  std::vector<std::pair<int32_t, int64_t>> waiters;  ///< rank, ns
};

struct LayerUse {
  int64_t time_ns = 0;
  int64_t comm_ns = 0;  ///< collectives called from it, post to completion
};

/// Who was late in collectives.
struct Lateness {
  std::vector<LateRow> late;
  std::vector<Blamed> blamed;
  std::set<uint32_t> comms;  ///< of these collectives: Job::communicators
};

struct FinishedStep {
  uint64_t number = 0;
  int64_t longest_ns = 0;              ///< of its ranks
  std::vector<RankPart> thread_parts;  ///< as Job::ranks, by their threads
  std::vector<RankPart> parts;         ///< by its GPUs if it has any, else as above; missing: its GPUs' work is unknown
  bool devices = false;                ///< GPU work is known for some rank
  bool device_collectives = false;     ///< GPUs carried out some
  int64_t device_wait_ns = 0;          ///< exposed waiting in them, as far as known
  std::vector<int64_t> unknown;        ///< ranks whose GPU records had not come
  std::optional<double> samples;       ///< training samples reported by all ranks together
  Lateness by_thread, by_device;       ///< in calls; in kernels
  std::vector<CollectiveUse> collectives;
  std::vector<std::map<uint32_t, LayerUse>> layers;  ///< as Job::ranks, by Job::layers
};

class Steps {
 public:
  static constexpr size_t kKept = 64;  ///< finished steps with all their numbers

  /// Cuts what can be cut. Call after each poll.
  void advance(Job& job);
  /// The newest kKept of them.
  const std::deque<FinishedStep>& finished() const { return finished_; }
  uint64_t count() const { return count_; }  ///< ever
  bool annotated() const { return annotated_; }

 private:
  struct MemberRef {
    uint32_t rank;   ///< Job::ranks
    uint64_t event;  ///< number of the event among all that the rank ever had
  };
  /// A split collective, until its last member's step is finished.
  struct Done {
    uint32_t rank;  ///< the last to enter
    uint64_t enter_ticks;
    int64_t enter_ns = 0;
    bool device = false;
    Lateness lateness;
    struct InLayer {
      uint32_t rank;
      uint32_t layer;
      int64_t ns;
    };
    std::vector<InLayer> layers;  ///< that kernels were launched from
    CollectiveUse use;
  };

  /// Whether all events of a rank are calls of one thread.
  struct OneThread {
    bool are_all = true;
    uint32_t thread = 0;
  };

  void take_events(Job& job);
  void bound(Job& job);
  void drop_lost_instances();
  void resolve(Job& job, uint32_t comm, const std::vector<MemberRef>& members);
  void end_seconds(Job& job);
  bool is_due(const Job& job, uint64_t number) const;
  void finish(Job& job, uint64_t number);
  uint64_t horizon(const Job& job, size_t rank) const;
  /// `stop`: the rank's horizon.
  RankPart cut(const Job& job, const Rank& rank, const EndedStep& step, uint64_t stop) const;
  void book(std::deque<Done>& done, const std::vector<const EndedStep*>& steps, int64_t horizon_ns, bool background,
            FinishedStep& into);
  Event* event_of(Job& job, const MemberRef& member) const;

  std::map<std::pair<uint32_t, uint64_t>, std::vector<MemberRef>> assembling_;  ///< by communicator and number
  Devices devices_;
  /// of calls; of kernels, which become known later; by when the last member came
  std::deque<Done> done_, device_done_;
  std::vector<uint64_t> taken_;    ///< per rank: events ever taken
  std::vector<uint64_t> dropped_;  ///< per rank: events ever dropped from the front
  std::vector<OneThread> calls_;   ///< per rank
  std::deque<FinishedStep> finished_;
  uint64_t count_ = 0;
  bool annotated_ = false;
  int skipped_ = 0;                ///< steps at whose begin only some ranks' events were there
  std::optional<int64_t> second_;  ///< the next one, of jobs without steps
};

}  // namespace ddl::tui
