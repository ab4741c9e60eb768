#include "analyzer/models/run_facts.h"

#include <algorithm>

#include "analyzer/facts.h"
#include "analyzer/query.h"
#include "core/error.h"

namespace ddl::models {

std::vector<MeasuredCollective> measured_collectives(SQLite::Database& db, int64_t world) {
  // algbw is S over the median transfer time of an instance. Non-blocking ones tell an upper bound only.
  Query row(db,
            "SELECT o.name, c.size, g.bytes, g.bytes / g.algbw_bytes_per_second, g.instances "
            "FROM collective_group g JOIN op o ON o.id = g.op JOIN communicator c ON c.id = g.comm "
            "WHERE g.world = ?1 AND g.bytes > 0 AND g.algbw_bytes_per_second > 0 AND g.upper_bound = 0 AND c.size > 1 "
            "ORDER BY o.name, c.size, g.bytes");
  std::vector<MeasuredCollective> collectives;
  for (row.bind(world); row.next();) {
    MeasuredCollective& one = collectives.emplace_back();
    one.op = row.text(0);
    one.sample = {collective_of(one.op).value_or(Collective::kAllreduce), row.integer(1), row.real(2), row.real(3), row.real(4)};
  }
  return collectives;
}

std::vector<Sample> samples_of(const std::vector<MeasuredCollective>& collectives) {
  std::vector<Sample> samples;
  for (const MeasuredCollective& one : collectives)
    if (collective_of(one.op)) samples.push_back(one.sample);
  return samples;
}

std::vector<RankStep> rank_steps(SQLite::Database& db, int64_t world) {
  const Facts facts = read_facts(db, world);
  std::vector<RankStep> ranks;
  for (const RankFacts& rank : facts.ranks)
    if (facts.step.has_steps && rank.compute_ns) ranks.push_back({rank.rank, static_cast<double>(*rank.compute_ns) * 1e-9});
  if (ranks.empty())
    throw Error("the run has no complete steps", "name steps with ddl/annotate.h, ddl_annotate.py or NVTX, or give the numbers",
                ExitCode::kDataMissing);
  return ranks;
}

std::optional<double> metric_of(SQLite::Database& db, int64_t world, const std::string& id) {
  Query row(db, "SELECT value FROM metric WHERE world = ?1 AND id = ?2");
  row.bind(world, id);
  return row.next() ? row.maybe_real(0) : std::nullopt;
}

MeanStep mean_step(SQLite::Database& db, int64_t world) {
  const Facts facts = read_facts(db, world);
  const JobTime& time = facts.headline;
  if (time.is_known()) {
    const TimeParts mean = time.sum / (time.windows * 1e9);
    return {{mean.total_ns(), mean.computing_ns(), mean.transfer_ns + mean.unsplit_ns, mean.wait_ns, mean.copy_ns, mean.idle_ns},
            mean.unsplit_ns == 0,
            time.why};
  }
  throw Error("the run tells no time of its ranks", "ddl report loss says what is missing", ExitCode::kDataMissing);
}

std::optional<double> samples_per_step(SQLite::Database& db, int64_t world) {
  Query row(db,
            "SELECT avg(samples), min(ranks), (SELECT count(DISTINCT rank) FROM process WHERE world = ?1 AND rank IS NOT NULL) FROM ("
            " SELECT sum(v.value) AS samples, count(DISTINCT p.rank) AS ranks FROM value v JOIN process p ON p.id = v.process"
            " JOIN steady_step s ON s.world = p.world AND s.step = v.step AND s.annotated"
            " WHERE p.world = ?1 AND v.name = 'samples' GROUP BY v.step)");
  row.bind(world);
  if (!row.next() || row.is_null(0) || row.integer(1) != row.integer(2)) return std::nullopt;
  return row.real(0);
}

std::vector<LayerCost> layers_of(SQLite::Database& db, int64_t world) {
  constexpr const char* kOnThreads = R"(
    SELECT v.layer, sum(iif(v.phase = 'forward', v.compute_ns, 0)), sum(v.compute_ns),
           (SELECT count(*) FROM step s JOIN process p ON p.id = s.process WHERE p.world = ?1),
           (SELECT min(e.start_ns) FROM range_event e JOIN region r ON r.id = e.region WHERE r.layer = v.layer) AS first
    FROM v_layer v
    WHERE v.world = ?1 AND NOT v.inferred
    GROUP BY v.layer
    ORDER BY first)";
  constexpr const char* kOnDevices = R"(
    SELECT g.layer, sum(iif(g.phase = 'forward', g.compute_ns, 0)), sum(g.compute_ns),
           (SELECT count(*) FROM step s JOIN process p ON p.id = s.process WHERE p.world = ?1),
           (SELECT min(e.start_ns) FROM range_event e JOIN region r ON r.id = e.region WHERE r.layer = g.layer) AS first
    FROM gpu_layer_part g
    JOIN process p ON p.id = g.process
    WHERE p.world = ?1 AND p.rank IS NOT NULL AND g.step IS NOT NULL AND g.layer IS NOT NULL
    GROUP BY g.layer
    ORDER BY first)";
  Query row(db, read_facts(db, world).resource == Resource::kThread ? kOnThreads : kOnDevices);
  std::vector<LayerCost> layers;
  for (row.bind(world); row.next();) {
    const double steps = row.real(3);  // of all ranks together
    if (steps <= 0) break;
    layers.push_back({row.text(0), row.real(1) * 1e-9 / steps, (row.real(2) - row.real(1)) * 1e-9 / steps, 0, 0});
  }
  if (layers.empty())
    throw Error("the run has no steps with layers", "name layers with ddl/annotate.h, ddl_annotate.py or NVTX, or give --profile",
                ExitCode::kDataMissing);
  return layers;
}

