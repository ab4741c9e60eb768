#include "analyzer/models/run_facts.h"

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
    one.sample = {collective_of(one.op).value_or(Collective::kAllreduce), row.integer(1), row.real(2), row.real(3),
                  row.real(4)};
  }
  return collectives;
}

std::vector<Sample> samples_of(const std::vector<MeasuredCollective>& collectives) {
  std::vector<Sample> samples;
  for (const MeasuredCollective& one : collectives)
    if (collective_of(one.op)) samples.push_back(one.sample);
  return samples;
}

namespace {

void require_seen(const Facts& facts) {
  if (facts.resource == Resource::kUnseen)
    throw Error("the run has NCCL collectives but no GPU activities, so what its GPUs did is unknown",
                "record with CUPTI (ddl doctor checks for it), or profile with CUDA activities",
                ExitCode::kDataMissing);
}

}  // namespace

std::vector<RankStep> rank_steps(SQLite::Database& db, int64_t world) {
  const Facts facts = read_facts(db, world);
  require_seen(facts);
  std::vector<RankStep> ranks;
  for (const RankFacts& rank : facts.ranks)
    if (facts.step.has_steps && rank.compute_ns)
      ranks.push_back({rank.rank, static_cast<double>(*rank.compute_ns) * 1e-9});
  if (ranks.empty())
    throw Error("the run has no complete steps",
                "name steps with ddl/annotate.h, ddl_annotate.py or NVTX, or give the numbers", ExitCode::kDataMissing);
  return ranks;
}

std::optional<double> mean_step_ns(SQLite::Database& db, int64_t world) {
  Query row(db, R"(
    SELECT max(r.duration_ns) * 1.0 / (SELECT count(*) FROM steady_step WHERE world = ?1)
    FROM steady_rank r
    WHERE r.world = ?1 AND EXISTS (SELECT 1 FROM metric WHERE world = ?1 AND id = 'step_time' AND value IS NOT NULL))");
  row.bind(world);
  return row.next() ? row.maybe_real(0) : std::nullopt;
}

std::optional<double> metric_of(SQLite::Database& db, int64_t world, const std::string& id) {
  Query row(db, "SELECT value FROM metric WHERE world = ?1 AND id = ?2");
  row.bind(world, id);
  return row.next() ? row.maybe_real(0) : std::nullopt;
}

MeanStep mean_step(SQLite::Database& db, int64_t world) {
  const Facts facts = read_facts(db, world);
  require_seen(facts);
  const JobTime& time = facts.headline;
  if (time.is_known()) {
    const TimeParts mean = time.sum / (time.windows * 1e9);
    return {{mean.total_ns(), mean.computing_ns(), mean.transfer_ns + mean.unsplit_ns, mean.wait_ns, mean.copy_ns,
             mean.idle_ns},
            mean.unsplit_ns == 0,
            time.why,
            mean.unsplit_ns};
  }
  throw Error("the run holds no times of its ranks", "ddl report loss says what is missing", ExitCode::kDataMissing);
}

std::optional<double> samples_per_step(SQLite::Database& db, int64_t world) {
  Query row(
      db,
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
           (SELECT count(*) FROM step s JOIN process p ON p.id = s.process WHERE p.world = ?1 AND s.measured),
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
    throw Error("the run has no steps with layers",
                "name layers with ddl/annotate.h, ddl_annotate.py or NVTX, or give --profile", ExitCode::kDataMissing);
  return layers;
}

std::vector<LayerTransfer> layer_transfers(SQLite::Database& db, int64_t world) {
  Query row(
      db,
      "SELECT v.layer, sum(coalesce(v.bytes, 0)), iif(count(v.xfer_ns) = count(*) AND max(o.nonblocking) = 0, sum(v.xfer_ns), NULL), "
      "(SELECT sum(ranks) FROM steady_step WHERE world = ?1 AND annotated) "
      "FROM v_collective v JOIN op o ON o.name = v.op JOIN steady_step s ON s.world = v.world AND s.step = v.step AND s.annotated "
      "WHERE v.world = ?1 AND v.layer IS NOT NULL GROUP BY v.layer ORDER BY 2 DESC, 1");
  std::vector<LayerTransfer> layers;
  for (row.bind(world); row.next();) {
    const double steps = row.real(3);
    if (steps <= 0) break;
    const auto transfer_ns = row.maybe_real(2);
    layers.push_back(
        {row.text(0), row.real(1) / steps, transfer_ns ? std::optional(*transfer_ns * 1e-9 / steps) : std::nullopt});
  }
  return layers;
}

}  // namespace ddl::models
