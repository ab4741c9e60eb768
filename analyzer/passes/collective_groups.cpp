#include "analyzer/passes/collective_groups.h"

#include <algorithm>

#include "analyzer/query.h"

namespace ddl {
namespace {

/// Bytes per second; nothing if the time is zero or not known.
std::optional<double> rate(int64_t bytes, const std::optional<double>& time_ns) {
  if (!time_ns || *time_ns <= 0) return std::nullopt;
  return static_cast<double>(bytes) / *time_ns * 1e9;
}

std::optional<double> scaled(const std::optional<double>& value, const std::optional<double>& factor) {
  return value && factor ? std::optional(*value * *factor) : std::nullopt;
}

bool takes_the_longest(const Operation& operation) {
  return operation.wait == WaitRule::kLateRoot || operation.wait == WaitRule::kEarlyRoot ||
         operation.size == SizeRule::kLargest;
}

}  // namespace

double transfer_time_ns(const Instance& instance, const Split& split) {
  int64_t sum_ns = 0;
  int64_t longest_ns = 0;
  for (size_t i = 0; i < instance.members.size(); ++i) {
    const int64_t xfer_ns = instance.members[i].duration_ns - split.wait_ns[i];
    sum_ns += xfer_ns;
    longest_ns = std::max(longest_ns, xfer_ns);
  }
  const auto n = static_cast<double>(instance.members.size());
  return takes_the_longest(*instance.operation) ? static_cast<double>(longest_ns) : static_cast<double>(sum_ns) / n;
}

void CollectiveGroups::add(const CommunicatorInfo& communicator, int64_t op, const Instance& instance,
                           std::optional<int64_t> bytes, const Split& split, double sigma_ns) {
  Group& group = group_of(communicator, op, bytes);

  int64_t sum_ns = 0;
  int64_t longest_ns = 0;
  int64_t xfer_sum_ns = 0;
  bool in_step = false;
  const size_t n = instance.members.size();
  for (size_t i = 0; i < n; ++i) {
    const Member& m = instance.members[i];
    sum_ns += m.duration_ns;
    longest_ns = std::max(longest_ns, m.duration_ns);
    group.min_ns = std::min(group.min_ns, m.duration_ns);
    in_step |= m.step.has_value();
    if (split.wait_ns.empty()) continue;
    const int64_t xfer_ns = m.duration_ns - split.wait_ns[i];
    xfer_sum_ns += xfer_ns;
    group.wait_ns += split.wait_ns[i];
    if (split.wait_ns[i] > 0) group.sigma_ns += sigma_ns;
    if (!split.min_duration_wait_ns.empty()) {
      group.min_duration_wait_ns = group.min_duration_wait_ns.value_or(0) + split.min_duration_wait_ns[i];
    }
  }
  ++group.instances;
  group.step_instances += in_step ? 1 : 0;
  group.calls += static_cast<int64_t>(n);
  group.time_ns += sum_ns;
  group.max_ns = std::max(group.max_ns, longest_ns);
  group.nonblocking |= instance.nonblocking;
  const double mean_ns = static_cast<double>(sum_ns) / static_cast<double>(n);
  if (instance.complete) {
    group.raw_times.add(takes_the_longest(*instance.operation) ? static_cast<double>(longest_ns) : mean_ns);
    group.longest_times.add(static_cast<double>(longest_ns));
    if (!split.wait_ns.empty()) {
      group.xfer_times.add(transfer_time_ns(instance, split));
    }
  } else if (instance.partial && !takes_the_longest(*instance.operation)) {
    group.partial_times.add(mean_ns);
  }
  if (split.wait_ns.empty()) {
    group.why = split.why;
  } else {
    group.split_calls += static_cast<int64_t>(n);
    group.xfer_ns += xfer_sum_ns;
    if (group.method != WaitMethod::kLowerBound) group.method = split.method;
    if (split.method == WaitMethod::kLowerBound) {
      group.why = Why::kPartialRanks;
      group.bounded_times.add(transfer_time_ns(instance, split));
    }
  }
  if (split.completion_ns) group.completion_ns = group.completion_ns.value_or(0) + *split.completion_ns;
}

CollectiveGroups::Group& CollectiveGroups::group_of(const CommunicatorInfo& communicator, int64_t op,
                                                    std::optional<int64_t> bytes) {
  Key key{communicator.id, op, bytes.value_or(-1)};
  if (groups_.size() >= kMaxGroups && !groups_.contains(key)) key.bytes = -1;
  return groups_[key];
}

void CollectiveGroups::add_bound(const CommunicatorInfo& communicator, int64_t op, const Instance& instance,
                                 std::optional<int64_t> bytes, const Split& bound) {
  group_of(communicator, op, bytes).bounded_times.add(transfer_time_ns(instance, bound));
}

void CollectiveGroups::write(SQLite::Database& db, const Catalog& catalog) const {
  Query insert(
      db,
      "INSERT INTO collective_group (world, op, comm, bytes, instances, step_instances, calls, time_ns, min_ns, max_ns, wait_ns, "
      "wait_method,"
      " min_duration_wait_ns, xfer_ns, split_calls, algbw_bytes_per_second, busbw_xfer, busbw_raw, busbw_max, upper_bound, why,"
      " bus_factor, completion_ns, sigma_ns) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
  Query insert_transfer(
      db, "INSERT INTO group_transfer (world, op, comm, bytes, xfer_ns, busbw, bounded) VALUES (?, ?, ?, ?, ?, ?, ?)");
  for (const auto& [key, group] : groups_) {
    const CommunicatorInfo& communicator = catalog.communicators.at(key.communicator);
    const bool split = group.split_calls > 0;
    const std::optional<double> factor = bus_factor(catalog.operation(key.op).bus, communicator.size);

    std::optional<double> algbw, busbw_xfer, busbw_raw, busbw_max;
    Why why = Why::kNone;
    const bool is_size_known = communicator.size > 0;
    if ((is_size_known && !factor) || key.bytes == 0 || group.nonblocking) {
      // from post to completion is an upper bound of the transfer: no bandwidth can be told from it
      why = Why::kNotApplicable;
    } else if (key.bytes < 0 || !is_size_known) {
      why = group.why == Why::kNone ? Why::kNoData : group.why;
    } else {
      algbw = rate(key.bytes, group.xfer_times.median());
      busbw_xfer = scaled(algbw, factor);
      // What a member moved in its own time needs nobody else, but where others are known they count as well.
      const std::optional<double> raw_ns = group.raw_times.median();
      busbw_raw = scaled(rate(key.bytes, raw_ns ? raw_ns : group.partial_times.median()), factor);
      busbw_max = scaled(rate(key.bytes, group.longest_times.median()), factor);
      if (!algbw) why = split && group.why != Why::kPartialRanks ? Why::kZeroDenominator : group.why;
    }
    if (key.bytes > 0 && !group.nonblocking) {
      const bool bounded = group.bounded_times.count() > group.xfer_times.count();
      const std::optional<double> xfer_ns = (bounded ? group.bounded_times : group.xfer_times).median();
      if (xfer_ns.value_or(0) > 0)
        insert_transfer.run(communicator.world, key.op, key.communicator, key.bytes, *xfer_ns,
                            scaled(rate(key.bytes, xfer_ns), factor), bounded);
    }
    const auto if_split = [split](int64_t value) { return split ? std::optional(value) : std::nullopt; };
    insert.run(communicator.world, key.op, key.communicator, key.bytes < 0 ? std::nullopt : std::optional(key.bytes),
               group.instances, group.step_instances, group.calls, group.time_ns, group.min_ns, group.max_ns,
               if_split(group.wait_ns), name_of(group.method), group.min_duration_wait_ns, if_split(group.xfer_ns),
               group.split_calls, algbw, busbw_xfer, busbw_raw, busbw_max, group.nonblocking, name_of(why), factor,
               group.completion_ns, split ? std::optional(group.sigma_ns) : std::nullopt);
  }
}

}  // namespace ddl
