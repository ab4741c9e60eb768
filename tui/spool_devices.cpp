#include "tui/spool_devices.h"

#include <algorithm>
#include <string_view>

#include "store/ingest/device.h"
#include "store/ingest/gpu_names.h"
#include "store/ingest/nccl_collectives.h"

namespace ddl::tui {
namespace {

// What is remembered of each kind; a kernel whose launch is older than that is told by its name alone.
constexpr size_t kMaxLaunches = 1 << 17;
constexpr size_t kMaxAwaited = 1 << 14;
constexpr size_t kMaxCalls = 1 << 14;
constexpr size_t kMaxSizes = 1 << 17;
constexpr size_t kMaxWaiting = 1 << 18;
constexpr size_t kMaxClocks = 64;
constexpr size_t kMaxNodes = 1 << 18;
constexpr uint32_t kRepetitionShift = 32;
// CUPTI hands over what GPUs did since the last time, stream by stream: records that were left out may have ended until
// then, a flush after what came next. The recorder asks for them once a second.
constexpr int64_t kDeliveryNs = 1'500'000'000;

bool is_work(DeviceKind kind) {
  return kind == DeviceKind::kKernel || kind == DeviceKind::kMemcpy || kind == DeviceKind::kMemset;
}

bool begins_before(const DeviceWork& a, const DeviceWork& b) {
  return a.start_ticks != b.start_ticks ? a.start_ticks < b.start_ticks : a.end_ticks > b.end_ticks;
}

}  // namespace

void NcclSizes::add(uint32_t comm, uint32_t sequence, int64_t payload_bytes) {
  const uint64_t key = uint64_t{comm} << 32 | sequence;
  const auto [known, is_new] = largest_.try_emplace(key, payload_bytes);
  known->second = std::max(known->second, payload_bytes);
  if (!is_new) return;
  order_.push_back(key);
  for (; order_.size() > kMaxSizes; order_.pop_front()) largest_.erase(order_.front());
}

int64_t NcclSizes::largest(uint32_t comm, uint32_t sequence) const {
  const auto known = largest_.find(uint64_t{comm} << 32 | sequence);
  return known == largest_.end() ? 0 : known->second;
}

void SpoolDevices::on_device_clock(const DeviceClockMeta& meta) {
  if (clocks_.size() >= kMaxClocks) clocks_.erase(clocks_.begin());
  clocks_.push_back(meta);
}

void SpoolDevices::on_graph_node(const GraphNodeMeta& meta) {
  if (nodes_.size() < kMaxNodes || nodes_.contains(meta.node)) nodes_[meta.node] = meta;
}

const GraphNodeMeta* SpoolDevices::captured(uint64_t node) const {
  for (size_t steps = 0; steps <= nodes_.size(); ++steps) {  // a damaged spool may lead in circles
    const auto found = nodes_.find(node);
    if (found == nodes_.end()) return nullptr;
    if (found->second.original == 0) return &found->second;
    node = found->second.original;
  }
  return nullptr;
}

void SpoolDevices::take_launch(const Record& r) {
  const auto correlation = static_cast<uint32_t>(r.payload);
  const Launch launch{r.start_ticks, record_duration_ticks(r.word), r.comm, r.sequence};
  const auto [known, is_new] = launches_.try_emplace(correlation, launch);
  if (is_new) {
    launch_order_.push_back(correlation);
    const auto kind = static_cast<LaunchKind>(record_op(r.word));
    if (kind == LaunchKind::kKernel || kind == LaunchKind::kCopy || kind == LaunchKind::kGraph)
      awaited_.insert({r.start_ticks, correlation});
  } else if (launch.duration_ticks > known->second.duration_ticks) {
    // a runtime function around the driver's: the outer counts
    if (awaited_.erase({known->second.start_ticks, correlation}) > 0) awaited_.insert({r.start_ticks, correlation});
    known->second = launch;
  }
  while (launches_.size() > kMaxLaunches) {
    const auto oldest = launches_.find(launch_order_.front());
    if (oldest != launches_.end()) awaited_.erase({oldest->second.start_ticks, oldest->first});
    launches_.erase(launch_order_.front());
    launch_order_.pop_front();
  }
  while (awaited_.size() > kMaxAwaited) awaited_.erase(awaited_.begin());
}

void SpoolDevices::take_call(const Record& r, uint32_t thread, uint32_t op, uint32_t layer) {
  const auto comm = comms_.find(r.comm);
  if (comm == comms_.end() || r.sequence == kNoSequence) return;
  const Key key(r.comm, r.sequence);
  if (calls_.insert_or_assign(key, Call{op, thread, layer, r.peer, payload_bytes(r.payload)}).second)
    call_order_.push_back(key);
  sizes_.add(comm->second.comm, r.sequence, static_cast<int64_t>(payload_bytes(r.payload)));
  for (; call_order_.size() > kMaxCalls; call_order_.pop_front()) {
    calls_.erase(call_order_.front());
    groups_.erase(call_order_.front());
  }
}

void SpoolDevices::take_group(const Record& r) { groups_[{r.comm, r.sequence}] = r.payload; }

DeviceClass SpoolDevices::class_of(uint32_t name) {
  const auto [known, is_new] = classes_.try_emplace(name, DeviceClass::kCompute);
  if (is_new) {
    const auto text = strings_.find(name);
    const std::string_view told =
        text == strings_.end() ? "" : store::GpuNames::class_of(store::GpuNames::readable(text->second));
    if (told == "communication") known->second = DeviceClass::kCommunication;
  }
  return known->second;
}

void SpoolDevices::answer(const DeviceRecord& record, RankDevices& to) {
  const auto launch = launches_.find(record.correlation);
  if (record.correlation == 0 || launch == launches_.end()) return;
  to.answered_ticks = std::max(to.answered_ticks, launch->second.start_ticks);
  awaited_.erase({launch->second.start_ticks, record.correlation});
}

/// What can be placed in time and joined now, by begin.
std::vector<SpoolDevices::Waiting> SpoolDevices::take_waiting(bool ended, const store::ProcessClock& clock) {
  std::vector<Waiting> ready;
  std::deque<Waiting> later;
  const store::DeviceClock device_clock(clocks_);
  for (const Waiting& waiting : waiting_) {  // as they were written
    const DeviceRecord& r = waiting.record;
    const bool on_its_clock = (device_flags(r.what) & kDeviceTime) != 0;
    if (!left_out_ || first_ticks_ || (on_its_clock && !device_clock.known())) break;
    if (is_work(device_kind(r.what))) first_ticks_ = on_its_clock ? device_clock.ticks(r.end, clock) : r.end;
  }
  for (Waiting& waiting : waiting_) {
    DeviceRecord& r = waiting.record;
    const bool placed = (device_flags(r.what) & kDeviceTime) == 0 || device_clock.known();
    const bool launched = r.correlation == 0 || launches_.contains(r.correlation) || waiting.again;
    if (!ended && (!placed || !launched)) {
      waiting.again = true;
      later.push_back(waiting);
      continue;
    }
    if (!placed) continue;
    if (device_flags(r.what) & kDeviceTime) {
      r.start = device_clock.ticks(r.start, clock);
      r.end = std::max(r.start, device_clock.ticks(r.end, clock));
    }
    ready.push_back(waiting);
  }
  while (later.size() > kMaxWaiting) later.pop_front();
  waiting_ = std::move(later);
  std::stable_sort(ready.begin(), ready.end(),
                   [](const Waiting& a, const Waiting& b) { return a.record.start < b.record.start; });
  return ready;
}

void SpoolDevices::join(const Job& job, Rank& rank) {
  RankDevices& to = rank.devices;
  if (!to.launches && (!launches_.empty() || !waiting_.empty())) {
    to.launches = true;
    to.since_ns = job.now_ns;
  }
  std::vector<DeviceWork> work;
  std::map<std::pair<Key, uint32_t>, Kernel> kernels;  // and its repetition
  to.until_ticks = until_ticks_;
  const std::vector<Waiting> arrived = take_waiting(job.ended, rank.clock);
  if (first_ticks_) to.from_ns = std::max(to.from_ns, rank.clock.time_ns(*first_ticks_) + kDeliveryNs);
  for (const Waiting& waiting : arrived) {
    const DeviceRecord& r = waiting.record;
    const DeviceKind kind = device_kind(r.what);
    answer(r, to);
    if (!is_work(kind)) continue;
    to.seen.insert(r.device);
    uint32_t comm = r.comm, sequence = r.sequence;
    if (r.context == kContextOfLaunch) {
      const auto launch = launches_.find(r.correlation);
      if (const GraphNodeMeta* node = r.graph_node != 0 ? captured(r.graph_node) : nullptr) {
        comm = node->comm;
        sequence = node->sequence;
      } else if (r.correlation != 0 && launch != launches_.end()) {
        comm = launch->second.comm;
        sequence = launch->second.sequence;
      }
    }
    DeviceWork w;
    w.start_ticks = r.start;
    w.end_ticks = r.end;
    w.device = r.device;
    w.device_class = kind == DeviceKind::kKernel ? class_of(r.name) : DeviceClass::kCopy;
    const auto member = comms_.find(comm);
    if (member != comms_.end() && kind != DeviceKind::kMemset) {
      if (kind == DeviceKind::kKernel) w.device_class = DeviceClass::kCommunication;
      const Key key(comm, sequence);
      // The k-th run of a captured collective is the same on all ranks only where they are counted from the first.
      const bool is_numbered = sequence != kNoSequence && (r.graph_node == 0 || !left_out_);
      if (is_numbered) {
        const uint32_t repetition = r.graph_node == 0 ? 0 : runs_[{key, r.graph_node}]++;
        w.comm = member->second.comm;
        w.comm_rank = member->second.rank;
        w.sequence = sequence + (uint64_t{repetition} << kRepetitionShift);
        Kernel& kernel =
            kernels.try_emplace({key, repetition}, Kernel{r.start, r.end, r.graph_node != 0}).first->second;
        kernel.end_ticks = std::max(kernel.end_ticks, r.end);
        if (kind == DeviceKind::kKernel) to.arrived.push_back(w);
      }
    }
    work.push_back(w);
  }
  std::sort(work.begin(), work.end(), begins_before);
  if (!work.empty()) {
    const auto from = std::upper_bound(to.work.begin(), to.work.end(), work.front(), begins_before) - to.work.begin();
    const auto middle = static_cast<ptrdiff_t>(to.work.size());
    to.work.insert(to.work.end(), work.begin(), work.end());
    std::inplace_merge(to.work.begin() + from, to.work.begin() + middle, to.work.end(), begins_before);
  }
  std::vector<std::pair<const std::pair<Key, uint32_t>*, const Kernel*>> by_begin;
  for (const auto& [key, kernel] : kernels) by_begin.emplace_back(&key, &kernel);
  std::sort(by_begin.begin(), by_begin.end(),
            [](const auto& a, const auto& b) { return a.second->start_ticks < b.second->start_ticks; });
  for (const auto& [key, kernel] : by_begin) add_collectives(job, rank, key->first, key->second, *kernel);
  to.awaited_ticks.reset();
  if (!awaited_.empty()) to.awaited_ticks = awaited_.begin()->first;
}

/// The collectives that one kernel carried out: each gets its part of it in proportion to what it moves.
void SpoolDevices::add_collectives(const Job& job, Rank& rank, const Key& first, uint32_t repetition,
                                   const Kernel& kernel) {
  const auto group = groups_.find(first);
  const uint64_t count = group == groups_.end() ? 1 : group->second;
  const Member member = comms_.at(first.first);
  std::vector<std::pair<uint32_t, const Call*>> calls;
  std::vector<int64_t> sizes;
  for (uint64_t i = 0; i < count && calls.size() == i; ++i) {
    const uint32_t sequence = first.second + static_cast<uint32_t>(i);
    const auto call = calls_.find({first.first, sequence});
    if (call == calls_.end()) return;  // its calls were left out: nobody can say what it was
    calls.emplace_back(sequence, &call->second);
    sizes.push_back(store::nccl_whole_size(job.operations[call->second.op].operation.name,
                                           sizes_.largest(member.comm, sequence), job.communicators[member.comm].size));
  }
  const std::vector<int64_t> ends = store::nccl_share_ends(sizes);
  for (size_t i = 0; i < calls.size(); ++i) {
    const Call& call = *calls[i].second;
    Event e;
    e.start_ticks = kernel.start_ticks;
    e.duration_ticks = kernel.end_ticks - kernel.start_ticks;
    e.bytes = call.bytes;
    e.op = call.op;
    e.comm = member.comm;
    e.sequence = calls[i].first + (uint64_t{repetition} << kRepetitionShift);
    e.thread = call.thread;
    e.peer = call.peer;
    e.layer = call.layer;
    e.device = true;
    e.share_begin = i == 0 ? 0 : ends[i - 1];
    e.share_end = ends[i];
    e.share_total = ends.back();
    rank.events.push_back(e);
  }
  if (kernel.is_captured) return;  // it runs again
  for (const auto& [sequence, call] : calls) calls_.erase({first.first, sequence});
  groups_.erase(first);
}

}  // namespace ddl::tui
