// One numbering of operations, communicators and layers, since every process has its own in its spool. Communicators
// get the store's labels (store/ingest/communicators.h).
#pragma once

#include <map>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "store/ingest/communicators.h"
#include "tui/job.h"

namespace ddl::tui {

class Numbering {
 public:
  /// Place in Job::operations.
  uint32_t operation(Job& job, const std::string& name, OpClass op_class, bool nonblocking);
  /// Place in Job::layers.
  uint32_t layer(Job& job, const std::string& phase, const std::string& name);

  /// A process's description of a communicator. `creator`: the operation that made it, or empty. More than
  /// `max_members` are damage.
  struct Description {
    uint64_t world_key = 0;
    int32_t rank = 0;  ///< of the process
    const CommunicatorMeta& meta;
    std::span<const RankRun> runs;
    std::string creator;
    uint64_t max_members = 0;
  };
  /// Place in Job::communicators. NCCL's members are known once each has described itself.
  uint32_t communicator(Job& job, const Description& description);
  void name_communicator(uint32_t number, const std::string& name);
  /// It came of its parent's split of that number, which may have made others too.
  void split_communicator(uint32_t number, uint32_t parent, uint32_t split);
  /// Updates labels and axes: call it after reading all processes.
  void label(Job& job);

 private:
  std::unordered_map<std::string, uint32_t> operations_;
  std::unordered_map<std::string, uint32_t> layers_;                    ///< by phase and name
  std::map<std::pair<uint64_t, uint64_t>, uint32_t> communicator_ids_;  ///< by world key and uid
  std::vector<store::Communicator> communicators_;                      ///< as Job::communicators
  void add_member(JobCommunicator& shown, const Description& description);

  std::vector<uint32_t> parents_;  ///< as communicators_, of those that came of a split
  bool relabel_ = false;
};

}  // namespace ddl::tui
