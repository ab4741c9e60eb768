#include "analyzer/passes/kernel_arrivals.h"

#include <algorithm>

#include "analyzer/query.h"
#include "analyzer/statistics.h"

namespace ddl {
namespace {

constexpr int64_t kNoStep = -1;
constexpr const char* kMessages =
    "SELECT m.comm, -row_number() OVER (PARTITION BY m.process, m.comm, m.comm_rank, m.run ORDER BY m.start_ns) AS seq, m.run, m.process,"
    " m.comm_rank, m.start_ns, m.duration_ns, count(*) OVER (PARTITION BY m.process, m.comm, m.comm_rank, m.run) AS kernels"
    " FROM (SELECT g.*, iif(?1, g.step, -1) AS run FROM gpu_event g JOIN communicator c ON c.id = g.comm AND c.size = 2"
    " WHERE g.kind = 1 AND g.seq IS NULL AND g.duration_ns > 0) m WHERE m.run IS NOT NULL";

}  // namespace

bool has_marked_steps(SQLite::Database& db) {
  Query row(db, "SELECT EXISTS (SELECT 1 FROM step) AND NOT EXISTS (SELECT 1 FROM inferred_steps)");
  return row.next() && row.integer(0) != 0;
}

std::optional<KernelKey> KernelNumbers::next(int64_t comm, std::optional<int64_t> seq, std::optional<int64_t> step,
                                             std::optional<int64_t> graph_node, std::optional<int64_t> comm_rank) {
  if (seq) return KernelKey{comm, *seq, graph_node ? runs_[{comm, *seq, *graph_node}]++ : 0};
  const auto communicator = catalog_.communicators.find(comm);
  const bool is_pair = communicator != catalog_.communicators.end() && communicator->second.size == 2;
  if (!is_pair || (has_marked_steps_ && !step)) return std::nullopt;
  const int64_t run = has_marked_steps_ ? *step : kNoStep;
  return KernelKey{comm, --messages_[{comm, run, comm_rank.value_or(-1)}], run};
}

KernelArrivals::KernelArrivals(SQLite::Database& db, const Catalog& catalog) : catalog_(catalog) {
  Query rows(
      db,
      "SELECT comm, seq, run, process, min(start_ns), max(start_ns + duration_ns) FROM (SELECT comm, seq, process, comm_rank, start_ns,"
      " duration_ns, 0 AS run FROM gpu_event WHERE kind = 1 AND comm IS NOT NULL AND seq IS NOT NULL AND duration_ns > 0"
      " AND graph_node IS NULL UNION ALL SELECT comm, seq, process, comm_rank, start_ns, duration_ns,"
      " row_number() OVER (PARTITION BY process, comm, seq, graph_node ORDER BY start_ns) - 1"
      " FROM gpu_event WHERE kind = 1 AND comm IS NOT NULL AND seq IS NOT NULL AND duration_ns > 0 AND graph_node IS NOT NULL)"
      " GROUP BY comm, seq, run, process, comm_rank ORDER BY comm, seq, run");
  std::optional<KernelKey> current;
  Members members;
  while (rows.next()) {
    const KernelKey key{rows.integer(0), rows.integer(1), rows.integer(2)};
    if (current && *current != key) {
      add(*current, members);
      members.clear();
    }
    current = key;
    members.push_back({rows.integer(3), {rows.integer(4), rows.integer(5)}});
  }
  if (current) add(*current, members);
  add_messages(db);
  std::sort(last_ns_.begin(), last_ns_.end());
  for (auto& [comm, all] : waits_) {
    std::sort(all.begin(), all.end());
    const std::optional<double>& sigma_ns = sigmas_[comm];
    if (!sigma_ns || (*sigma_ns > 0 && *sigma_ns >= kTrustedSigmaShare * median_of(all))) untrusted_.push_back(comm);
  }
  waits_.clear();
}

void KernelArrivals::add_messages(SQLite::Database& db) {
  std::map<KernelKey, Members> instances;
  // least and most kernels of a member, by communicator and step
  std::map<std::pair<int64_t, int64_t>, std::pair<int64_t, int64_t>> counts;
  Query messages(db, kMessages);
  messages.bind(has_marked_steps(db) ? 1 : 0);
  while (messages.next()) {
    const KernelKey key{messages.integer(0), messages.integer(1), messages.integer(2)};
    instances[key].push_back({messages.integer(3), {messages.integer(5), messages.integer(5) + messages.integer(6)}});
    auto& [least, most] =
        counts.try_emplace({messages.integer(0), messages.integer(2)}, messages.integer(7), messages.integer(7))
            .first->second;
    least = std::min(least, messages.integer(7));
    most = std::max(most, messages.integer(7));
  }
  for (const auto& [key, members] : instances) {
    const auto& [least, most] = counts.at({std::get<0>(key), std::get<2>(key)});
    if (least == most) add(key, members);
  }
}

void KernelArrivals::add(const KernelKey& key, const Members& members) {
  const int64_t id = std::get<0>(key);
  const auto comm = catalog_.communicators.find(id);
  if (comm == catalog_.communicators.end() || static_cast<int64_t>(members.size()) != comm->second.size) return;
  int64_t last_ns = members.front().second.begin_ns;
  ClockSpread clocks;
  for (const auto& [process, interval] : members) {
    last_ns = std::max(last_ns, interval.begin_ns);
    clocks.add(catalog_.clock_of(catalog_.process(process)));
  }
  last_ns_.emplace_back(key, last_ns);
  for (const auto& [process, interval] : members)
    waits_[id].push_back(static_cast<double>(std::min(last_ns, interval.end_ns) - interval.begin_ns));
  sigmas_[id] = clocks.sigma_ns();
}

std::optional<int64_t> KernelArrivals::wait_ns(const KernelKey& key, const Interval& kernel, Why& why) const {
  const auto found = std::lower_bound(last_ns_.begin(), last_ns_.end(), std::pair(key, INT64_MIN));
  if (found == last_ns_.end() || found->first != key) {
    why = Why::kPartialRanks;
  } else if (std::find(untrusted_.begin(), untrusted_.end(), std::get<0>(key)) != untrusted_.end()) {
    why = Why::kClockUntrusted;
  } else {
    return std::clamp<int64_t>(found->second - kernel.begin_ns, 0, kernel.length_ns());
  }
  return std::nullopt;
}

double KernelArrivals::sigma_ns(int64_t communicator) const {
  const auto found = sigmas_.find(communicator);
  return found == sigmas_.end() ? 0 : found->second.value_or(0);
}

}  // namespace ddl
