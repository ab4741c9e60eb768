#include "tui/numbering.h"

#include <algorithm>

namespace ddl::tui {

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
  const auto [known, is_new] = communicator_ids_.try_emplace({d.world_key, d.meta.uid}, static_cast<uint32_t>(communicators_.size()));
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
    for (const int64_t rank : store::members_of(c.flags, c.size, c.runs, d.max_members)) shown.ranks.push_back(static_cast<int32_t>(rank));
    shown.comparable = !(c.flags & kCommInter) && !shown.ranks.empty() &&
                       std::all_of(shown.ranks.begin(), shown.ranks.end(), [](int32_t rank) { return rank >= 0; });
    communicators_.push_back(std::move(c));
    job.communicators.push_back(std::move(shown));
    relabel_ = true;
  }
  store::Communicator& c = communicators_[known->second];
  relabel_ |= d.meta.index < c.first_index || d.rank < c.first_rank;
  c.first_index = std::min(c.first_index, d.meta.index);
  c.first_rank = std::min<int64_t>(c.first_rank, d.rank);
  return known->second;
}

void Numbering::name_communicator(uint32_t number, const std::string& name) {
  std::string& known = communicators_[number].name;
  if (!known.empty() || name.empty()) return;
  known = name;
  relabel_ = true;
}

void Numbering::label(Job& job) {
  if (!relabel_) return;
  relabel_ = false;
  store::label_communicators(communicators_);
  for (size_t i = 0; i < communicators_.size(); ++i) job.communicators[i].label = communicators_[i].label;
}

}  // namespace ddl::tui
