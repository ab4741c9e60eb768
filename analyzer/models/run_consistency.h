// What a recorded run tells of parameter consistency: computing and transfer of each rank and step, and whether it has
// parameter servers.
#pragma once

#include <SQLiteCpp/Database.h>

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "analyzer/models/consistency.h"

namespace ddl::models {

/// Ranks that all others push to and pull from, while these send one another nothing.
struct ParameterServer {
  std::vector<int64_t> servers, workers;      ///< ranks, ascending
  int64_t pushes = 0;                         ///< messages to servers, of the whole run
  double pushed_bytes = 0, pulled_bytes = 0;  ///< likewise
};

/// By the messages of an analyzed run: each worker exchanges with every server and with nobody else, as many messages
/// one way as the other to within a factor of two, of 1 KiB or more in the mean, three at least. Fewer servers than
/// workers; of one server and two workers (a chain of three ranks looks alike) the server computes less than half as
/// long as they. Not where a pipeline was recognised.
std::optional<ParameterServer> parameter_server_of(SQLite::Database& db, int64_t world);

struct RunConsistency {
  /// of the ranks that compute; its messages take what the recorded transfers took by a ring, no latency
  ConsistencyJob job;
  std::vector<int64_t> ranks;  ///< whose rows these are
  std::vector<int64_t> steps;
  double recorded_step_s = 0;  ///< mean over ranks and steps
  std::optional<ParameterServer> server;
  bool overlapped = false;  ///< collectives are non-blocking: of their transfers only what was exposed is known
};

/// The annotated steady steps that all ranks have; `job.bytes` is 0 where no gradients were seen. Throws ddl::Error
/// (kDataMissing): there are none, the job computes on GPUs, or waiting is not known.
RunConsistency run_consistency(SQLite::Database& db, int64_t world);

/// Messages without latency that take as long a byte as the exchanges of the job do, if these are rings.
void set_ring_bandwidth(ConsistencyJob& job);

/// Mean over ranks of what they reported as `loss`, by step, ascending; empty: nothing was reported.
std::vector<std::pair<int64_t, double>> reported_losses(SQLite::Database& db, int64_t world);

}  // namespace ddl::models