StepGradients step_gradients(SQLite::Database& db, int64_t world) {
  if (read_facts(db, world).resource != Resource::kThread)
    throw Error("its GPUs compute: when they had each gradient ready is not known",
                "only allreduces that threads post beside their computing", ExitCode::kDataMissing);
  StepGradients result;
  double longest = -1;
  for (const RankStep& rank : rank_steps(db, world))
    if (rank.compute_s > longest) longest = rank.compute_s, result.rank = rank.rank;
  Query step(db,
             "SELECT s.process, s.thread, s.step, s.start_ns, s.duration_ns, t.compute_ns FROM step s JOIN process p ON p.id = s.process "
             "JOIN step_part t ON t.process = s.process AND t.step = s.step "
             "JOIN steady_step y ON y.world = p.world AND y.step = s.step AND y.annotated "
             "WHERE p.world = ?1 AND p.rank = ?2 AND t.comm_ns IS NOT NULL ORDER BY s.step DESC LIMIT 1");
  step.bind(world, result.rank);
  if (step.next()) {
    result.step = step.integer(2);
    result.measured_s = step.real(4) * 1e-9;
    result.compute_s = step.real(5) * 1e-9;
    // All calls and requests in order; time inside calls stops the clock of computing.
    Query event(db,
                "SELECT e.kind, o.name, e.start_ns, e.duration_ns, k.bytes, c.size FROM event e JOIN op o ON o.id = e.op "
                "LEFT JOIN collective k ON k.event = e.id LEFT JOIN communicator c ON c.id = e.comm "
                "WHERE e.process = ?1 AND e.thread = ?2 AND e.step = ?3 ORDER BY e.start_ns, e.kind DESC");
    double in_mpi_ns = 0;
    for (event.bind(step.integer(0), step.integer(1), step.integer(2)); event.next();) {
      if (collective_of(event.text(1)) == Collective::kAllreduce && event.maybe_integer(4).value_or(0) > 0) {
        result.gradients.push_back({event.integer(4), (event.real(2) - step.real(3) - in_mpi_ns) * 1e-9});
        result.ranks = std::max(result.ranks, event.integer(5));
      }
      if (event.integer(0) == 1) in_mpi_ns += event.real(3);
    }
  }
  if (result.gradients.empty())
    throw Error("no allreduce was kept in a steady step", "ddl record --steps A:B keeps all events of these steps", ExitCode::kDataMissing);
  return result;
}

}  // namespace ddl::models
