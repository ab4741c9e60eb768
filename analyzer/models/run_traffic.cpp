#include "analyzer/models/run_traffic.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "analyzer/models/run_facts.h"
#include "analyzer/models/topology.h"
#include "analyzer/query.h"
#include "analyzer/statistics.h"
#include "core/error.h"

namespace ddl::models {
namespace {

/// Members of each communicator of one group, as ranks of the world in the order of the communicator. Those with
/// members of other worlds are left out.
std::map<int64_t, std::vector<size_t>> members_of(SQLite::Database& db, int64_t world, size_t ranks) {
  Query row(
      db,
      "SELECT m.communicator, m.rank FROM communicator_member m JOIN communicator c ON c.id = m.communicator WHERE c.world = ?1 AND "
      "c.kind NOT IN ('inter', 'window', 'file') AND m.side = 0 ORDER BY m.communicator, m.comm_rank");
  std::map<int64_t, std::vector<size_t>> members;
  std::set<int64_t> foreign;
  for (row.bind(world); row.next();) {
    if (row.is_null(1) || row.integer(1) < 0 || static_cast<size_t>(row.integer(1)) >= ranks) {
      foreign.insert(row.integer(0));
    } else {
      members[row.integer(0)].push_back(static_cast<size_t>(row.integer(1)));
    }
  }
  for (const int64_t communicator : foreign) members.erase(communicator);
  return members;
}

size_t ranks_of_world(SQLite::Database& db, int64_t world) {
  Query row(db, "SELECT max(coalesce(world_size, 0)), max(coalesce(rank, -1)) + 1 FROM process WHERE world = ?1");
  row.bind(world);
  return row.next() && !row.is_null(0) ? static_cast<size_t>(std::max(row.integer(0), row.integer(1))) : 0;
}

}  // namespace

RunTraffic run_traffic(SQLite::Database& db, int64_t world, const TrafficPlan& plan) {
  RunTraffic result;
  const size_t ranks = ranks_of_world(db, world);
  if (ranks > kMostPlaces)
    throw Error(fmt::format("{} ranks are too many: at most {} can be placed", ranks, kMostPlaces),
                "group ranks that sit together anyway: --traffic", ExitCode::kDataMissing);
  result.bytes.assign(ranks, std::vector<double>(ranks, 0));
  Query message(
      db,
      "SELECT source, destination, sum(bytes) FROM v_message WHERE world = ?1 AND source IS NOT NULL AND destination IS NOT NULL "
      "GROUP BY 1, 2");
  for (message.bind(world); message.next();) {
    const auto from = static_cast<size_t>(message.integer(0)), to = static_cast<size_t>(message.integer(1));
    if (from >= ranks || to >= ranks) continue;  // a spawned world's
    result.bytes[from][to] += message.real(2);
    if (from != to) result.message_bytes += message.real(2);
  }
  const auto members = members_of(db, world, ranks);
  // An instance is a row of each member; those of members that left no record count by the others'.
  Query row(
      db,
      "SELECT e.comm, o.name, k.bytes, e.peer, count(DISTINCT e.seq), lower(o.name) LIKE '%alltoall%' FROM collective k JOIN event e ON e.id = k.event JOIN "
      "process p ON p.id = e.process JOIN op o ON o.id = e.op WHERE p.world = ?1 AND k.bytes > 0 AND e.comm IS NOT NULL GROUP BY 1, 2, 3, 4");
  std::set<std::string> left_out;
  double before = 0, after = 0;
  for (const auto& sent : result.bytes)
    for (const double bytes : sent) before += bytes;
  for (row.bind(world); row.next();) {
    const std::string op = row.text(1);
    const auto comm = members.find(row.integer(0));
    if (comm == members.end() || comm->second.size() < 2) continue;
    const auto root = static_cast<size_t>(std::max<int64_t>(0, row.is_null(3) ? 0 : row.integer(3)));
    if (const auto collective = collective_of(op)) {
      add_collective(result.bytes, *collective, plan, comm->second, root, row.real(2), row.real(4));
    } else if (row.integer(5) != 0) {
      add_all_to_all(result.bytes, comm->second, row.real(2), row.real(4));
    } else {
      left_out.insert(op);
    }
  }
  for (const auto& sent : result.bytes)
    for (const double bytes : sent) after += bytes;
  result.collective_bytes = after - before;
  result.left_out.assign(left_out.begin(), left_out.end());
  if (result.message_bytes + result.collective_bytes <= 0)
    throw Error("the run has no messages between ranks, and no collectives whose bytes are known",
                "--traffic FILE says what ranks send", ExitCode::kDataMissing);
  return result;
}

std::vector<std::string> hosts_of_ranks(SQLite::Database& db, int64_t world) {
  std::vector<std::string> hosts(ranks_of_world(db, world));
  Query row(
      db,
      "SELECT p.rank, h.name FROM process p JOIN host h ON h.id = p.host WHERE p.world = ?1 AND p.rank IS NOT NULL");
  for (row.bind(world); row.next();)
    if (static_cast<size_t>(row.integer(0)) < hosts.size()) hosts[static_cast<size_t>(row.integer(0))] = row.text(1);
  return hosts;
}

std::vector<TierFit> fit_tiers(SQLite::Database& db, int64_t world, size_t tiers,
                               const std::vector<std::vector<size_t>>& groups_of_rank, Algorithm algorithm,
                               std::optional<double> gamma_s_per_byte) {
  const size_t ranks = ranks_of_world(db, world);
  std::vector<std::vector<Sample>> samples(tiers);
  std::vector<TierFit> fits(tiers);
  const auto members = members_of(db, world, ranks);
  Query row(
      db,
      "SELECT g.comm, o.name, g.bytes, g.bytes / g.algbw_bytes_per_second, g.instances FROM collective_group g JOIN op o ON o.id = g.op "
      "WHERE g.world = ?1 AND g.bytes > 0 AND g.algbw_bytes_per_second > 0 AND g.upper_bound = 0");
  for (row.bind(world); row.next();) {
    const auto comm = members.find(row.integer(0));
    const auto collective = collective_of(row.text(1));
    if (!collective || comm == members.end() || comm->second.size() < 2) continue;
    const size_t tier = widest_tier(groups_of_rank, comm->second);
    samples[tier].push_back(
        {*collective, static_cast<int64_t>(comm->second.size()), row.real(2), row.real(3), row.real(4)});
    fits[tier].collectives += row.integer(4);
  }
  // A message whose receiver waited for it took from its send to the receiver's going on: one message, all bytes moved,
  // nothing reduced, as a broadcast between two.
  Query message(
      db,
      "SELECT source, destination, bytes, receive_end_ns - send_ns FROM v_message WHERE world = ?1 AND late_sender_wait_ns > 0 AND "
      "send_ns IS NOT NULL AND receive_end_ns > send_ns AND bytes > 0 AND source IS NOT NULL AND destination IS NOT NULL");
  std::map<std::pair<size_t, int64_t>, std::vector<double>> took;  // by tier and bytes
  for (message.bind(world); message.next();) {
    const auto from = static_cast<size_t>(message.integer(0)), to = static_cast<size_t>(message.integer(1));
    if (from == to || from >= ranks || to >= ranks) continue;
    took[{widest_tier(groups_of_rank, {from, to}), message.integer(2)}].push_back(message.real(3) * 1e-9);
  }
  for (auto& [key, seconds] : took) {
    const auto count = static_cast<int64_t>(seconds.size());
    samples[key.first].push_back(
        {Collective::kBroadcast, 2, static_cast<double>(key.second), median_of(seconds), static_cast<double>(count)});
    fits[key.first].messages += count;
  }
  for (size_t tier = 0; tier < tiers; ++tier) {
    if (samples[tier].empty()) {
      fits[tier].why = "nothing in the run stays within this tier";
      continue;
    }
    try {
      fits[tier].fit = fit_link(samples[tier], algorithm, gamma_s_per_byte);
    } catch (const Error& error) {
      fits[tier].why = error.what();
    }
  }
  return fits;
}

}  // namespace ddl::models
