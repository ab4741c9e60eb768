#include "analyzer/passes/passed_on.h"

#include <algorithm>
#include <utility>

#include "analyzer/query.h"

namespace ddl {
namespace {

constexpr double kMostOfIt = 0.5;  // of a wait: what it is then booked to
constexpr size_t kMostPending = 64;
constexpr uint32_t kMostRanks = INT32_MAX;

bool is_most_of(int64_t part_ns, int64_t whole_ns) {
  return static_cast<double>(part_ns) >= kMostOfIt * static_cast<double>(whole_ns);
}

/// Members leave when the root is done with them, or they with the root: not together.
bool has_a_root(const Operation& operation) {
  return operation.op_class == OpClass::kRootToAll || operation.op_class == OpClass::kAllToRoot;
}

}  // namespace

PassedOn::PassedOn(const Catalog& catalog, int64_t events) : events_(static_cast<size_t>(events)) {
  for (const auto& [id, communicator] : catalog.communicators)
    if (communicator.size > 1 && communicator.kind != "inter") {
      ++communicators_[communicator.world];
      int64_t& most = world_sizes_[communicator.world];
      most = std::max(most, communicator.size);
    }
}

void PassedOn::add(const CommunicatorInfo& communicator, const Instance& instance, const Split& split,
                   std::optional<double> sigma_ns, int64_t first_row) {
  if (split.late.empty() || !sigma_ns) return;
  const bool together = communicator.size == world_sizes_[communicator.world] && !has_a_root(*instance.operation);
  if (communicators_[communicator.world] < 2) {
    bool& after_together = after_together_.try_emplace(communicator.world, true).first->second;
    if (std::exchange(after_together, together) && together) return;  // to and from it nothing is passed on
  }
  if (visits_.empty()) visits_.reserve(events_);
  const Member& last = instance.members[split.late.front()];
  const auto by_enter = [](const Member& a, const Member& b) { return a.enter_ns < b.enter_ns; };
  const int64_t last_enter_ns = std::max_element(instance.members.begin(), instance.members.end(), by_enter)->enter_ns;
  instances_.push_back({last_enter_ns, first_row, last.step.value_or(-1), visits_.size(),
                        static_cast<uint32_t>(instance.members.size()), *sigma_ns, together});
  for (size_t i = 0; i < instance.members.size(); ++i) {
    const Member& m = instance.members[i];
    uint32_t& place = place_of_[static_cast<uint64_t>(m.process)];
    if (place == 0) {
      ranks_.push_back(m.rank);
      place = static_cast<uint32_t>(ranks_.size());
    }
    visits_.push_back({m.enter_ns, m.leave_ns(), split.wait_ns[i], (place - 1) & kMostRanks, 0});
  }
  for (const size_t late : split.late) visits_[instances_.back().first_visit + late].late = 1;
}

/// The last collective that the rank left before `enter_ns`; null: there is none.
const PassedOn::Late* PassedOn::before(uint32_t rank, int64_t enter_ns) {
  const Late* found = nullptr;
  for (const Late& late : left_[rank])
    if (late.leave_ns <= enter_ns && (found == nullptr || late.leave_ns > found->leave_ns)) found = &late;
  return found;
}

/// How late and because of whom: all that added up since the last collective of all ranks, and in the step.
PassedOn::Behind PassedOn::behind_of(const Late& late) {
  Behind behind = late.earlier;
  if (behind.ns > 0 && behind.root == late.root)
    behind.ns += late.late_ns;
  else if (late.late_ns > behind.ns)
    behind = {late.late_ns, late.root};
  return behind;
}

uint32_t PassedOn::root_of(const One& one, const Visit& late) {
  const uint32_t last = late.rank;
  const Late* own = before(last, late.enter_ns);
  if (own == nullptr) return last;
  const Behind behind = one.together ? behind_of(*own) : Behind{own->late_ns, own->root};
  if (behind.root == last) return last;
  int64_t waited_ns = 0, passed_ns = 0, longest_ns = 0;
  for (size_t v = one.first_visit; v < one.first_visit + one.visits; ++v) {
    const Visit& visit = visits_[v];
    if (visit.wait_ns <= 0) continue;
    waited_ns += visit.wait_ns;
    longest_ns = std::max(longest_ns, visit.wait_ns);
    const Late* other = before(visit.rank, visit.enter_ns);
    if (other == nullptr) continue;
    passed_ns += std::clamp<int64_t>(std::min(own->leave_ns - other->leave_ns, behind.ns), 0, visit.wait_ns);
  }
  const bool told = one.sigma_ns <= kTrustedSigmaShare * static_cast<double>(longest_ns);
  return told && is_most_of(passed_ns, waited_ns) ? behind.root : last;
}

void PassedOn::leave(const One& one, uint32_t root) {
  int64_t longest_ns = 0;
  for (size_t v = one.first_visit; v < one.first_visit + one.visits; ++v)
    longest_ns = std::max(longest_ns, visits_[v].wait_ns);
  for (size_t v = one.first_visit; v < one.first_visit + one.visits; ++v) {
    const Visit& visit = visits_[v];
    const Late* own = before(visit.rank, visit.enter_ns);
    Late late{visit.leave_ns, longest_ns, one.step, root, {}};
    if (own != nullptr && !one.together)
      late.earlier = own->step == one.step && one.step >= 0 ? own->earlier : behind_of(*own);
    // It came as late as the last one, or the collective was as late as all of its members were already: what that
    // began with goes on.
    const bool came_late = visit.wait_ns > 0 && !is_most_of(visit.wait_ns, longest_ns);
    if (one.together) {
      late.late_ns = 0;
    } else if (own != nullptr && own->step == one.step && one.step >= 0 &&
               (came_late ? is_most_of(own->late_ns, longest_ns) : own->late_ns > longest_ns)) {
      late.late_ns = std::max(late.late_ns, own->late_ns);
      late.root = own->root;
    } else if (came_late) {
      late.root = visit.rank;
    }
    std::vector<Late>& left = left_[visit.rank];
    // A later enter has no use for what was left before the last leave that is over by then.
    const int64_t over_ns = own == nullptr ? INT64_MIN : own->leave_ns;
    std::erase_if(left, [over_ns](const Late& l) { return l.leave_ns < over_ns; });
    if (left.size() >= kMostPending) left.erase(left.begin());
    left.push_back(late);
  }
}

void PassedOn::move(SQLite::Database& db) {
  std::vector<uint32_t> order(instances_.size());
  for (uint32_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(),
                   [&](uint32_t a, uint32_t b) { return instances_[a].last_enter_ns < instances_[b].last_enter_ns; });
  left_.assign(ranks_.size(), {});
  std::vector<std::pair<int64_t, int64_t>> moved;  // rowid, to
  for (const uint32_t i : order) {
    const One& one = instances_[i];
    uint32_t first_root = 0;
    bool any = false;
    int64_t row = one.first_row;
    for (size_t v = one.first_visit; v < one.first_visit + one.visits; ++v) {
      if (!visits_[v].late) continue;
      const uint32_t root = root_of(one, visits_[v]);
      if (!std::exchange(any, true)) first_root = root;
      if (root != visits_[v].rank) moved.emplace_back(row, ranks_[root]);
      ++row;
    }
    if (any) leave(one, first_root);
  }
  Query update(db, "UPDATE late SET rank = ?2 WHERE rowid = ?1");
  for (const auto& [row, rank] : moved) update.run(row, rank);
  visits_ = {};
  instances_ = {};
  left_ = {};
}

}  // namespace ddl
