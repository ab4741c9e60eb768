// From events to finished steps: the same law as the analyzer's, one step after the other while the job runs.
//
// A collective is split when all its members are here (analyzer/passes/instance.h); a step is cut when all ranks have ended it, all its
// collectives are split and nothing that was posted in it is in flight (analyzer/passes/partition.h). What has not come after two more
// steps will not come: then it is cut with what is there, and the waiting that is not known is not shown. Waiting in messages is the
// analyzer's alone: live, calls that complete messages have an unknown wait.
//
// What GPUs did is cut beside what threads did (devices.h); which of the two is shown is for the observer to say, who sees a whole window.
//
// A job without steps is cut into seconds instead. Where no step ends for long, the oldest events go: memory is bounded in any case.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "analyzer/findings/straggler_case.h"
#include "analyzer/passes/partition.h"
#include "tui/collective_use.h"
#include "tui/devices.h"

namespace ddl::tui {

/// What one rank made the others wait in one step.
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
};

struct FinishedStep {
  uint64_t number = 0;
  int64_t longest_ns = 0;              ///< of its ranks
  std::vector<RankPart> thread_parts;  ///< as Job::ranks, by their threads
  std::vector<RankPart> parts;         ///< of each rank by its GPUs if it has any, else as above; not there: what its GPUs did is not known
  bool devices = false;                ///< what GPUs did is known of some rank
  bool device_collectives = false;     ///< GPUs carried out some
  int64_t device_wait_ns = 0;          ///< exposed waiting in them, as far as it is known
  std::vector<int64_t> unknown;        ///< ranks whose GPUs' records had not come
  std::optional<double> samples;       ///< that all ranks said they trained on
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
  /// A collective that was split, until the step of its last member is finished.
  struct Done {
    uint32_t rank;  ///< who entered last
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
  void book(std::deque<Done>& done, const std::vector<const EndedStep*>& steps, int64_t horizon_ns, FinishedStep& into);
  Event* event_of(Job& job, const MemberRef& member) const;

  std::map<std::pair<uint32_t, uint64_t>, std::vector<MemberRef>> assembling_;  ///< by communicator and number
  Devices devices_;
  std::deque<Done> done_, device_done_;  ///< of calls; of kernels, which become known later; by when the last member came
  std::vector<uint64_t> taken_;          ///< per rank: events ever taken
  std::vector<uint64_t> dropped_;        ///< per rank: events ever dropped from the front
  std::vector<OneThread> calls_;         ///< per rank
  std::deque<FinishedStep> finished_;
  uint64_t count_ = 0;
  bool annotated_ = false;
  int skipped_ = 0;                ///< steps at the begin of which only some ranks' events were there
  std::optional<int64_t> second_;  ///< the next one, of jobs without steps
};

}  // namespace ddl::tui
