#include "tui/numbering.h"

#include <algorithm>

#include "analyzer/passes/axes.h"

namespace ddl::tui {
namespace {

constexpr uint64_t kMaxRanksOfProcess = 64;  // of one communicator of NCCL: a process may have one for each of its GPUs

}  // namespace

uint32_t Numbering::operation(Job& job, const std::string& name, OpClass op_class, bool nonblocking) {
  const auto [known, is_new] = operations_.try_emplace(name, static_cast<uint32_t>(job.operations.size()));
  if (is_new) {
    JobOperation op;
    op.operation = describe_operation(name, store::name_of(op_class), nonblocking);
    op.message = message_operation(op.operation);
    job.operations.push_back(std::move(op));
  }
  return known->second;
}

uint32_t Numbering::layer(Job& job, const std::string& phase, const std::string& name) {
  const auto [known, is_new] = layers_.try_emplace(phase + '\0' + name, static_cast<uint32_t>(job.layers.size()));
  if (is_new) job.layers.push_back({name, phase});
  return known->second;
}

uint32_t Numbering::communicator(Job& job, const Description& d) {
  const auto [known, is_new] =
      communicator_ids_.try_emplace({d.world_key, d.meta.uid}, static_cast<uint32_t>(communicators_.size()));
  if (is_new) {
    store::Communicator c;
    c.world = static_cast<int64_t>(d.world_key);  // tells worlds apart; their order does not matter here
    c.uid = d.meta.uid;
    c.size = d.meta.size;
    c.flags = d.meta.flags;
    c.creator = d.creator;
    c.runs.assign(d.runs.begin(), d.runs.end());
    c.first_index = d.meta.index;
    c.first_rank = d.rank;
    JobCommunicator shown;
    shown.size = c.size;
    for (const int64_t rank : store::members_of(c.flags, c.size, c.runs, d.max_members))
      shown.ranks.push_back(static_cast<int32_t>(rank));
    shown.comparable = !(c.flags & kCommInter) && !shown.ranks.empty() &&
                       std::all_of(shown.ranks.begin(), shown.ranks.end(), [](int32_t rank) { return rank >= 0; });
    communicators_.push_back(std::move(c));
    parents_.push_back(kNone);
    job.communicators.push_back(std::move(shown));
    relabel_ = true;
  }
  store::Communicator& c = communicators_[known->second];
  if (c.flags & kCommNccl) add_member(job.communicators[known->second], d);
  relabel_ |= d.meta.index < c.first_index || d.rank < c.first_rank;
  c.first_index = std::min(c.first_index, d.meta.index);
  c.first_rank = std::min<int64_t>(c.first_rank, d.rank);
  return known->second;
}

void Numbering::add_member(JobCommunicator& shown, const Description& d) {
  const auto size = static_cast<uint64_t>(std::max(0, d.meta.size));
  if (d.meta.size != shown.size || d.meta.rank < 0 || d.meta.rank >= d.meta.size) return;
  if (size > d.max_members * kMaxRanksOfProcess) return;
  shown.ranks.resize(size, -1);
  shown.ranks[static_cast<size_t>(d.meta.rank)] = d.rank;
  relabel_ = true;
  shown.comparable = std::all_of(shown.ranks.begin(), shown.ranks.end(), [](int32_t rank) { return rank >= 0; });
}

void Numbering::name_communicator(uint32_t number, const std::string& name) {
  std::string& known = communicators_[number].name;
  if (!known.empty() || name.empty()) return;
  known = name;
  relabel_ = true;
}

void Numbering::split_communicator(uint32_t number, uint32_t parent, uint32_t split) {
  relabel_ |= communicators_[number].split != split;
  communicators_[number].split = split;
  parents_[number] = parent;
}

void Numbering::label(Job& job) {
  if (!relabel_) return;
  relabel_ = false;
  store::label_communicators(communicators_);
  for (size_t i = 0; i < communicators_.size(); ++i) job.communicators[i].label = communicators_[i].label;
  std::vector<AxisInput> inputs;
  for (size_t i = 0; i < communicators_.size(); ++i) {
    const store::Communicator& c = communicators_[i];
    AxisInput input;
    input.label = c.label;
    input.groups_ranks = (c.flags & (kCommSelf | kCommInter | kCommWindow | kCommFile)) == 0;
    input.size = c.size;
    input.ranks.assign(job.communicators[i].ranks.begin(), job.communicators[i].ranks.end());
    input.world_size = job.world_size;
    if (parents_[i] != kNone) input.parent = parents_[i];
    input.split = c.split;
    inputs.push_back(std::move(input));
  }
  const std::vector<AxisOfCommunicator> axes = axes_of(inputs);
  for (size_t i = 0; i < axes.size(); ++i) {
    job.communicators[i].axis = axes[i].axis;
    job.communicators[i].axis_source = axes[i].source;
  }
}

}  // namespace ddl::tui
