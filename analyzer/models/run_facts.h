// What the models need to know of a recorded run: transfer times of its collectives, and what a step consists of.
#pragma once

#include <SQLiteCpp/Database.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analyzer/models/link_fit.h"
#include "analyzer/models/partition.h"
#include "analyzer/models/scaling.h"

namespace ddl::models {

/// A collective of one operation, communicator and size, as the analyzer grouped them.
struct MeasuredCollective {
  std::string op;
  Sample sample;
};

/// Blocking collectives of a world whose transfer could be told from waiting, on communicators of at least two ranks.
std::vector<MeasuredCollective> measured_collectives(SQLite::Database& db, int64_t world);

/// Samples of those that have a model.
std::vector<Sample> samples_of(const std::vector<MeasuredCollective>& collectives);

// The rest reads the steady steps of an analyzed run (analyzer/tables.sql). Throws ddl::Error
// (kDataMissing) if it has none.

/// A rank's mean steady step: on its GPUs if these were active, else outside MPI (RankFacts).
struct RankStep {
  int64_t rank = 0;
  double compute_s = 0;
};
std::vector<RankStep> rank_steps(SQLite::Database& db, int64_t world);

/// The mean of the marked steady steps, ns: what so many steps take is that many times as much, stalls of
/// single ones included, which a median leaves out. For the rank whose steps take longest together. Nothing:
/// the job marks no steps.
std::optional<double> mean_step_ns(SQLite::Database& db, int64_t world);

/// A metric of the run; nothing if it is n/a.
std::optional<double> metric_of(SQLite::Database& db, int64_t world, const std::string& id);

/// Where a steady step went, in the mean over ranks: of each its GPUs if these did anything, else the thread that calls
/// MPI. Without steps: the whole run as one (facts.h).
struct MeanStep {
  StepParts parts;
  bool split = true;     ///< all waiting could be told from transfer; the rest is in parts.transfer_s
  std::string why;       ///< it could not
  double unsplit_s = 0;  ///< of parts.transfer_s: what could not be told from waiting
};
MeanStep mean_step(SQLite::Database& db, int64_t world);

/// Samples of a steady step, all ranks together, as the program reported them; nothing if it did not, or
/// not on every rank.
std::optional<double> samples_per_step(SQLite::Database& db, int64_t world);

/// Layers in the order in which they first began, with their computing per step in the mean over ranks - of their GPUs
/// if these did anything, else of their threads -; forward and everything else.
std::vector<LayerCost> layers_of(SQLite::Database& db, int64_t world);

/// Collectives that a layer's range posted, in a steady step, mean over ranks.
struct LayerTransfer {
  std::string layer;
  double bytes = 0;  ///< S of the collectives (specification.md "Bandwidths")
  /// exposed, without waiting; unset: one is non-blocking, or its waiting is not known
  std::optional<double> transfer_s;
};
/// Those that move most first. Empty: no collective lies in a layer.
std::vector<LayerTransfer> layer_transfers(SQLite::Database& db, int64_t world);

}  // namespace ddl::models
