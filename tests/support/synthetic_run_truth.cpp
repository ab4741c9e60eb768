#include "tests/support/synthetic_run_truth.h"

#include <algorithm>
#include <stdexcept>
#include <tuple>

#include "tests/support/synthetic_run_ops.h"

namespace ddl::test {

int64_t InstanceTruth::wait_ns() const {
  int64_t sum = 0;
  for (const MemberTruth& m : members) sum += m.wait_ns.value_or(0);
  return sum;
}

int64_t InstanceTruth::transfer_ns() const {
  int64_t sum = 0;
  for (const MemberTruth& m : members) sum += m.transfer_ns.value_or(0);
  return sum;
}

const InstanceTruth& Truth::instance(const std::string& comm, uint32_t seq) const {
  // Where the only communicator is the world, it is the seq-th; else it comes later.
  for (size_t i = 0; i < instances.size(); ++i) {
    const InstanceTruth& instance = instances[(i + seq - 1) % instances.size()];
    if (instance.comm == comm && instance.seq == seq) return instance;
  }
  throw std::out_of_range("no instance " + std::to_string(seq) + " on " + comm);
}

const StepTruth& Truth::step(int rank, uint64_t number) const {
  const auto found =
      std::lower_bound(steps.begin(), steps.end(), std::tie(rank, number),
                       [](const StepTruth& s, const auto& key) { return std::tie(s.rank, s.step) < key; });
  if (found != steps.end() && found->rank == rank && found->step == number) return *found;
  throw std::out_of_range("no finished step " + std::to_string(number) + " on rank " + std::to_string(rank));
}

const OpenCallTruth& Truth::open_call(int rank) const {
  for (const OpenCallTruth& c : open_calls) {
    if (c.rank == rank) return c;
  }
  throw std::out_of_range("no open call on rank " + std::to_string(rank));
}

bool Truth::has_open_call(int rank) const {
  return std::any_of(open_calls.begin(), open_calls.end(), [&](const OpenCallTruth& c) { return c.rank == rank; });
}

ProfileTruth Truth::profile_sum(int rank, const std::string& op) const {
  ProfileTruth sum;
  sum.rank = rank;
  sum.op = op;
  for (const ProfileTruth& p : profile) {
    if (p.rank != rank || p.op != op) continue;
    sum.calls += p.calls;
    sum.bytes += p.bytes;
    sum.time_ns += p.time_ns;
  }
  return sum;
}

int64_t Truth::blame_ns(int waiter, int late) const {
  int64_t sum = 0;
  for (const InstanceTruth& i : instances) {
    if (!i.complete) continue;
    int64_t last_ns = INT64_MIN;
    int root = -1;
    for (const MemberTruth& m : i.members) {
      last_ns = std::max(last_ns, m.enter_ns);
      if (m.comm_rank == i.root) root = m.rank;
    }
    const synthetic::Op& op = synthetic::operation(i.op);
    for (const MemberTruth& m : i.members) {
      if (m.rank != waiter) continue;
      const bool for_root =
          op.op_class == OpClass::kRootToAll || (op.is_rooted() && m.rank != root && m.leave_ns <= last_ns);
      const std::vector<int> awaited = for_root ? std::vector{root} : i.last_ranks;
      if (std::find(awaited.begin(), awaited.end(), late) != awaited.end())
        sum += m.wait_ns.value_or(0) / static_cast<int64_t>(awaited.size());
    }
  }
  return sum;
}

int64_t Truth::wait_ns(int rank) const {
  int64_t sum = 0;
  for (const InstanceTruth& i : instances) {
    for (const MemberTruth& m : i.members) {
      if (m.rank == rank) sum += m.wait_ns.value_or(0);
    }
  }
  return sum;
}

}  // namespace ddl::test
