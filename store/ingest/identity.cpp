// Who a process is, where its header alone does not tell: it died before it had a rank, became another
// program, or was damaged.
#include "store/ingest/scan.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>

namespace ddl::store {

namespace {

using Sizes = std::map<uint64_t, std::map<int32_t, int>>;  // world key -> size -> how many say so

const CommunicatorMeta* world_communicator(const Scan& scan) {
  for (const ScannedCommunicator& c : scan.communicators) {
    const bool sound = c.meta.rank >= 0 && c.meta.rank < c.meta.size && c.meta.size <= kMaxWorldSize;
    if ((c.meta.flags & kCommWorld) && sound) return &c.meta;
  }
  return nullptr;
}

/// Damaged headers have no say.
Sizes count_sizes(const std::vector<Scan>& scans) {
  Sizes sizes;
  for (const Scan& scan : scans) {
    const bool damaged = scan.reader->header_damaged();
    if (scan.header.rank >= 0 && !damaged) ++sizes[scan.header.world_key][scan.header.world_size];
    if (const CommunicatorMeta* world = world_communicator(scan)) ++sizes[scan.header.world_key][world->size];
  }
  return sizes;
}

/// Hosts are told apart by their boot ids. Where a damaged header lost its own, it is that of the others on a host of
/// that name, if they agree.
void take_boot_ids(std::vector<Scan>& scans) {
  std::map<std::string, std::set<std::string>> boot_ids;  // by host
  for (const Scan& scan : scans)
    if (!scan.boot_id.empty()) boot_ids[scan.host].insert(scan.boot_id);
  for (Scan& scan : scans) {
    if (!scan.reader->header_damaged() || !scan.boot_id.empty()) continue;
    const auto known = boot_ids.find(scan.host);
    if (known != boot_ids.end() && known->second.size() == 1) scan.boot_id = scan.clock.boot = *known->second.begin();
  }
}

/// Rank and size stand twice in a spool: in the header and in the description of MPI_COMM_WORLD. Where they differ one
/// of them is damaged, and the other processes of the world tell which.
void take_recorded_rank(Scan& scan, Sizes& sizes, Losses& losses) {
  scan.rank = scan.header.rank;
  scan.world_size = scan.header.world_size;
  const bool damaged = scan.reader->header_damaged();
  const CommunicatorMeta* world = world_communicator(scan);
  std::map<int32_t, int>& votes = sizes[scan.header.world_key];
  if (!world && damaged && !votes.empty() && !votes.contains(scan.world_size)) {
    scan.rank = -1;
    scan.world_size = 0;
  }
  const bool described = world && (damaged || scan.header.flags & kMpiInitialized);
  if (!described || (world->rank == scan.rank && world->size == scan.world_size)) return;
  if (scan.header.rank >= 0 && votes[scan.header.world_size] > votes[world->size]) return;
  losses.add(
      {}, kDamagedHeader, kPageBytes,
      fmt::format(
          "bytes of {} that are damaged: its header says rank {} of {}, its description of MPI_COMM_WORLD rank {} of {}",
          scan.file_name, scan.header.rank, scan.header.world_size, world->rank, world->size));
  scan.rank = world->rank;
  scan.world_size = world->size;
}

using RanksOfWorlds = std::map<std::pair<uint64_t, int32_t>, std::set<int32_t>>;  // by key and size

RanksOfWorlds ranks_of_worlds(const std::vector<Scan>& scans) {
  RanksOfWorlds worlds;
  for (const Scan& scan : scans)
    if (scan.rank >= 0) worlds[{scan.header.world_key, scan.world_size}].insert(scan.rank);
  return worlds;
}

/// A damaged header may name a world that nobody else is in: its process is the rank that another world of that size
/// lacks, if one alone does.
void join_lost_world(std::vector<Scan>& scans) {
  const RanksOfWorlds worlds = ranks_of_worlds(scans);
  for (Scan& scan : scans) {
    if (scan.rank < 0 || scan.world_size < 2 || !scan.reader->header_damaged()) continue;
    if (worlds.at({scan.header.world_key, scan.world_size}).size() > 1) continue;
    std::vector<uint64_t> lacking;
    for (const auto& [world, ranks] : worlds)
      if (world.first != scan.header.world_key && world.second == scan.world_size && !ranks.contains(scan.rank))
        lacking.push_back(world.first);
    if (lacking.size() == 1) scan.header.world_key = lacking.front();
  }
}

std::string machine_of(const Scan& scan) { return scan.boot_id.empty() ? scan.host : scan.boot_id; }

/// Two spools of one process: exec keeps the process id and its start, so all but the last are of programs
/// that it has been.
void find_exec(std::vector<Scan>& scans) {
  std::map<std::tuple<std::string, std::string, uint32_t, uint64_t>, Scan*> last;
  for (Scan& scan : scans) {
    const auto [entry, is_new] =
        last.emplace(std::tuple(machine_of(scan), scan.host, scan.header.pid, scan.header.process_start), &scan);
    if (is_new) continue;
    const bool later = scan.header.begin.monotonic_ns > entry->second->header.begin.monotonic_ns;
    (later ? entry->second : &scan)->became_other = true;
    if (later) entry->second = &scan;
  }
}

/// A damaged header that tells no rank is that of the only rank that left no spool, if there is no other such header.
void take_lacking_rank(std::vector<Scan>& scans) {
  Scan* nameless = nullptr;
  for (Scan& scan : scans) {
    if (scan.rank >= 0 || scan.became_other || !scan.reader->header_damaged()) continue;
    if (nameless) return;
    nameless = &scan;
  }
  if (!nameless) return;
  std::optional<std::pair<uint64_t, int32_t>> of_lacking;
  const RanksOfWorlds worlds = ranks_of_worlds(scans);
  for (const auto& [world, ranks] : worlds) {
    if (std::cmp_equal(ranks.size(), world.second)) continue;
    if (of_lacking || !std::cmp_equal(ranks.size() + 1, world.second)) return;
    of_lacking = world;
  }
  if (!of_lacking) return;
  int32_t rank = 0;
  while (worlds.at(*of_lacking).contains(rank)) ++rank;
  std::tie(nameless->header.world_key, nameless->world_size) = *of_lacking;
  nameless->rank = rank;
}

/// A process that never left MPI_Init, or that uses NCCL, Gloo or a GPU without MPI, is the rank that its launcher
/// announced, unless somebody else turned out to be: children inherit the announcement with the environment. A damaged
/// announcement is of a size that no other header tells.
void take_announced_ranks(std::vector<Scan>& scans) {
  std::set<std::pair<uint64_t, int32_t>> announced;  // key and size
  for (const Scan& scan : scans)
    if (!scan.reader->header_damaged()) announced.emplace(scan.header.world_key, scan.header.launch_size);
  std::set<std::pair<uint64_t, int32_t>> taken;
  std::vector<Scan*> candidates;
  for (Scan& scan : scans) {
    const FileHeader& h = scan.header;
    if (scan.rank >= 0) {
      taken.emplace(h.world_key, scan.rank);
    } else if ((h.flags & (kMpiEntered | kNcclEntered | kGlooEntered) || scan.used_gpu) && !scan.became_other &&
               h.launch_rank >= 0 && h.launch_rank < h.launch_size && h.launch_size <= kMaxWorldSize &&
               (!scan.reader->header_damaged() || announced.contains({h.world_key, h.launch_size}))) {
      candidates.push_back(&scan);
    }
  }
  std::sort(candidates.begin(), candidates.end(), [](const Scan* a, const Scan* b) {
    return std::tie(a->header.begin.realtime_ns, a->file_name) > std::tie(b->header.begin.realtime_ns, b->file_name);
  });
  for (Scan* scan : candidates) {  // the latest first: what came before it was another attempt
    if (!taken.emplace(scan->header.world_key, scan->header.launch_rank).second) continue;
    scan->rank = scan->header.launch_rank;
    scan->world_size = scan->header.launch_size;
  }
}

/// A job of NCCL or Gloo that no launcher announced: its processes are numbered as they follow each other on the first
/// communicator, if each has the same number of ranks there, one after the other: one, or one per GPU that it drives.
void take_nccl_ranks(std::vector<Scan>& scans) {
  std::optional<uint64_t> uid;
  int32_t size = 0;
  std::vector<std::pair<Scan*, std::set<int32_t>>> processes;  // and the ranks of each
  for (Scan& scan : scans) {
    if (scan.rank >= 0) return;  // the job has ranks
    if (scan.became_other) continue;
    const auto first =
        std::find_if(scan.communicators.begin(), scan.communicators.end(),
                     [](const ScannedCommunicator& c) { return c.meta.flags & (kCommNccl | kCommGloo); });
    if (first == scan.communicators.end()) continue;
    if (uid.value_or(first->meta.uid) != first->meta.uid) return;
    uid = first->meta.uid;
    size = first->meta.size;
    processes.emplace_back(&scan, std::set<int32_t>());
    for (const ScannedCommunicator& c : scan.communicators) {
      if (c.meta.flags & (kCommNccl | kCommGloo) && c.meta.uid == *uid) processes.back().second.insert(c.meta.rank);
    }
  }
  if (processes.empty() || size <= 0 || size > kMaxWorldSize) return;
  const auto each = static_cast<int32_t>(processes.front().second.size());
  std::set<int32_t> taken;
  for (const auto& [scan, ranks] : processes) {
    const bool in_turn = *ranks.begin() >= 0 && *ranks.rbegin() < size && *ranks.begin() % each == 0 &&
                         *ranks.rbegin() - *ranks.begin() == each - 1;
    if (static_cast<int32_t>(ranks.size()) != each || !in_turn || !taken.insert(*ranks.begin()).second) return;
  }
  if (size % each != 0) return;
  for (const auto& [scan, ranks] : processes) {
    scan->rank = *ranks.begin() / each;
    scan->world_size = size / each;
  }
}

/// A job of one process, which trains on its own.
void take_lone_rank(std::vector<Scan>& scans) {
  Scan* lone = nullptr;
  for (Scan& scan : scans) {
    if (scan.rank >= 0) return;
    if (!scan.used_gpu || scan.became_other) continue;
    if (lone) return;  // which of them is which nobody said
    lone = &scan;
  }
  if (!lone) return;
  lone->rank = 0;
  lone->world_size = 1;
}

}  // namespace

void settle_identities(std::vector<Scan>& scans, Losses& losses) {
  take_boot_ids(scans);
  Sizes sizes = count_sizes(scans);
  for (Scan& scan : scans) take_recorded_rank(scan, sizes, losses);
  join_lost_world(scans);
  find_exec(scans);
  take_announced_ranks(scans);
  take_lacking_rank(scans);
  take_nccl_ranks(scans);
  take_lone_rank(scans);
}

}  // namespace ddl::store
