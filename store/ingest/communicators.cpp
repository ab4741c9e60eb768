#include "store/ingest/communicators.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <tuple>

#include "store/insert.h"

namespace ddl::store {

namespace {

/// All ranks' MPI_COMM_SELF are one row; its uid is only unique by being the same everywhere.
constexpr uint64_t kSelfUid = 2;

uint64_t uid_of(const CommunicatorMeta& meta) { return meta.flags & kCommSelf ? kSelfUid : meta.uid; }

const char* kind_of(const Communicator& c) {
  return c.flags & kCommWorld    ? "world"
         : c.flags & kCommSelf   ? "self"
         : c.flags & kCommInter  ? "inter"
         : c.flags & kCommWindow ? "window"
         : c.flags & kCommFile   ? "file"
         : c.flags & kCommNccl   ? "nccl"
         : c.flags & kCommGloo   ? "gloo"
                                 : "intra";
}

/// Of NCCL: those who left no spool are not known.
std::vector<int64_t> members_told(const Communicator& c, uint64_t max_members) {
  // a process may be several of them
  if (c.size < 0 || static_cast<uint64_t>(c.size) > max_members + c.told.size()) return {};
  std::vector<int64_t> members(static_cast<size_t>(c.size), -1);
  for (const auto& [comm_rank, rank] : c.told) {
    if (comm_rank >= 0 && comm_rank < c.size) members[static_cast<size_t>(comm_rank)] = rank;
  }
  return members;
}

bool are_same(const std::vector<RankRun>& a, const std::vector<RankRun>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const RankRun& x, const RankRun& y) {
    return x.first == y.first && x.stride == y.stride && x.count == y.count;
  });
}

}  // namespace

std::vector<int64_t> members_of(uint32_t flags, int32_t size, const std::vector<RankRun>& runs, uint64_t max_members) {
  std::vector<int64_t> members;
  if (flags & kCommSelf || static_cast<uint64_t>(size) > max_members) return members;
  if (flags & kCommWorld) {
    for (int32_t rank = 0; rank < size; ++rank) members.push_back(rank);
    return members;
  }
  for (const RankRun& run : runs) {
    if (static_cast<uint64_t>(run.count) + members.size() > static_cast<uint64_t>(size)) return {};
    for (int32_t i = 0; i < run.count; ++i)
      members.push_back(run.first < 0 ? -1 : int64_t{run.first} + int64_t{run.stride} * i);
  }
  if (members.size() != static_cast<size_t>(size)) return {};
  return members;
}

void label_communicators(std::vector<Communicator>& communicators) {
  std::vector<Communicator*> by_creation;
  for (Communicator& c : communicators) by_creation.push_back(&c);
  const auto pass = [](const Communicator& c) {
    return c.flags & (kCommWorld | kCommSelf) ? 0 : !c.name.empty() ? 1 : 2;
  };
  std::sort(by_creation.begin(), by_creation.end(), [&](const Communicator* a, const Communicator* b) {
    const auto key = [&](const Communicator* c) {
      return std::make_tuple(pass(*c), c->world, c->first_index, c->first_rank, c->uid);
    };
    return key(a) < key(b);
  });
  std::set<std::pair<int64_t, std::string>> taken;
  std::map<std::pair<int64_t, std::string>, int> counts;
  for (Communicator* c : by_creation) {
    const bool numbered = pass(*c) == 2;
    const std::string base = c->flags & kCommWorld  ? "MPI_COMM_WORLD"
                             : c->flags & kCommSelf ? "MPI_COMM_SELF"
                             : !numbered            ? c->name
                             : c->creator.empty()   ? "communicator"
                                                    : c->creator;
    int& count = counts[{c->world, base}];
    do {
      ++count;
      c->label = numbered || count > 1 ? fmt::format("{}#{}", base, count) : base;
    } while (!taken.emplace(c->world, c->label).second);
  }
}

