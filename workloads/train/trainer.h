#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "workloads/train/dataset.h"
#include "workloads/train/model.h"
#include "workloads/train/options.h"
#include "workloads/train/parameters.h"
#include "workloads/train/reducer.h"
#include "workloads/train/sampler.h"
#include "workloads/train/step_log.h"

namespace ddl::train {

/** For the global batch, before the step's update. */
struct StepResult {
  double loss = 0.0;
  double accuracy = 0.0;
};

/** One rank of the job, on whatever device. */
class Training {
 public:
  virtual ~Training() = default;
  /** Collective: everybody starts with the weights of rank 0, as DDP does, even if another machine should
   * have drawn others. */
  virtual void start() = 0;
  virtual StepResult run_step(uint64_t step) = 0;
  /** Collective: after the last step. */
  virtual void finish() {}
  virtual std::size_t parameters() const = 0;
  virtual std::size_t buckets() const = 0;
  virtual std::size_t global_batch() const = 0;
  /** What this rank has sent to add up gradients; nothing where only the MPI library knows. */
  virtual std::optional<allreduce::Traffic> sent() const { return {}; }
  /** For all steps, after finish(), where single steps are not known before: then what run_step returned is a part of
   * the truth. nullptr: they are. */
  virtual const std::vector<StepResult>* results() const { return nullptr; }
  /** [n]: updates that came n updates of others after their parameters were read; nothing where none does. */
  virtual std::optional<std::vector<uint64_t>> staleness() const { return {}; }
  /** For the last step; nothing where nobody takes them. */
  virtual std::optional<StepTimes> times() const { return {}; }
};

/** On the CPU. */
class Trainer : public Training {
 public:
  /**
   * Allocates; no communication, so a rank may fail here and tell the others. `background`: who makes the MPI calls;
   * nullptr: this thread. */
  Trainer(const Options& options, const Dataset& data, Mpi& mpi, BackgroundRuntime* background);

  void start() override;
  StepResult run_step(uint64_t step) override;
  void finish() override;

  std::size_t parameters() const override { return arena_.size(); }
  std::size_t buckets() const override { return reducer_.buckets().size(); }
  std::size_t global_batch() const override { return options_.batch * static_cast<std::size_t>(mpi_.size()); }
  std::optional<allreduce::Traffic> sent() const override;
  std::optional<StepTimes> times() const override { return times_; }

 private:
  void take_tuned_values(uint64_t step);
  void load_batch(uint64_t step);
  void forward(uint64_t step);
  void backward();
  void update();

  Options options_;
  const Dataset& data_;
  Mpi& mpi_;
  BackgroundRuntime* background_;
  Sampler sampler_;
  Faults faults_;
  Model model_;
  ParameterArena arena_;
  uint64_t step_ = 0;
  StepTimes times_;
  double squares_ = 0;  ///< sum of the squares of this step's reduced gradients
  Reducer reducer_;
  std::vector<uint8_t> labels_;
  bool is_tuned_;             ///< while it runs (ddl tune --in-run)
  bool has_changed_ = false;  ///< who adds up: what was sent is not of one algorithm
};

}  // namespace ddl::train
