#include "tui/devices.h"

#include <algorithm>
#include <vector>

namespace ddl::tui {
namespace {

// what was launched before has come by then: the recorder asks CUPTI once a second
constexpr int64_t kFlushNs = 2'500'000'000;
constexpr int64_t kGoneNs = 5'000'000'000;  // what has not come by then will not
constexpr size_t kMaxInstances = 1 << 18;

bool is_before(const DeviceWork& work, uint64_t ticks) { return work.start_ticks < ticks; }

}  // namespace

void Devices::take(Job& job) {
  for (Rank& rank : job.ranks) {
    for (const DeviceWork& work : rank.devices.arrived) {
      const auto [entry, is_new] = instances_.try_emplace({work.comm, work.sequence});
      Instance& instance = entry->second;
      if (is_new) {
        order_.push_back(entry->first);
        instance.domain = rank.clock.domain;
      }
      instance.one_host &= instance.domain == rank.clock.domain;
      const int64_t begin_ns = rank.clock.time_ns(work.start_ticks);
      int64_t& first_ns = instance.begins_ns.try_emplace({rank.rank, work.comm_rank}, begin_ns).first->second;
      first_ns = std::min(first_ns, begin_ns);
      instance.end_ns = std::max(instance.end_ns, rank.clock.time_ns(work.end_ticks));
    }
    rank.devices.arrived.clear();
  }
  for (; order_.size() > kMaxInstances; order_.pop_front()) instances_.erase(order_.front());
}

bool Devices::is_pending(const Job& job, const Rank& rank, const EndedStep& step) {
  const RankDevices& devices = rank.devices;
  if (!devices.launches || job.ended || is_over(rank.life)) return false;
  // as of a host whose live files have none
  if (devices.seen.empty() && job.now_ns - devices.since_ns > kGoneNs) return false;
  if (!devices.awaited_ticks || *devices.awaited_ticks >= step.end_ticks) return false;
  const int64_t age_ns = job.now_ns - rank.clock.time_ns(step.end_ticks);
  return age_ns < (devices.answered_ticks >= step.end_ticks ? kFlushNs : kGoneNs);
}

std::optional<int64_t> Devices::wait_ns(const Job& job, const DeviceWork& work, const Interval& kernel) const {
  if (work.comm == kNone || work.sequence == 0) return std::nullopt;
  const auto found = instances_.find({work.comm, work.sequence});
  if (found == instances_.end() || !found->second.one_host) return std::nullopt;
  const auto& begins_ns = found->second.begins_ns;
  if (static_cast<int32_t>(begins_ns.size()) != job.communicators[work.comm].size) return std::nullopt;
  int64_t last_ns = INT64_MIN;
  for (const auto& [member, begin_ns] : begins_ns) last_ns = std::max(last_ns, begin_ns);
  return std::clamp<int64_t>(last_ns - kernel.begin_ns, 0, kernel.length_ns());
}

std::optional<Devices::Cut> Devices::cut(const Job& job, const Rank& rank, const EndedStep& step) const {
  const RankDevices& devices = rank.devices;
  if (!devices.launches && devices.seen.empty()) return std::nullopt;
  const Interval window{rank.clock.time_ns(step.start_ticks), rank.clock.time_ns(step.end_ticks)};
  Cut cut;
  cut.part.duration_ns = std::max<int64_t>(0, window.length_ns());
  // Who ends by itself asks CUPTI for everything; who is killed loses the last second, and what was launched
  // then has no answer.
  const bool ended_itself = rank.life == Life::kFinalized || rank.life == Life::kExited;
  const bool has_all = !devices.awaited_ticks || *devices.awaited_ticks >= step.end_ticks ||
                       devices.answered_ticks >= step.end_ticks || ended_itself;
  cut.left_out = devices.from_ns > window.begin_ns;
  if (devices.seen.empty() || cut.left_out || !has_all || step.end_ticks > devices.until_ticks) return cut;
  cut.is_known = true;
  std::map<uint16_t, std::vector<DeviceOperation>> operations;
  for (const uint16_t device : devices.seen) operations[device];
  for (const DeviceWork& work : devices.work) {
    if (!is_before(work, step.end_ticks)) break;
    DeviceOperation operation;
    operation.interval = {rank.clock.time_ns(work.start_ticks), rank.clock.time_ns(work.end_ticks)};
    if (operation.interval.end_ns <= window.begin_ns || operation.interval.length_ns() <= 0) continue;
    operation.device_class = work.device_class;
    if (work.device_class == DeviceClass::kCommunication) {
      operation.wait_ns = wait_ns(job, work, operation.interval);
      cut.has_collectives = true;
    }
    operations[work.device].push_back(operation);
  }
  RankPart sum;
  int64_t wait_sum_ns = 0, waiting_sum_ns = 0;
  bool split = true;
  for (const auto& [device, of_device] : operations) {
    const DevicePartition p = partition_device(window, of_device, nullptr, {});
    sum.compute_ns += p.compute_ns;
    sum.comm_ns += p.comm_ns;
    sum.exposed_ns += p.exposed_comm_ns;
    sum.copy_ns += p.exposed_copy_ns;
    wait_sum_ns += p.exposed_wait_ns;
    waiting_sum_ns += p.wait_ns;
    split &= p.split;
  }
  const auto count = static_cast<int64_t>(operations.size());
  cut.part.compute_ns = sum.compute_ns / count;
  cut.part.comm_ns = sum.comm_ns / count;
  cut.part.exposed_ns = sum.exposed_ns / count;
  cut.part.copy_ns = sum.copy_ns / count;
  if (split) cut.part.wait_ns = wait_sum_ns / count;
  if (split) cut.part.waiting_ns = waiting_sum_ns / count;
  return cut;
}

void Devices::drop(Rank& rank, const EndedStep& step) {
  auto& work = rank.devices.work;
  while (!work.empty() && work.front().end_ticks <= step.end_ticks) work.pop_front();
}

void Devices::forget_before(int64_t time_ns) {
  while (!order_.empty()) {
    const auto oldest = instances_.find(order_.front());
    if (oldest != instances_.end() && oldest->second.end_ns >= time_ns) break;
    if (oldest != instances_.end()) instances_.erase(oldest);
    order_.pop_front();
  }
}

void Devices::bound(Rank& rank, size_t most) {
  auto& devices = rank.devices;
  for (; devices.work.size() > most; devices.work.pop_front())
    devices.from_ns = std::max(devices.from_ns, rank.clock.time_ns(devices.work.front().end_ticks));
}

}  // namespace ddl::tui