Communicators::Communicators(const std::vector<Scan>& scans, const Worlds& worlds)
    : max_members_(worlds.total_size() + scans.size()) {
  std::map<std::pair<int64_t, uint64_t>, Communicator> merged;
  for (const size_t i : worlds.order) {
    const Scan& scan = scans[i];
    const int64_t world = *worlds.places[i].world;
    std::map<uint32_t, uint64_t> uids;
    for (const ScannedCommunicator& c : scan.communicators) uids[c.meta.index] = uid_of(c.meta);
    for (const ScannedCommunicator& c : scan.communicators) {
      const auto [entry, is_new] = merged.try_emplace({world, uid_of(c.meta)});
      Communicator& communicator = entry->second;
      if (is_new) {
        const auto creator = scan.operations.find(c.meta.op);
        const auto parent = uids.find(c.meta.parent);
        communicator.world = world;
        communicator.uid = uid_of(c.meta);
        communicator.size = c.meta.size;
        communicator.flags = c.meta.flags;
        if (creator != scan.operations.end()) communicator.creator = creator->second.name;
        if (parent != uids.end()) communicator.parent = parent->second;
        if (c.split) {
          communicator.split = c.split->number;
          communicator.color = c.split->color;
        }
        communicator.runs = c.runs;
        communicator.topology = c.topology;
        communicator.first_index = c.meta.index;
        communicator.first_rank = worlds.places[i].rank.value_or(INT64_MAX);
      } else if (communicator.flags & kCommInter && !are_same(communicator.runs, c.runs)) {
        communicator.other_size = c.meta.size;
        communicator.other_runs = c.runs;
      }
      if (c.meta.flags & kCommNccl) communicator.told[c.meta.rank] = worlds.places[i].rank.value_or(-1);
      communicator.first_index = std::min(communicator.first_index, c.meta.index);
      if (communicator.name.empty()) communicator.name = c.name;
    }
  }
  for (auto& [key, communicator] : merged) communicators_.push_back(std::move(communicator));
  std::sort(communicators_.begin(), communicators_.end(), [](const Communicator& a, const Communicator& b) {
    return std::make_tuple(a.world, -int64_t{a.size}, a.uid) < std::make_tuple(b.world, -int64_t{b.size}, b.uid);
  });
  for (size_t i = 0; i < communicators_.size(); ++i)
    ids_[{communicators_[i].world, communicators_[i].uid}] = static_cast<uint32_t>(i + 1);
  label_communicators(communicators_);
}

std::map<uint32_t, uint32_t> Communicators::ids_of(const Scan& scan, int64_t world) const {
  std::map<uint32_t, uint32_t> ids;
  for (const ScannedCommunicator& c : scan.communicators) ids[c.meta.index] = ids_.at({world, uid_of(c.meta)});
  return ids;
}

void Communicators::write(SQLite::Database& db, const std::map<std::string, uint32_t>& op_ids) const {
  Insert insert(db, "INSERT INTO communicator VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)");
  Insert insert_split(db, "INSERT INTO communicator_split VALUES (?, ?, ?)");
  Insert insert_member(db, "INSERT INTO communicator_member VALUES (?, ?, ?, ?)");
  uint32_t id = 0;
  for (const Communicator& c : communicators_) {
    ++id;
    std::optional<uint32_t> parent, op;
    if (c.parent) {
      if (const auto found = ids_.find({c.world, *c.parent}); found != ids_.end()) parent = found->second;
    }
    if (const auto found = op_ids.find(c.creator); found != op_ids.end()) op = found->second;
    insert.row(id, c.world, c.uid, c.label, int64_t{c.size} + c.other_size, parent, op, kind_of(c),
               c.topology.empty() ? std::nullopt : std::optional(c.topology));
    if (c.split != 0) insert_split.row(id, c.split, c.color);
    const auto insert_side = [&](int64_t side, const std::vector<int64_t>& ranks) {
      int64_t comm_rank = 0;
      for (const int64_t rank : ranks)
        insert_member.row(id, side, comm_rank++, rank >= 0 ? std::optional(rank) : std::nullopt);
    };
    insert_side(
        0, c.flags & kCommNccl ? members_told(c, max_members_) : members_of(c.flags, c.size, c.runs, max_members_));
    insert_side(1, members_of(c.flags, c.other_size, c.other_runs, max_members_));
  }
}

}  // namespace ddl::store
