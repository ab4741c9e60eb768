#include "tests/support/synthetic_run_ledger.h"

#include <algorithm>
#include <stdexcept>

#include "tests/support/synthetic_run_ops.h"

namespace ddl::test::synthetic {

// ------------------------------------------------------------------------------------------------------------- entries

void Ledger::begin_step(int rank, uint64_t, int64_t t) {
  BookRank& book = ranks_[static_cast<size_t>(rank)];
  book.step = Range{t, book.in_calls};
  book.ranges.push_back(*book.step);
}

void Ledger::end_step(int rank, uint64_t step, int64_t t) {
  BookRank& book = ranks_[static_cast<size_t>(rank)];
  book.ranges.clear();
  const int64_t exposed = book.in_calls - book.step->in_calls;
  const int64_t duration = t - book.step->start;
  truth_.steps.push_back({rank, step, book.step->start, duration, duration - exposed, exposed, 0});
  book.step.reset();
}

void Ledger::open_range(int rank, int64_t t) {
  BookRank& book = ranks_[static_cast<size_t>(rank)];
  book.ranges.push_back({t, book.in_calls});
}

void Ledger::close_range(int rank, const std::string& kind, const std::string& region, int64_t t) {
  BookRank& book = ranks_[static_cast<size_t>(rank)];
  const Range range = book.ranges.back();
  book.ranges.pop_back();
  ProfileTruth& to = row({rank, kind, "", region});
  ++to.calls;
  to.bytes += book.in_calls - range.in_calls;
  to.time_ns += t - range.start;
}

void Ledger::call(int rank, const std::string& op, const std::string& comm, const std::string& region, int64_t bytes,
                  int64_t enter_ns, int64_t leave_ns) {
  BookRank& book = ranks_[static_cast<size_t>(rank)];
  book.in_calls += leave_ns - enter_ns;
  book.calls.push_back({enter_ns, leave_ns});
  ProfileTruth& to = row({rank, op, comm, region});
  ++to.calls;
  to.bytes += bytes;
  to.time_ns += leave_ns - enter_ns;
}

void Ledger::polls(int rank, const std::string& op, const std::string& region, int64_t count, int64_t each_ns) {
  ranks_[static_cast<size_t>(rank)].in_calls += count * each_ns;
  ProfileTruth& to = row({rank, op, "", region});
  to.calls += count;
  to.time_ns += count * each_ns;
}

void Ledger::remember_receive(uint64_t post, int rank, const std::string& op, const std::string& comm,
                              const std::string& region) {
  receives_[post] = {rank, op, comm, region};
}

ProfileTruth& Ledger::row(const Key& key) {
  const auto [found, is_new] = profile_.try_emplace(key);
  if (is_new) std::tie(found->second.rank, found->second.op, found->second.comm, found->second.region) = key;
  return found->second;
}

size_t Ledger::add_instance() {
  instances_.emplace_back();
  return instances_.size() - 1;
}

void Ledger::leave_instance(size_t number, int rank, int64_t t) {
  for (MemberTruth& m : instances_[number].members) {
    if (m.rank == rank) m.leave_ns = t;
  }
}

// ----------------------------------------------------------------------------------------------------------- the close

namespace {

/// What the member waited for began at this moment; nothing: waiting is not defined here.
std::optional<int64_t> waited_until(const InstanceTruth& instance, const Op& op, const MemberTruth& member) {
  if (op.is_symmetric()) {
    // Without data nobody has to wait for anybody, except in what is there for waiting.
    if (instance.bytes == 0 && op.op_class == OpClass::kAllToAll) return member.enter_ns;
    int64_t last = member.enter_ns;
    for (const MemberTruth& m : instance.members) last = std::max(last, m.enter_ns);
    return last;
  }
  if (!op.is_rooted()) return std::nullopt;
  const bool is_root = member.comm_rank == instance.root;
  int64_t root_enter = member.enter_ns, last = member.enter_ns;
  for (const MemberTruth& m : instance.members) {
    if (m.comm_rank == instance.root) root_enter = m.enter_ns;
    last = std::max(last, m.enter_ns);
  }
  if (instance.bytes == 0) return member.enter_ns;
  if (op.op_class == OpClass::kRootToAll) return is_root ? member.enter_ns : root_enter;
  if (is_root || member.leave_ns > last) return last;
  return member.leave_ns > root_enter ? root_enter : member.enter_ns;
}

void split(InstanceTruth& instance) {
  const Op& op = operation(instance.op);
  instance.complete = instance.missing.empty();
  int64_t last = INT64_MIN;
  for (const MemberTruth& m : instance.members) {
    instance.complete = instance.complete && m.leave_ns;
    last = std::max(last, m.enter_ns);
  }
  for (const MemberTruth& m : instance.members) {
    if (m.enter_ns == last) instance.last_ranks.push_back(m.rank);
  }
  if (!instance.complete) return;
  for (MemberTruth& m : instance.members) {
    const std::optional<int64_t> until = waited_until(instance, op, m);
    if (!until) continue;
    m.wait_ns = std::max<int64_t>(0, std::min(*until, *m.leave_ns) - m.enter_ns);
    m.transfer_ns = *m.leave_ns - m.enter_ns - *m.wait_ns;
  }
}

}  // namespace

/// The longest wait of every call in which messages ended.
void Ledger::split_messages() {
  for (const auto& [call, ends] : message_calls_) {
    const auto& [rank, enter_ns, leave_ns] = call;
    std::optional<int64_t>* longest = nullptr;
    int64_t longest_ns = 0;
    for (const bool received : {true, false}) {
      for (const auto& [number, is_receive] : ends) {
        if (is_receive != received) continue;
        MessageTruth& m = truth_.messages[number];
        std::optional<int64_t>& wait = received ? m.late_sender_wait_ns : m.late_receiver_wait_ns;
        wait = 0;
        const int64_t wait_ns = received                  ? std::min(m.send_ns, leave_ns) - enter_ns
                                : leave_ns > m.receive_ns ? m.receive_ns - enter_ns
                                                          : 0;
        if (wait_ns <= longest_ns) continue;
        longest = &wait;
        longest_ns = wait_ns;
      }
    }
    if (longest == nullptr) continue;
    *longest = longest_ns;
    ranks_[static_cast<size_t>(rank)].waiting.push_back({enter_ns, enter_ns + longest_ns});
  }
}

/// Length of the time in `window` that is in a call and waiting.
int64_t Ledger::overlap(const std::vector<Interval>& calls, const std::vector<Interval>& waiting, Interval window) {
  int64_t sum = 0;
  auto call = std::lower_bound(calls.begin(), calls.end(), window.begin,
                               [](const Interval& c, int64_t t) { return c.end <= t; });
  for (; call != calls.end() && call->begin < window.end; ++call) {
    int64_t covered = std::max(call->begin, window.begin);  // everything before it is counted
    const int64_t end = std::min(call->end, window.end);
    auto wait = std::lower_bound(waiting.begin(), waiting.end(), covered,
                                 [](const Interval& w, int64_t t) { return w.end <= t; });
    for (; wait != waiting.end() && wait->begin < end; ++wait) {
      const int64_t from = std::max(covered, wait->begin), until = std::min(end, wait->end);
      if (until <= from) continue;
      sum += until - from;
      covered = until;
    }
  }
  return sum;
}

Truth Ledger::close() {
  split_messages();
  for (InstanceTruth& instance : instances_) {
    split(instance);
    for (const MemberTruth& m : instance.members) {
      if (m.wait_ns.value_or(0) > 0)
        ranks_[static_cast<size_t>(m.rank)].waiting.push_back({m.enter_ns, m.enter_ns + *m.wait_ns});
    }
    truth_.instances.push_back(std::move(instance));
  }
  for (BookRank& book : ranks_) {  // merged, so that they are in order of their ends too
    std::vector<Interval> merged;
    std::sort(book.waiting.begin(), book.waiting.end(),
              [](const Interval& a, const Interval& b) { return a.begin < b.begin; });
    for (const Interval& w : book.waiting) {
      if (!merged.empty() && w.begin <= merged.back().end) {
        merged.back().end = std::max(merged.back().end, w.end);
      } else {
        merged.push_back(w);
      }
    }
    book.waiting = std::move(merged);
  }
  for (StepTruth& step : truth_.steps) {
    const BookRank& book = ranks_[static_cast<size_t>(step.rank)];
    step.wait_ns = overlap(book.calls, book.waiting, {step.start_ns, step.start_ns + step.duration_ns});
  }
  std::sort(truth_.steps.begin(), truth_.steps.end(),
            [](const StepTruth& a, const StepTruth& b) { return std::tie(a.rank, a.step) < std::tie(b.rank, b.step); });
  for (const auto& [key, sums] : profile_) truth_.profile.push_back(sums);
  return std::move(truth_);
}

}  // namespace ddl::test::synthetic
