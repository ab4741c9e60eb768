// Operations, communicators and layers under one numbering: every process has its own in its spool. Communicators get the labels that the
// store gives them (store/ingest/communicators.h).
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

  /// What a process says of a communicator. `creator`: the operation that made it, or empty. More than `max_members` are damage.
  struct Description {
    uint64_t world_key = 0;
    int32_t rank = 0;  ///< of the process
    const CommunicatorMeta& meta;
    std::span<const RankRun> runs;
    std::string creator;
    uint64_t max_members = 0;
  };
  /// Place in Job::communicators. Of NCCL: its members are known when each has said so of itself.
  uint32_t communicator(Job& job, const Description& description);
  void name_communicator(uint32_t number, const std::string& name);
  /// It came of the split of that number of its parent, of which others may have come.
  void split_communicator(uint32_t number, uint32_t parent, uint32_t split);
  /// Brings labels and axes up to date: call it when all processes have been read.
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
