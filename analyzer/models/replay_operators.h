// The steps of a job with GPUs as a replay in which operators can take another time: the graph through which the
// critical path goes (specification.md J12), with all dependencies, not only the last one, so that another path may
// become the longest.
//
//   an operation   begins when its launching call has begun and its stream's dependencies are over: the operation
//                  before, and those of table stream_wait (where a trace has none, as in replay_gpus.h). Its recorded
//                  delay from then to its begin stays
//                  stream_wait (where a trace has none, as in replay_gpus.h). Its recorded delay from then
//                  to its begin stays
//   the host       comes to its calls at the recorded pace, and out of a synchronisation, or a copy that ended inside
//                  its call, when the awaited operation is over; without waiting, if that is sooner
//   collectives    and messages begin on all members together, when the last has come, and take their transfer time
// Steps follow one another without the time between them. Ranks wait for each other in collectives only.
#pragma once

#include <SQLiteCpp/Database.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "analyzer/models/replay.h"
#include "analyzer/passes/catalog.h"

namespace ddl::models {

/// Whether a kernel or copy, by gpu_name.id and the region.id of its launch, belongs to what is asked for.
using IsOfOperator = std::function<bool(int64_t name, int64_t region)>;

class OperatorReplay {
 public:
  /// Replays the last steady steps (last_gpu_steps() in replay_run.h), or all of a run without steps.
  /// Throws ddl::Error if nothing ran on a GPU there, or operations wait for one another by their stamps.
  OperatorReplay(SQLite::Database& db, const Catalog& catalog, int64_t world);

  int64_t steps() const { return steps_; }
  /// mean over steps of the longest rank, activities beyond its end included
  double recorded_step_s() const { return recorded_step_s_; }
  double replayed_step_s() const { return replayed_step_s_; }
  /// Operations of these, on all ranks and in all steps.
  int64_t operations(const IsOfOperator& is_of) const;
  /// Seconds by which a step would be shorter if these took `scale` (0 to 1) of their time, collectives of their
  /// transfer.
  double saving_s(const IsOfOperator& is_of, double scale) const;

 private:
  class Builder;
  struct Scaled {
    Replay::Op op;
    double seconds;  ///< of the operation's duration what can be scaled
    int64_t name, region;
  };

  Replay replay_;
  std::vector<Scaled> scaled_;
  int64_t steps_ = 0;
  double recorded_step_s_ = 0, replayed_step_s_ = 0;
};

/// Kernels and copies of that name, and those that ranges (operators, layers, phases) of that name launched, also
/// further down. Nothing: there is none.
std::optional<IsOfOperator> operator_named(SQLite::Database& db, const std::string& name);
/// All names that it finds.
std::vector<std::string> names_of_operators(SQLite::Database& db);

struct OperatorOnPath {
  std::string name;
  IsOfOperator is_of;
  double path_ns = 0;  ///< its time on the critical path of a steady step of a rank in the mean, without waiting
};
/// The `most` operators (where there are none, layers; else kernels) that have most on critical paths.
std::vector<OperatorOnPath> operators_on_path(SQLite::Database& db, int64_t world, size_t most);

}  // namespace ddl::models
