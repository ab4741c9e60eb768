#pragma once

#include <memory>
#include <vector>

#include "workloads/train/consistency.h"
#include "workloads/train/trainer.h"

namespace ddl::train {

/** A worker's network: its gradients of the batches that are its own, whatever the parameters are at that time. */
class Replica {
 public:
  Replica(const Options& options, const Dataset& data, std::size_t worker, std::size_t workers);

  struct Pass {
    double loss_sum = 0;  ///< over the samples of the batch
    std::size_t correct = 0;
  };
  void load(uint64_t step);
  Pass forward();
  /** Divided by the samples of all workers: the pushes of all are one step of synchronous training. */
  void backward() { model_.backward(); }
  ParameterArena& arena() { return arena_; }
  std::span<float> gradients() { return arena_.gradients().first(arena_.size()); }

 private:
  Options options_;
  const Dataset& data_;
  std::size_t worker_, workers_;
  Sampler sampler_;
  Model model_;
  ParameterArena arena_;
  std::vector<uint8_t> labels_;
};

/** EASGD's elastic rate times the workers: the publication's 0.9. */
inline constexpr float kElasticRate = 0.9F;

/**
 * Training by a rule of consistency other than the synchronous one. n parameters of 4 bytes:
 *
 *   ssp, async  a worker sends n gradients to rank 0 in every step and receives n parameters; rank 0 changes the
 *               parameters by each push, with its momentum. With ssp the answer waits while the worker is too far ahead
 *   easgd       a worker changes its own parameters and in every tau-th step sends them and receives the centre; both
 *               move towards each other by 0.9 / workers of their distance
 *   gossip      after its own change a rank exchanges n parameters with each neighbour on the ring, one if there are
 *               two ranks, and takes the mean
 *   local       MPI_Allreduce of n parameters in every H-th step, and the mean
 *
 * Losses are those of each worker's parameters, summed up over the workers behind the last step.
 */
class ConsistencyTrainer : public Training {
 public:
  /** Allocates; no communication. */
  ConsistencyTrainer(const Options& options, const Dataset& data, Mpi& mpi);

  void start() override;
  StepResult run_step(uint64_t step) override;
  void finish() override;

  std::size_t parameters() const override { return parameters_; }
  std::size_t buckets() const override { return 1; }
  std::size_t global_batch() const override { return options_.batch * workers_; }
  std::optional<allreduce::Traffic> sent() const override;
  std::optional<StepTimes> times() const override { return times_; }
  const std::vector<StepResult>* results() const override { return &results_; }
  std::optional<std::vector<uint64_t>> staleness() const override;

 private:
  bool serves() const { return rule().has_server() && mpi_.rank() == 0; }
  const ConsistencyRule& rule() const { return options_.consistency; }
  bool exchanges_in(uint64_t step) const;
  void train(uint64_t step);
  void exchange();
  void serve(uint64_t step);
  void take(std::size_t worker);
  void answer_those_within_bound();
  void send(std::span<const float> values, int to);
  void update();

  Options options_;
  Mpi& mpi_;
  std::size_t workers_;
  Faults faults_;
  Replica replica_;  ///< of rank 0 where it serves: the parameters, or the centre
  std::size_t parameters_;
  Buffer other_;  ///< what came from elsewhere
  StepTimes times_;
  allreduce::Traffic sent_;
  std::vector<StepResult> results_;  ///< sums over this rank's samples, then means over all

  // For the server.
  std::size_t next_ = 0;                ///< in the order
  std::vector<uint64_t> done_, known_;  ///< by worker: steps it has pushed, and updates in what it was sent last
  std::vector<std::size_t> held_;       ///< workers that are not answered yet
  uint64_t updates_ = 0, step_updates_missed_ = 0;
  std::vector<uint64_t> staleness_;  ///< [n]: pushes that missed n updates of others
};

}  // namespace ddl::train
