// The operations of an imported what-if trace (`ddl import pipedream`) as a replay: they run on streams of GPUs, side
// by side, so that a replay of calls that hold up their rank (replay_run.h) would be of another job.
#pragma once

#include <SQLiteCpp/Database.h>

#include <cstdint>
#include <map>
#include <optional>

#include "analyzer/models/replay_pipeline.h"
#include "analyzer/models/replay_run.h"

namespace ddl::models {

struct ImportedReplay {
  RunReplay run;                      ///< of all steps
  std::map<int64_t, int64_t> stages;  ///< by rank
};

/// Nothing if the run is no such import: its processes do not say their replica and stage. Throws ddl::Error
/// (kDataMissing): operations that do not fit together.
std::optional<ImportedReplay> imported_replay(SQLite::Database& db, int64_t world);

}  // namespace ddl::models
