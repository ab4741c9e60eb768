// What a recorded step tells of its gradients: how many bytes each allreduce moved, when they were ready, and what
// non-blocking ones took.
#pragma once

#include <SQLiteCpp/Database.h>

#include <cstdint>
#include <string>
#include <vector>

#include "analyzer/models/fusion.h"
#include "analyzer/models/link_fit.h"

namespace ddl::models {

/// Gradients of a layer of the program, by the name of its range.
struct LayerGradient {
  std::string layer;
  int64_t bytes = 0;
};

/// The allreduces of a steady step - of the rank that computes longest, its step of median length - on that rank's
/// clock of computing: time inside MPI is left out. Seconds.
struct StepGradients {
  int64_t rank = 0, step = 0, ranks = 0;  ///< ranks: of the communicator
  double compute_s = 0, measured_s = 0;   ///< of that step
  /// inside the allreduces, or the calls that post and complete them, without waiting for late ranks
  double exposed_s = 0;
  double posting_s = 0;  ///< of it inside the calls that post non-blocking ones
  double update_s = 0;   ///< computing behind the last gradient: it needs the sums
  bool nonblocking = false;
  std::vector<Gradient> gradients;  ///< in the order in which they are ready
  /// the allreduces that the run made, ready when it had made the last of their gradients
  std::vector<Gradient> posted;
  /// how it is known when gradients are ready; empty: it is not, and ready_s is that of the post
  std::string readiness;
  std::string why;  ///< it is not known
  /// All but computing and exposed_s: other calls, waiting for late ranks.
  double rest_s() const { return measured_s - compute_s - exposed_s; }
};

/// Readiness is that of the posts where these come during backward; else a gradient is ready when the range of its
/// layer in the phase backward ends. Which gradients a layer has is told by `layers`, or by there being as many
/// allreduces as layers.
///
/// Throws ddl::Error (kDataMissing): jobs whose GPUs did anything (their threads do not tell when a gradient was
/// ready), no allreduce in a steady step, or `layers` that are not the recorded ones.
StepGradients step_gradients(SQLite::Database& db, int64_t world, const std::vector<LayerGradient>& layers = {});

/// Times of non-blocking allreduces, by size: from when the last member had posted, and the one before on that
/// communicator was over, until that member saw it end in a call that waited for it. Medians over the last
/// kNonblockingSteps steady steps. That is their transfer where the library moves data beside computing; where it does
/// not, computing is in it, and the times do not follow the size.
constexpr int64_t kNonblockingSteps = 64;
std::vector<Sample> nonblocking_samples(SQLite::Database& db, int64_t world);

}  // namespace ddl::models
