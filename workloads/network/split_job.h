#pragma once

#include <mpi.h>

#include <memory>
#include <vector>

#include "workloads/network/compute.h"
#include "workloads/network/gradients.h"
#include "workloads/network/options.h"
#include "workloads/network/split.h"

namespace ddl::network {

/** What is handed to MPI by a rank in a step, in bytes: of an allgather and a reduce-scatter the whole array. */
struct SplitCost {
  uint64_t forward = 0, backward = 0, gradients = 0;
};

/**
 * One rank's part of a job whose layers are spread over the ranks of a replica: rank r is part r mod G of replica r /
 * G. Between the ranks of a replica:
 *
 *   spatial     MPI_Sendrecv of halos with both neighbours, forward and back
 *   channel     MPI_Reduce_scatter of the output forward, MPI_Allgatherv of its gradient back
 *   filter      MPI_Allgatherv of the input forward, MPI_Reduce_scatter of its gradient back
 *   column      MPI_Allreduce of the input's gradient back
 *   row         MPI_Allreduce of the output forward
 *   and between a layer that leaves parts and one that wants everything MPI_Allgatherv forward, the other way around
 *   back
 *
 * Gradients of weights are summed over all ranks where a rank has a part of each sum (spatial), else over the ranks
 * that hold the same ones. */
class SplitJob {
 public:
  /** Collective over MPI_COMM_WORLD. Throws train::Error. */
  SplitJob(const Options& options, const LayerTable& table);
  ~SplitJob();
  SplitJob(const SplitJob&) = delete;
  SplitJob& operator=(const SplitJob&) = delete;

  /** Throws std::runtime_error where what came from other ranks is not what they had to send. */
  void run_step(uint64_t step);

  const std::vector<LayerSplit>& plan() const { return plan_; }
  const SplitCost& cost() const { return cost_; }

 private:
  void forward(std::size_t layer);
  void backward(std::size_t layer);
  void compute(std::size_t layer, int times);
  /** Elements of a replica's samples. */
  uint64_t of_batch(uint64_t elements) const { return elements * options_.batch; }
  Layout before(std::size_t layer) const { return layer > 0 ? plan_[layer - 1].out : plan_[0].in; }
  uint64_t elements_before(std::size_t layer) const { return layer > 0 ? plan_[layer - 1].output : 0; }
  void exchange_halos(std::size_t layer);
  void gather(uint64_t elements);
  void reduce_scatter(uint64_t elements);
  void sum(uint64_t elements);
  void learn_parts(uint64_t elements);
  void check(bool good, const char* what) const;

  const Options& options_;
  const LayerTable& table_;
  std::vector<LayerSplit> plan_;
  MPI_Comm group_ = MPI_COMM_NULL;  ///< the ranks of this replica
  MPI_Comm peers_ = MPI_COMM_NULL;  ///< the ranks with the same part
  int part_ = 0, parts_ = 1;
  std::unique_ptr<Gradients> of_all_, of_peers_;
  std::vector<std::size_t> place_;  ///< of each layer's gradients among those of its kind, in backward order
  train::Buffer out_, in_;
  std::vector<int> counts_, offsets_;
  Compute compute_;
  uint64_t* counted_ = nullptr;
  SplitCost cost_, step_cost_;
};

}  // namespace ddl::network
