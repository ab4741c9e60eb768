#include "analyzer/models/run_consistency.h"

#include <algorithm>
#include <map>
#include <set>

#include "analyzer/query.h"
#include "core/error.h"

namespace ddl::models {
namespace {

constexpr double kLeastMessageBytes = 1024;
constexpr int64_t kLeastMessages = 3;
constexpr double kServerComputesLess = 0.5;

struct PairTraffic {
  int64_t messages = 0;
  double bytes = 0;
};
using TrafficByPair = std::map<std::pair<int64_t, int64_t>, PairTraffic>;

TrafficByPair traffic_by_pair(SQLite::Database& db, int64_t world) {
  Query rows(
      db,
      "SELECT sp.rank, rp.rank, count(*), sum(coalesce(s.bytes, r.bytes)) FROM message m JOIN event s ON s.id = m.send JOIN event r ON "
      "r.id = m.receive JOIN process sp ON sp.id = s.process JOIN process rp ON rp.id = r.process WHERE sp.world = ?1 AND sp.rank IS "
      "NOT NULL AND rp.rank IS NOT NULL GROUP BY 1, 2");
  TrafficByPair traffic;
  for (rows.bind(world); rows.next();) traffic[{rows.integer(0), rows.integer(1)}] = {rows.integer(2), rows.real(3)};
  return traffic;
}

/// Seconds outside MPI, by rank.
std::map<int64_t, double> computing(SQLite::Database& db, int64_t world) {
  std::map<int64_t, double> seconds;
  Query rows(
      db,
      "SELECT p.rank, t.compute_ns FROM rank_part t JOIN process p ON p.id = t.process WHERE p.world = ?1 AND p.rank IS NOT NULL");
  for (rows.bind(world); rows.next();) seconds[rows.integer(0)] = rows.real(1) * 1e-9;
  return seconds;
}

bool is_push_and_pull(const TrafficByPair& traffic, int64_t server, int64_t worker) {
  const auto push = traffic.find({worker, server}), pull = traffic.find({server, worker});
  if (push == traffic.end() || pull == traffic.end()) return false;
  const auto [few, many] = std::minmax(push->second.messages, pull->second.messages);
  return few >= kLeastMessages && many <= 2 * few &&
         push->second.bytes >= kLeastMessageBytes * static_cast<double>(push->second.messages) &&
         pull->second.bytes >= kLeastMessageBytes * static_cast<double>(pull->second.messages);
}

struct StepRow {
  double compute_s = 0, transfer_s = 0, step_s = 0;
};

std::map<int64_t, std::map<int64_t, StepRow>> step_rows(SQLite::Database& db, int64_t world) {
  Query gpu(db, "SELECT 1 FROM gpu_part g JOIN process p ON p.id = g.process WHERE p.world = ?1 LIMIT 1");
  if (gpu.bind(world).next())
    throw Error("the job computes on GPUs, and its waiting there is not in its MPI calls",
                "only jobs that compute on CPUs can be replayed", ExitCode::kDataMissing);
  std::map<int64_t, std::map<int64_t, StepRow>> steps;
  Query rows(
      db,
      "SELECT t.step, p.rank, t.compute_ns, t.xfer_ns, s.duration_ns FROM step_part t JOIN process p ON p.id = t.process JOIN step s ON "
      "s.process = t.process AND s.step = t.step AND s.measured JOIN steady_step y ON y.world = p.world AND y.step = t.step AND y.annotated WHERE "
      "p.world = ?1 AND p.rank IS NOT NULL AND s.duration_ns IS NOT NULL");
  for (rows.bind(world); rows.next();) {
    if (rows.is_null(3))
      throw Error("how long ranks waited is unknown", "ddl report loss, or ddl analyze --metric wait_share, says why",
                  ExitCode::kDataMissing);
    steps[rows.integer(0)][rows.integer(1)] = {rows.real(2) * 1e-9, rows.real(3) * 1e-9, rows.real(4) * 1e-9};
  }
  size_t most = 0;
  for (const auto& [step, ranks] : steps) most = std::max(most, ranks.size());
  std::erase_if(steps, [most](const auto& step) { return step.second.size() < most; });
  if (steps.empty())
    throw Error("the run has no complete steps", "name steps with ddl/annotate.h, ddl_annotate.py or NVTX",
                ExitCode::kDataMissing);
  return steps;
}

/// That a rank hands to the job's reductions in a step, mean.
double reduced_bytes(SQLite::Database& db, int64_t world) {
  Query row(
      db,
      "SELECT sum(coalesce(v.bytes, 0)), (SELECT sum(ranks) FROM steady_step WHERE world = ?1 AND annotated) FROM v_collective v JOIN "
      "steady_step s ON s.world = v.world AND s.step = v.step AND s.annotated WHERE v.world = ?1 AND (v.op LIKE '%allreduce%' OR v.op "
      "LIKE '%reduce_scatter%')");
  row.bind(world);
  return row.next() && !row.is_null(0) && row.real(1) > 0 ? row.real(0) / row.real(1) : 0;
}

/// That ranks sent in a steady step as messages, mean over those ranks.
double sent_bytes(SQLite::Database& db, int64_t world, const std::vector<int64_t>& ranks, size_t steps) {
  Query row(
      db,
      "SELECT p.rank, sum(s.bytes) FROM message m JOIN event s ON s.id = m.send JOIN process p ON p.id = s.process JOIN steady_step y ON "
      "y.world = p.world AND y.step = s.step AND y.annotated WHERE p.world = ?1 GROUP BY p.rank");
  double sum = 0;
  for (row.bind(world); row.next();)
    if (std::binary_search(ranks.begin(), ranks.end(), row.integer(0))) sum += row.real(1);
  return sum / static_cast<double>(ranks.size() * steps);
}

bool posts_collectives(SQLite::Database& db, int64_t world) {
  Query row(
      db,
      "SELECT 1 FROM collective_group g JOIN op o ON o.id = g.op WHERE g.world = ?1 AND o.nonblocking AND g.bytes > 0 LIMIT 1");
  return row.bind(world).next();
}

}  // namespace

std::optional<ParameterServer> parameter_server_of(SQLite::Database& db, int64_t world) {
  Query pipeline(db, "SELECT 1 FROM pipeline l JOIN process p ON p.id = l.process WHERE p.world = ?1 LIMIT 1");
  if (pipeline.bind(world).next()) return std::nullopt;
  const TrafficByPair traffic = traffic_by_pair(db, world);
  std::map<int64_t, std::set<int64_t>> partners;
  for (const auto& [pair, bytes] : traffic)
    partners[pair.first].insert(pair.second), partners[pair.second].insert(pair.first);
  if (partners.size() < 3) return std::nullopt;
  // Servers are the others' only partners, so there is one of them among anybody's.
  ParameterServer found;
  const auto least = std::min_element(partners.begin(), partners.end(),
                                      [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
  found.servers.assign(least->second.begin(), least->second.end());
  for (const auto& [rank, others] : partners)
    if (!least->second.contains(rank)) found.workers.push_back(rank);
  if (found.servers.size() >= found.workers.size()) return std::nullopt;
  const std::set<int64_t> workers(found.workers.begin(), found.workers.end());
  for (const int64_t server : found.servers) {
    if (partners[server] != workers) return std::nullopt;
    for (const int64_t worker : found.workers) {
      if (!is_push_and_pull(traffic, server, worker)) return std::nullopt;
      const PairTraffic &push = traffic.at({worker, server}), &pull = traffic.at({server, worker});
      found.pushes += push.messages, found.pushed_bytes += push.bytes, found.pulled_bytes += pull.bytes;
    }
  }
  if (found.workers.size() == 2) {
    const std::map<int64_t, double> seconds = computing(db, world);
    const auto of = [&](int64_t rank) { return seconds.contains(rank) ? seconds.at(rank) : 0; };
    if (of(found.servers[0]) >= kServerComputesLess * std::min(of(found.workers[0]), of(found.workers[1])))
      return std::nullopt;
  }
  return found;
}

void set_ring_bandwidth(ConsistencyJob& job) {
  const auto ranks = static_cast<double>(job.compute_s.size());
  double exchange_s = 0;
  for (const double seconds : job.exchange_s) exchange_s += seconds / static_cast<double>(job.exchange_s.size());
  const double ring_bytes = ranks > 1 ? 2 * (ranks - 1) / ranks * job.bytes : job.bytes;
  job.beta_s_per_byte = ring_bytes > 0 ? exchange_s / ring_bytes : 0;
}

RunConsistency run_consistency(SQLite::Database& db, int64_t world) {
  const auto steps = step_rows(db, world);
  RunConsistency run;
  run.server = parameter_server_of(db, world);
  run.overlapped = posts_collectives(db, world);
  std::set<int64_t> serving;
  if (run.server) serving.insert(run.server->servers.begin(), run.server->servers.end());
  for (const auto& [rank, row] : steps.begin()->second)
    if (!serving.contains(rank)) run.ranks.push_back(rank);
  run.job.compute_s.resize(run.ranks.size());
  double step_s = 0;
  for (const auto& [step, rows] : steps) {
    run.steps.push_back(step);
    double transfer_s = 0;
    for (size_t r = 0; r < run.ranks.size(); ++r) {
      const auto row = rows.find(run.ranks[r]);
      if (row == rows.end())
        throw Error("the run's steps are not all of the same ranks",
                    "record a part of the job in which ranks neither come nor go: ddl record --steps A:B",
                    ExitCode::kDataMissing);
      run.job.compute_s[r].push_back(std::max(1e-9, row->second.compute_s));
      transfer_s += row->second.transfer_s;
      step_s += row->second.step_s;
    }
    run.job.exchange_s.push_back(transfer_s / static_cast<double>(run.ranks.size()));
  }
  run.recorded_step_s = step_s / static_cast<double>(run.ranks.size() * steps.size());
  run.job.bytes = run.server ? sent_bytes(db, world, run.ranks, steps.size()) : reduced_bytes(db, world);
  // by a ring, nearly twice its gradients
  if (run.job.bytes <= 0) run.job.bytes = sent_bytes(db, world, run.ranks, steps.size()) / 2;
  set_ring_bandwidth(run.job);
  return run;
}

std::vector<std::pair<int64_t, double>> reported_losses(SQLite::Database& db, int64_t world) {
  std::vector<std::pair<int64_t, double>> losses;
  Query rows(
      db,
      "SELECT v.step, avg(v.value) FROM value v JOIN process p ON p.id = v.process WHERE p.world = ?1 AND v.name = 'loss' AND v.step IS "
      "NOT NULL GROUP BY v.step ORDER BY v.step");
  for (rows.bind(world); rows.next();) losses.emplace_back(rows.integer(0), rows.real(1));
  return losses;
}

}  // namespace ddl::models
