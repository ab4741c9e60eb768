#include "analyzer/models/replay_imported.h"

#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "analyzer/query.h"
#include "core/error.h"

namespace ddl::models {
namespace {

struct Place {
  int64_t rank, replica, stage;
};

/// By process; empty if not all of them say theirs.
std::map<int64_t, Place> places_of(SQLite::Database& db, int64_t world) {
  std::map<int64_t, Place> places;
  Query rows(
      db,
      "SELECT p.id, p.rank, (SELECT CAST(value AS INTEGER) FROM process_fact WHERE process = p.id AND key = 'replica'),"
      " (SELECT CAST(value AS INTEGER) FROM process_fact WHERE process = p.id AND key = 'pipeline_stage') FROM process p"
      " WHERE p.world = ?");
  rows.bind(world);
  while (rows.next()) {
    if (rows.is_null(1) || rows.is_null(2) || rows.is_null(3)) return {};
    places[rows.integer(0)] = {rows.integer(1), rows.integer(2), rows.integer(3)};
  }
  return places;
}

}  // namespace

std::optional<ImportedReplay> imported_replay(SQLite::Database& db, int64_t world) {
  const std::map<int64_t, Place> places = places_of(db, world);
  if (places.empty()) return std::nullopt;
  Query interleaved(
      db,
      "SELECT 1 FROM process_fact f JOIN process p ON p.id = f.process WHERE p.world = ? AND f.key = 'model_chunks'");
  if (interleaved.bind(world).next())
    throw Error("the pipeline's stages hold several model chunks each: such schedules are not replayed",
                "ddl report says what its ranks wait for", ExitCode::kDataMissing);
  Query rows(
      db,
      "SELECT process, step, name, start_ns, duration_ns FROM ("
      " SELECT e.process, e.step, r.name, e.start_ns, e.duration_ns FROM range_event e JOIN region r ON r.id = e.region"
      " WHERE r.kind = 'layer'"
      " UNION ALL SELECT e.process, e.step, o.name, e.start_ns, e.duration_ns FROM event e JOIN op o ON o.id = e.op)"
      " WHERE step IS NOT NULL ORDER BY process, step, start_ns, duration_ns");
  std::vector<PipelineOp> ops;
  std::map<std::tuple<int64_t, int64_t, std::string>, int64_t> numbers;  // so far, by process, step and type
  while (rows.next()) {
    const auto place = places.find(rows.integer(0));
    if (place == places.end()) continue;
    ops.push_back({place->second.replica, place->second.stage, place->second.rank, rows.integer(1), rows.text(2),
                   numbers[{place->first, rows.integer(1), rows.text(2)}]++, rows.real(3) * 1e-9, rows.real(4) * 1e-9});
  }
  if (ops.empty())
    throw Error("the run holds no operations to replay", "import a trace of a pipeline: ddl import pipedream",
                ExitCode::kDataMissing);
  Replay replay = pipeline_replay(ops);
  ImportedReplay imported;
  imported.run.replay = std::move(replay);
  for (const auto& [process, place] : places) imported.stages[place.rank] = place.stage;
  Query steps(
      db,
      "SELECT avg(s.duration_ns) * 1e-9, count(DISTINCT s.step) FROM step s JOIN process p ON p.id = s.process WHERE p.world = ?");
  steps.bind(world);
  if (steps.next()) {
    imported.run.recorded_step_s = steps.real(0);
    imported.run.steps = steps.integer(1);
  }
  return imported;
}

}  // namespace ddl::models
