#pragma once

#include <mpi.h>

#include <memory>
#include <optional>
#include <vector>

#include "workloads/network/compute.h"
#include "workloads/network/gradients.h"
#include "workloads/network/layer_table.h"
#include "workloads/network/options.h"

namespace ddl::network {

/** What a rank does in a step. */
struct StageCost {
  uint64_t parameters = 0;
  uint64_t flops = 0;
  uint64_t sent_bytes = 0;  ///< activations and their gradients, to other stages
  uint64_t buckets = 0;
};

/**
 * One rank's part of the job: stage (rank mod stages) of replica (rank / stages) of the network. Without pipeline there
 * is one stage, and one pass each way. */
class Job {
 public:
  /** Collective over MPI_COMM_WORLD. Throws train::Error, on some ranks maybe. */
  Job(const Options& options, const LayerTable& table);
  ~Job();
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  /** Throws std::runtime_error where what came from other ranks is not what they had to send. */
  void run_step(uint64_t step);

  const std::vector<Stage>& stages() const { return stages_; }
  const StageCost& cost() const { return cost_; }

 private:
  /** Messages to and from one neighbour: one micro-batch's values of their boundary. */
  struct Link {
    int rank;
    train::Buffer out, in;
    MPI_Request sending = MPI_REQUEST_NULL;
  };

  void check_memory(uint64_t bytes) const;
  std::optional<Link> make_link(int rank, std::size_t last_layer) const;
  void run(const Pass& pass);
  void compute(const Pass& pass);
  uint64_t macs_of(std::size_t layer) const;
  void receive(Link& link, std::size_t micro_batch);
  void send(Link& link, std::size_t micro_batch);
  void finish_sends();

  const Options& options_;
  const LayerTable& table_;
  std::vector<Stage> stages_;
  std::size_t stage_ = 0;
  Stage layers_;
  std::vector<Pass> passes_;
  MPI_Comm pipeline_ = MPI_COMM_NULL;  ///< the stages of this replica
  MPI_Comm replicas_ = MPI_COMM_NULL;  ///< the ranks of this stage
  std::optional<Link> before_, behind_;
  std::unique_ptr<Gradients> gradients_;
  Compute compute_;
  StageCost cost_;
};

}  // namespace ddl::network
