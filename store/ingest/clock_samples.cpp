#include "store/ingest/clock_samples.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <string_view>
#include <tuple>

#include "store/ingest/communicators.h"

namespace ddl::store {

namespace {

constexpr size_t kMaxInstances = 4096, kMinInstances = 64;
constexpr size_t kMaxParts = size_t{1} << 18;  // over all communicators, for each kind of operation
constexpr size_t kHubs = 4;
constexpr uint32_t kFirstSync = 1u << 31;  // their numbers as instances
// A process stamps its header every second in which it does something; an old one every 1/256 of its age
// (core/recorder.h).
constexpr uint64_t kMaxUnseenTicks = 1ull << 34, kAgePerUnseen = 128;
constexpr int64_t kSlackNs = 100;               // stamps are not serialised, and cores' counters differ by tens of ns
constexpr double kMaxDistance = 0x1p57;         // four years
constexpr uint64_t kHeldLogBytes = 1ull << 20;  // of a spool whose samples are held at once

enum Direction : uint8_t { kNone = 0, kMutual = 1, kFromRoot = 2, kToRoot = 3 };

/// MPI_Iallreduce_init -> allreduce
std::string_view family_of(std::string_view name, bool nonblocking) {
  if (name.starts_with("MPI_")) name.remove_prefix(4);
  if (nonblocking && name.starts_with("I")) name.remove_prefix(1);
  for (const std::string_view suffix : {"_init", "_c"}) {
    if (name.ends_with(suffix)) name.remove_suffix(suffix.size());
  }
  if (!name.empty()) name.remove_prefix(1);  // its case depends on what was in front
  return name;
}

Direction direction_of(const ScannedOperation& operation) {
  const std::string_view family = family_of(operation.name, operation.nonblocking);
  for (const std::string_view left_out : {"lltoallv", "lltoallw", "catterv", "educe_scatter"}) {
    if (family == left_out) return kNone;
  }
  switch (operation.op_class) {
    case OpClass::kBarrier:
    case OpClass::kAllToAll:
      return kMutual;
    case OpClass::kRootToAll:
      return kFromRoot;
    case OpClass::kAllToRoot:
      return kToRoot;
    default:
      return kNone;
  }
}

uint32_t scattered(uint32_t sequence) {
  uint64_t x = sequence * 0x9e3779b97f4a7c15ull;
  x = (x ^ x >> 32) * 0xd6e8feb86659fd93ull;
  return static_cast<uint32_t>(x >> 32);
}

bool is_sampled(uint32_t sequence, uint32_t level) { return (scattered(sequence) & ((1ull << level) - 1)) == 0; }

/// Moments on two clocks, each since its base, of which one is not after the other.
void add_bound(std::vector<ClockBound>& to, int64_t here_ns, int64_t there_ns, int64_t slack_ns, uint32_t instance) {
  const double at_ns = static_cast<double>(there_ns);
  const double offset_ns = static_cast<double>(here_ns) - at_ns;
  if (std::max(std::abs(at_ns), std::abs(offset_ns)) > kMaxDistance) return;  // damage
  to.push_back({at_ns, offset_ns + static_cast<double>(slack_ns), instance});
}

}  // namespace

ClockSamples::ClockSamples(const std::vector<Scan>& scans, const Worlds& worlds, const std::vector<size_t>& hosts,
                           const Clocks& clocks)
    : worlds_(worlds), hosts_(hosts), clocks_(clocks), spans_(clocks.domains.size()) {
  std::map<std::pair<int64_t, uint64_t>, std::set<size_t>> hosts_of;
  for (size_t i = 0; i < scans.size(); ++i) {
    const size_t domain = clocks.processes[i].domain;
    domain_of_host_.resize(std::max(domain_of_host_.size(), hosts[i] + 1));
    domain_of_host_[hosts[i]] = domain;
    spans_[domain].base_ns =
        std::min(spans_[domain].base_ns, clocks.processes[i].line.monotonic_ns(scans[i].header.begin.ticks));
    for (const ScannedCommunicator& c : scans[i].communicators) {
      if (c.meta.flags & (kCommSelf | kCommInter | kCommFound | kCommNccl) || c.meta.size < 2 ||
          c.meta.index >= kMaxCommIndex)
        continue;
      hosts_of[{*worlds.places[i].world, c.meta.uid}].insert(hosts[i]);
    }
  }
  size_t columns = 0;
  for (const auto& [key, members] : hosts_of) {
    if (members.size() < 2) continue;
    communicators_[key].hosts.assign(members.begin(), members.end());
    columns += members.size();
  }
  max_instances_ = std::clamp(kMaxParts / std::max<size_t>(columns, 1), kMinInstances, kMaxInstances);
}

std::vector<ClockSamples::Membership> ClockSamples::memberships(const Scan& scan, size_t number) const {
  std::vector<Membership> by_index;
  for (const ScannedCommunicator& c : scan.communicators) {
    const auto found = communicators_.find({*worlds_.places[number].world, c.meta.uid});
    if (found == communicators_.end() || c.meta.flags & (kCommSelf | kCommInter | kCommFound | kCommNccl) ||
        c.meta.index >= kMaxCommIndex)
      continue;
    const Communicator& communicator = found->second;
    const auto column = std::lower_bound(communicator.hosts.begin(), communicator.hosts.end(), hosts_[number]);
    if (by_index.size() <= c.meta.index) by_index.resize(c.meta.index + 1);
    by_index[c.meta.index] = {const_cast<Communicator*>(&communicator),
                              static_cast<size_t>(column - communicator.hosts.begin()), c.meta.rank};
  }
  return by_index;
}

ClockSamples::Part* ClockSamples::part_of(Communicator& communicator, size_t kind, size_t column, uint32_t sequence) {
  Stratum& stratum = communicator.strata[kind];
  if (!is_sampled(sequence, stratum.level)) return nullptr;
  const size_t width = communicator.hosts.size();
  const auto [entry, is_new] = stratum.row_of.try_emplace(sequence, static_cast<uint32_t>(stratum.row_of.size()));
  if (is_new && stratum.row_of.size() > max_instances_) {
    Stratum fewer;
    fewer.level = stratum.level + 1;
    for (const auto& [kept, row] : stratum.row_of) {
      if (!is_sampled(kept, fewer.level) || kept == sequence) continue;
      fewer.row_of.emplace(kept, static_cast<uint32_t>(fewer.row_of.size()));
      const auto from = stratum.parts.begin() + static_cast<std::ptrdiff_t>(row * width);
      fewer.parts.insert(fewer.parts.end(), from, from + static_cast<std::ptrdiff_t>(width));
    }
    stratum = std::move(fewer);
    return stratum.level < 32 ? part_of(communicator, kind, column, sequence) : nullptr;
  }
  if (is_new) stratum.parts.resize(stratum.parts.size() + width);
  return &stratum.parts[entry->second * width + column];
}

ClockSamples::Log ClockSamples::read(const Scan& scan, size_t number) const {
  Log log;
  log.by_index_ = memberships(scan, number);
  if (log.by_index_.empty()) return log;
  log.scan_ = &scan;
  log.line_ = &clocks_.processes[number].line;
  log.domain_ = clocks_.processes[number].domain;
  scan.reader->acquire();
  if (scan.file_bytes > kHeldLogBytes) return log;
  for (const SpoolChunk& chunk : scan.reader->chunks(ChunkKind::kEvents)) log.read(chunk);
  scan.reader->release();
  log.held_ = true;
  return log;
}

void ClockSamples::Log::read(const SpoolChunk& chunk) {
  struct Rule {
    Direction direction = kNone;
    bool nonblocking = false, needs_bytes = true;
  };
  std::array<Rule, 0x1000> rules;
  for (const auto& [op, operation] : scan_->operations) {
    rules[op & 0xfff] = {direction_of(operation), operation.nonblocking, operation.op_class != OpClass::kBarrier};
  }
  const uint64_t latest_ticks = scan_->header.latest.ticks;
  const uint64_t age = latest_ticks - std::min(scan_->header.begin.ticks, latest_ticks);
  const uint64_t unseen = std::max(kMaxUnseenTicks, age / kAgePerUnseen);
  const uint64_t end_of_life =
      latest_ticks == 0 ? UINT64_MAX : latest_ticks + std::min(unseen, UINT64_MAX - latest_ticks);
  std::vector<Record> records;
  scan_->reader->read_records(chunk, records);
  uint64_t first_ticks = UINT64_MAX, last_ticks = 0;
  for (const Record& r : records) {
    const RecordKind record_is = record_kind(r.word);
    if ((record_is != RecordKind::kCall && record_is != RecordKind::kRequest) || r.comm >= by_index_.size()) continue;
    const Membership& member = by_index_[r.comm];
    if (!member.communicator) continue;
    const uint64_t end_ticks = r.start_ticks + record_duration_ticks(r.word);
    if (end_ticks > end_of_life) continue;  // damage, which would stretch the interval by hours
    first_ticks = std::min(first_ticks, r.start_ticks);
    last_ticks = std::max(last_ticks, end_ticks);
    const Rule& rule = rules[record_op(r.word)];
    if (rule.direction == kNone || rule.nonblocking != (record_is == RecordKind::kRequest) || r.sequence == kNoSequence)
      continue;
    Sample sample{member.communicator, member.column, r.sequence, rule.direction * 2u + (rule.nonblocking ? 1 : 0), {}};
    const bool is_root = r.peer == member.rank;
    const bool is_waited_for = (payload_bytes(r.payload) > 0 || !rule.needs_bytes) &&
                               (rule.direction == kMutual || is_root == (rule.direction == kFromRoot));
    const bool waits = rule.direction == kMutual || is_root == (rule.direction == kToRoot);
    if (is_waited_for) sample.part.last_enter_ns = line_->monotonic_ns(r.start_ticks);
    if (waits) sample.part.first_leave_ns = line_->monotonic_ns(end_ticks);
    samples_.push_back(sample);
  }
  if (first_ticks <= last_ticks) {
    span_.first_ns = std::min(span_.first_ns, line_->monotonic_ns(first_ticks));
    span_.last_ns = std::max(span_.last_ns, line_->monotonic_ns(last_ticks));
  }
}

void ClockSamples::add(Log log) {
  if (log.by_index_.empty()) return;
  add(log.samples_);
  if (!log.held_) {
    SpoolReader& reader = *log.scan_->reader;
    for (const SpoolChunk& chunk : reader.chunks(ChunkKind::kEvents)) {
      log.samples_.clear();
      log.read(chunk);
      add(log.samples_);
    }
    reader.release();
  }
  Span& span = spans_[log.domain_];
  span.first_ns = std::min(span.first_ns, log.span_.first_ns);
  span.last_ns = std::max(span.last_ns, log.span_.last_ns);
}

void ClockSamples::add(const std::vector<Sample>& samples) {
  for (const Sample& sample : samples) {
    Part* part = part_of(*sample.communicator, sample.kind, sample.column, sample.sequence);
    if (!part) continue;
    part->last_enter_ns = std::max(part->last_enter_ns, sample.part.last_enter_ns);
    part->first_leave_ns = std::min(part->first_leave_ns, sample.part.first_leave_ns);
  }
}

template <class Function>
void ClockSamples::each_instance(const Communicator& communicator, Function function) const {
  for (const Stratum& stratum : communicator.strata) {
    std::vector<uint32_t> numbers;
    for (const auto& [sequence, row] : stratum.row_of) {
      if (is_sampled(sequence, stratum.level)) numbers.push_back(sequence);
    }
    std::sort(numbers.begin(), numbers.end());  // the same run gives the same store
    for (const uint32_t sequence : numbers)
      function(&stratum.parts[stratum.row_of.at(sequence) * communicator.hosts.size()]);
  }
}

std::vector<ClockSamples::Shared> ClockSamples::shared() const {
  std::map<std::pair<size_t, size_t>, Shared> found;
  for (const auto& [key, communicator] : communicators_) {
    std::map<size_t, size_t> first_column;  // by domain
    for (size_t column = 0; column < communicator.hosts.size(); ++column) {
      const size_t host = communicator.hosts[column];
      const auto [first, is_first] = first_column.emplace(domain_of_host_[host], column);
      if (is_first) continue;
      const size_t other = first->second;
      Shared& pair = found.try_emplace({communicator.hosts[other], host}, Shared{host}).first->second;
      each_instance(communicator, [&](const Part* parts) {
        const Part& a = parts[other];
        const Part& b = parts[column];
        const auto breaks = [](const Part& waits, const Part& waited_for) {
          return waited_for.last_enter_ns != INT64_MIN &&
                 saturating_subtract(waited_for.last_enter_ns, waits.first_leave_ns) > kSlackNs;
        };
        ++pair.instances;
        pair.broken += breaks(a, b) || breaks(b, a) ? 1 : 0;
      });
    }
  }
  std::vector<Shared> all;
  for (const auto& [hosts, pair] : found) all.push_back(pair);
  return all;
}

/// In communicators from the first domain that it is connected with.
std::vector<size_t> ClockSamples::distances() const {
  std::vector<std::vector<const Communicator*>> of_host(domain_of_host_.size());
  for (const auto& [key, communicator] : communicators_) {
    for (const size_t host : communicator.hosts) of_host[host].push_back(&communicator);
  }
  std::vector<size_t> distance(domain_of_host_.size(), SIZE_MAX);
  std::set<const Communicator*> seen;
  for (size_t start = 0; start < distance.size(); ++start) {
    if (distance[start] != SIZE_MAX) continue;
    distance[start] = 0;
    std::vector<size_t> queue = {start};
    for (size_t next = 0; next < queue.size(); ++next) {
      for (const Communicator* communicator : of_host[queue[next]]) {
        if (!seen.insert(communicator).second) continue;
        for (const size_t host : communicator->hosts) {
          if (distance[host] != SIZE_MAX) continue;
          distance[host] = distance[queue[next]] + 1;
          queue.push_back(host);
        }
      }
    }
  }
  std::vector<size_t> of_domain(spans_.size(), SIZE_MAX);
  for (size_t host = 0; host < distance.size(); ++host) {
    size_t& least = of_domain[domain_of_host_[host]];
    least = std::min(least, distance[host]);
  }
  return of_domain;
}

std::vector<ClockLink> ClockSamples::links() const {
  const std::vector<size_t> distance = distances();
  std::map<std::pair<size_t, size_t>, ClockLink> found;
  uint32_t instance = 0;
  for (const auto& [key, communicator] : communicators_) {
    std::vector<size_t> domains;
    for (const size_t host : communicator.hosts) domains.push_back(domain_of_host_[host]);
    std::sort(domains.begin(), domains.end(),
              [&](size_t a, size_t b) { return std::tie(distance[a], a) < std::tie(distance[b], b); });
    domains.erase(std::unique(domains.begin(), domains.end()), domains.end());
    if (domains.size() < 2) continue;
    std::vector<size_t> place(communicator.hosts.size());  // of each host's domain among `domains`
    for (size_t column = 0; column < place.size(); ++column) {
      place[column] = static_cast<size_t>(
          std::find(domains.begin(), domains.end(), domain_of_host_[communicator.hosts[column]]) - domains.begin());
    }
    std::vector<std::pair<size_t, size_t>> pairs;
    std::vector<ClockBounds*> bounds_of;
    for (size_t hub = 0; hub < std::min(kHubs, domains.size()); ++hub) {
      for (size_t other = hub + 1; other < domains.size(); ++other) {
        pairs.emplace_back(hub, other);
        const ClockLink unknown = {domains[hub], domains[other], {}};
        bounds_of.push_back(&found.try_emplace({unknown.a, unknown.b}, unknown).first->second.bounds);
      }
    }
    std::vector<Part> of_domain(domains.size());
    each_instance(communicator, [&](const Part* parts) {
      std::fill(of_domain.begin(), of_domain.end(), Part());
      for (size_t column = 0; column < place.size(); ++column) {
        Part& part = of_domain[place[column]];
        part.last_enter_ns = std::max(part.last_enter_ns, parts[column].last_enter_ns);
        part.first_leave_ns = std::min(part.first_leave_ns, parts[column].first_leave_ns);
      }
      ++instance;
      for (size_t i = 0; i < pairs.size(); ++i) {
        const size_t hub = pairs[i].first, other = pairs[i].second;
        const Part& here = of_domain[hub];
        const Part& there = of_domain[other];
        const auto add = [&](std::vector<ClockBound>& to, int64_t here_ns, int64_t there_ns, int64_t slack_ns) {
          add_bound(to, saturating_subtract(here_ns, spans_[domains[hub]].base_ns),
                    saturating_subtract(there_ns, spans_[domains[other]].base_ns), slack_ns, instance);
        };
        if (here.last_enter_ns != INT64_MIN && there.first_leave_ns != INT64_MAX)
          add(bounds_of[i]->lower, here.last_enter_ns, there.first_leave_ns, -kSlackNs);
        if (here.first_leave_ns != INT64_MAX && there.last_enter_ns != INT64_MIN)
          add(bounds_of[i]->upper, here.first_leave_ns, there.last_enter_ns, kSlackNs);
      }
    });
  }
  std::vector<ClockLink> all;
  for (auto& [pair, link] : found) {
    if (!link.bounds.lower.empty() || !link.bounds.upper.empty()) all.push_back(std::move(link));
  }
  return all;
}

void ClockSamples::add_syncs(const std::vector<Scan>& scans, std::vector<ClockLink>& links) const {
  std::map<std::pair<int64_t, int64_t>, size_t> process_of;  // by world and rank
  for (const size_t i : worlds_.order) {
    if (worlds_.places[i].rank) process_of.emplace(std::pair(*worlds_.places[i].world, *worlds_.places[i].rank), i);
  }
  std::map<std::pair<size_t, size_t>, size_t> link_of;
  for (size_t i = 0; i < links.size(); ++i) link_of[{links[i].a, links[i].b}] = i;
  uint32_t instance = kFirstSync;
  for (const size_t i : worlds_.order) {
    for (const ClockSyncMeta& sync : scans[i].clock_syncs) {
      const auto remote = process_of.find({*worlds_.places[i].world, sync.remote_rank});
      if (remote == process_of.end()) continue;
      const ProcessClock& mine = clocks_.processes[i];
      const ProcessClock& other = clocks_.processes[remote->second];
      if (mine.domain == other.domain) continue;
      const bool mine_is_a = link_of.count({mine.domain, other.domain}) > 0;
      const auto key = mine_is_a ? std::pair(mine.domain, other.domain) : std::pair(other.domain, mine.domain);
      const auto [entry, is_new] = link_of.try_emplace(key, links.size());
      if (is_new) links.push_back({key.first, key.second, {}});
      ClockLink& link = links[entry->second];
      link.synced = true;
      const int64_t sent_ns = saturating_subtract(mine.line.monotonic_ns(sync.send_ticks), spans_[mine.domain].base_ns);
      const int64_t received_ns =
          saturating_subtract(mine.line.monotonic_ns(sync.receive_ticks), spans_[mine.domain].base_ns);
      const int64_t answered_ns =
          saturating_subtract(other.line.monotonic_ns(sync.remote_ticks), spans_[other.domain].base_ns);
      add_bound(link.bounds.lower, mine_is_a ? sent_ns : answered_ns, mine_is_a ? answered_ns : received_ns, -kSlackNs,
                instance);
      add_bound(link.bounds.upper, mine_is_a ? received_ns : answered_ns, mine_is_a ? answered_ns : sent_ns, kSlackNs,
                instance);
      ++instance;
    }
  }
}

}  // namespace ddl::store
