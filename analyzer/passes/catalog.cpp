#include "analyzer/passes/catalog.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string_view>

#include "analyzer/query.h"
#include "analyzer/statistics.h"

namespace ddl {
namespace {

/// What table `loss` says of a rank.
struct RankLosses {
  bool kept_less = false;   ///< events were not kept
  bool incomplete = false;  ///< nobody knows whether all calls are there
  bool requests = false;
  bool threads = false;
  bool damaged = false;
};

/// By world and rank, read once: the table has no index, and a row for each rank maybe.
std::map<std::pair<int64_t, int64_t>, RankLosses> read_losses(SQLite::Database& db) {
  constexpr std::string_view kIncomplete[] = {"communicators",  "threads", "cannot_grow",     "torn_spool",
                                              "damaged_header", "pages",   "abandoned_calls", "undescribed"};
  std::map<std::pair<int64_t, int64_t>, RankLosses> losses;
  Query rows(db, "SELECT world, rank, kind, count > 0 FROM loss WHERE world IS NOT NULL AND rank IS NOT NULL");
  while (rows.next()) {
    RankLosses& rank = losses[{rows.integer(0), rows.integer(1)}];
    const std::string kind = rows.text(2);
    rank.threads |= kind == "threads";
    if (rows.integer(3) == 0) continue;
    rank.kept_less |= kind == "not_kept" || kind == "records";
    rank.incomplete |= std::find(std::begin(kIncomplete), std::end(kIncomplete), kind) != std::end(kIncomplete);
    rank.requests |= kind == "requests";
    rank.damaged |= kind == "torn_spool" || kind == "damaged_header" || kind == "pages";
  }
  return losses;
}

void load_processes(SQLite::Database& db, Catalog& catalog) {
  const std::map<std::pair<int64_t, int64_t>, RankLosses> losses = read_losses(db);
  std::set<int64_t> use_gloo;
  Query gloo(
      db,
      "SELECT DISTINCT f.process FROM op o CROSS JOIN profile f ON f.op = o.id WHERE o.name LIKE 'gloo::%' AND f.calls > 0");
  while (gloo.next()) use_gloo.insert(gloo.integer(0));
  Query processes(
      db,
      "SELECT p.id, p.world, p.rank, p.world_size, p.host, h.name, p.start_ns, p.end_ns, p.init_ns, p.finalize_ns, p.ended, p.abort_code,"
      "       (SELECT count(*) FROM thread t WHERE t.process = p.id), p.keep_level > 0, p.thread_level"
      " FROM process p JOIN host h ON h.id = p.host");
  while (processes.next()) {
    ProcessInfo p;
    p.id = processes.integer(0);
    p.world = processes.integer(1);
    p.rank = processes.maybe_integer(2).value_or(-1);
    p.world_size = processes.integer(3);
    p.host = processes.integer(4);
    p.host_name = processes.text(5);
    p.clock = catalog.host_clocks.at(p.host);
    p.start_ns = processes.integer(6);
    p.end_ns = processes.integer(7);
    p.init_ns = processes.maybe_integer(8);
    p.finalize_ns = processes.maybe_integer(9);
    p.ended = processes.text(10);
    p.run_begin_ns = p.init_ns;
    if (!p.init_ns && p.rank >= 0 && p.ended != "imported" && use_gloo.contains(p.id)) p.run_begin_ns = p.start_ns;
    p.abort_code = processes.maybe_integer(11);
    p.threads = processes.integer(12);
    const auto known = losses.find({p.world, p.rank});
    const RankLosses lost = known == losses.end() ? RankLosses() : known->second;
    p.thinned = processes.integer(13) != 0 || lost.kept_less;
    if (p.thinned || lost.incomplete) p.complete_until_ns = INT64_MIN;
    p.lost_requests = lost.requests;
    p.calls_overlap = p.threads > 1 && processes.text(14) == "MPI_THREAD_MULTIPLE";
    p.damaged = lost.damaged;
    p.blind = p.damaged || lost.threads;
    if (p.rank >= 0) catalog.process_ids.emplace(std::pair(p.world, p.rank), p.id);
    catalog.processes.emplace(p.id, std::move(p));
  }
  std::set<std::pair<int64_t, int64_t>> whole;  // worlds and hosts with a process that is
  for (const auto& [id, p] : catalog.processes)
    if (!p.damaged) whole.emplace(p.world, p.host);
  for (auto& [id, p] : catalog.processes) p.doubtful = p.damaged && whole.contains({p.world, p.host});
}

void load_communicators(SQLite::Database& db, Catalog& catalog) {
  Query communicators(db, "SELECT id, world, size, label, kind FROM communicator");
  while (communicators.next()) {
    CommunicatorInfo c;
    c.id = communicators.integer(0);
    c.world = communicators.integer(1);
    c.size = communicators.integer(2);
    c.label = communicators.text(3);
    c.kind = communicators.text(4);
    catalog.communicators.emplace(c.id, std::move(c));
  }
  Query members(
      db, "SELECT communicator, comm_rank, rank, side FROM communicator_member ORDER BY communicator, side, comm_rank");
  while (members.next()) {
    const auto found = catalog.communicators.find(members.integer(0));
    if (found == catalog.communicators.end()) continue;
    const int64_t rank = members.maybe_integer(2).value_or(-1);
    found->second.ranks.push_back(rank);
    if (members.integer(3) == 0) ++found->second.first_group;
    if (rank >= 0) found->second.comm_rank[rank] = members.integer(1);
  }
}

/// A rank left no record, or one of which the end is torn off: parts of it are lost, or it stops before those
/// of most others do.
void find_unrecorded(Catalog& catalog) {
  struct World {
    int64_t size = 0;
    std::vector<const ProcessInfo*> ranks;
  };
  std::map<int64_t, World> worlds;
  for (const auto& [id, process] : catalog.processes) {
    if (process.rank < 0) continue;
    World& world = worlds[process.world];
    world.size = std::max(world.size, process.world_size);
    world.ranks.push_back(&process);
  }
  for (const auto& [number, world] : worlds) {
    // Most ranks are missing. Told before they are counted one by one: a trace may claim any number of them.
    if (2 * static_cast<int64_t>(world.ranks.size()) <= world.size) continue;
    std::vector<int64_t> ends_ns;
    for (const ProcessInfo* process : world.ranks) ends_ns.push_back(process->end_ns);
    const int64_t usual_end_ns = upper_median_of(std::move(ends_ns));
    std::set<int64_t> unrecorded;
    for (int64_t rank = 0; rank < world.size; ++rank) {
      const ProcessInfo* process = catalog.process_of(number, rank);
      const bool torn =
          process != nullptr && (process->damaged || (process->ended == "lost" && process->end_ns < usual_end_ns));
      if (process == nullptr || torn) unrecorded.insert(rank);
    }
    if (!unrecorded.empty() && 2 * static_cast<int64_t>(unrecorded.size()) < world.size)
      catalog.unrecorded[number] = std::move(unrecorded);
  }
}

}  // namespace

void ClockSpread::add(const HostClock& host) {
  if ((worst_ && worst_->clock == host.clock) || (second_ && second_->clock == host.clock)) return;
  known_ &= host.sigma_ns.has_value();
  if (!worst_ || host.sigma_ns > worst_->sigma_ns) {
    second_ = std::exchange(worst_, host);
  } else if (!second_ || host.sigma_ns > second_->sigma_ns) {
    second_ = host;
  }
}

std::optional<double> ClockSpread::sigma_ns() const {
  if (!second_) return 0;
  if (!known_) return std::nullopt;
  return std::hypot(*worst_->sigma_ns, *second_->sigma_ns);
}

size_t CommunicatorInfo::index_of(int64_t rank, int64_t peer) const {
  if (peer < 0) return ranks.size();
  const auto at = static_cast<size_t>(peer);
  if (kind != "inter") return at;
  const auto own = comm_rank.find(rank);
  if (own == comm_rank.end()) return ranks.size();
  const auto in_group = static_cast<size_t>(own->second);
  if (in_group < first_group && ranks[in_group] == rank) return first_group + at;
  return at < first_group ? at : ranks.size();
}

Catalog::Catalog(SQLite::Database& db) {
  Query ops(db, "SELECT id, name, class, nonblocking FROM op");
  while (ops.next()) operations[ops.integer(0)] = describe_operation(ops.text(1), ops.text(2), ops.integer(3) != 0);
  // Hosts of one boot that share a clock (containers) were placed together, to the ns.
  Query hosts(
      db,
      "SELECT id, sigma_ns, iif(boot_id <> '', min(id) OVER (PARTITION BY boot_id, offset_ns, drift_ppm, method), NULL) FROM host");
  while (hosts.next())
    host_clocks[hosts.integer(0)] = {hosts.maybe_integer(2).value_or(hosts.integer(0)), hosts.maybe_real(1)};
  load_processes(db, *this);
  process_at_.resize(processes.size() + 1);
  for (const auto& [id, process] : processes)
    if (const auto place = static_cast<size_t>(id); place < process_at_.size()) process_at_[place] = &process;
  load_communicators(db, *this);
  find_unrecorded(*this);
}

const std::set<int64_t>& Catalog::unrecorded_ranks(int64_t world) const {
  static const std::set<int64_t> kNone;
  const auto found = unrecorded.find(world);
  return found == unrecorded.end() ? kNone : found->second;
}

const Operation& Catalog::operation(int64_t id) const {
  static const Operation unknown = describe_operation("?", "other", false);
  const auto found = operations.find(id);
  return found == operations.end() ? unknown : found->second;
}

const ProcessInfo* Catalog::process_of(int64_t world, int64_t rank) const {
  const auto found = process_ids.find({world, rank});
  return found == process_ids.end() ? nullptr : &processes.at(found->second);
}

}  // namespace ddl
