// A distributed training job simulated in time, with noise, and with faults whose cost is known because the same job is
// simulated without them: what findings are measured against (tests/analyzer/injected). Written through
// SyntheticProcess as the spools that it would have left.
//
//     TrainingJob job = draw_training_job(seed, {Fault::kSlowRank});
//     job.faults[0].rank, job.faults[0].cost      // the truth
//     write_training_job(job, folder);
//
// It knows nothing of the analyzer's rules. The model:
//   computing     every layer of every rank in every step: its time, times a lognormal factor of the moment, one of the
//                 step and one of the rank for good (no two chips are equal); now and then the operating system takes a
//                 rank's core away for a while
//                 rank for good (no two chips are equal); now and then the operating system takes a rank's
//                 core away for a while
//   collectives   the cost model of a ring within or between nodes, alpha and beta, times a lognormal factor; nobody
//                 leaves before all entered, and not all at the same moment. With overlap: posted in backward, bytes
//                 move when all members have posted and the link is free; a Waitall at the end
//                 entered, and not all at the same moment. With overlap: posted in backward, bytes move when all
//                 members have posted and the link is free; a Waitall at the end
//   messages      of pipelines: an eager send takes its bytes over the link; a receive waits for it
//   GPUs          one stream: what is launched runs when everything before it has; the host waits for it before and
//                 after the reductions
//   clocks        of each node off by up to a second and by up to 60 ppm
// Units: ns and bytes. The same job gives the same spools.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace ddl::test {

enum class Fault {
  kSlowRank,        ///< computes longer, always or from a step on
  kSlowRanks,       ///< two ranks compute longer, about alike
  kSlowNode,        ///< all ranks of a node compute longer
  kSlowLink,        ///< of several like groups one has a slow network, or the network becomes slow in mid-run
  kSmallTensors,    ///< gradients that are reduced one by one
  kInputStall,      ///< the next batch is not there yet
  kBubble,          ///< too few micro-batches, or stages that wait for more than the schedule asks
  kClockJump,       ///< a node's clock jumps
  kLayerImbalance,  ///< one layer takes longer on one rank, on another one in every step
  kSlowAlgorithm,   ///< large buckets move at a fraction of the bandwidth of small ones
  kExposedTail,     ///< all non-blocking reductions are posted after backward
  kSmallBatch,      ///< so few samples that transfers are a large part of the step
  kHostBound,       ///< GPUs: launching takes the host longer than the kernels run
  kSlowCopies,      ///< GPUs: copies of pageable memory, or over half a link
};
const char* name_of(Fault fault);

struct InjectedFault {
  Fault kind;
  int64_t size_ns = 0;  ///< what it adds to where it strikes, per step; of clocks, the jump
  double cost = 0;      ///< share of the step that would be won without it: by simulation, not by a rule
  /// slow rank; of slow links the group, of slow nodes and clocks the node, of imbalance the layer
  int rank = -1;
  int second = -1;          ///< slow ranks: the other one
  double second_share = 0;  ///< of size_ns, what that one takes longer
  uint64_t from_step = 0;   ///< before it all is well
  bool spread = false;      ///< imbalance: it is none, all ranks share what it adds
  uint64_t every = 1;       ///< input stalls: only in steps that are multiples of it, so much the longer
};

/// How gradients are reduced.
enum class Reduction { kAfterBackward, kInBackward, kOverlapped, kHierarchical };

struct TrainingJob {
  uint64_t seed = 1;
  int nodes = 1, ranks_per_node = 2;
  uint64_t steps = 30;
  bool named_layers = true;
  std::string input_phase = "data";
  int64_t input_ns = 0;
  std::vector<int64_t> forward_ns, backward_ns;  ///< by layer
  struct Bucket {
    size_t layer;  ///< ready after its backward
    int64_t bytes;
  };
  std::vector<Bucket> buckets;
  Reduction reduction = Reduction::kAfterBackward;
  bool loss_every_step = true;  ///< a reduction of 8 bytes, and a barrier where there is none
  int64_t optimizer_ns = 0;
  int samples = 0;  ///< per rank and step, as reported; 0: not
  struct Pipeline {
    int stages = 1;                                ///< 1: none. Ranks are stages
    int microbatches = 1, usual_microbatches = 1;  ///< the second: without the fault
    int64_t activation_bytes = 0;
    int flush_every = 0;  ///< the pipeline runs empty after so many micro-batches; 0: never
  } pipeline;
  struct Link {
    double alpha_ns, ns_per_byte;
  } inside{}, between{};
  double moment_noise = 0.01, step_noise = 0.005, rank_noise = 0.003, network_noise = 0.05;  ///< sigmas of logarithms
  double hiccup_chance = 0.01;                                                               ///< per rank and step
  int64_t hiccup_ns = 0;                                                                     ///< mean
  struct Gpu {
    int kernels_per_layer = 0;  ///< 0: no GPUs
    int64_t launch_ns = 4000;   ///< of the host, per kernel
    int64_t input_bytes = 0;    ///< copied to it in each step; gradients by way of the host
    double copy_ns_per_byte = 0.04;
    bool pageable = false;
  } gpu;
  int small_tensors = 0;
  int64_t small_bytes = 0;
  std::vector<int64_t> clock_offset_ns;  ///< by node
  std::vector<double> clock_drift_ppm;
  std::vector<InjectedFault> faults;
  /// ranks whose spool is not there, only its first part, or altered (tests/core/damage.h)
  std::vector<int> removed, torn, damaged;

  /// Computing of a rank in a step, without faults and noise.
  double computing_ns() const;
  /// To and from the GPU, per step.
  int64_t copied_bytes() const;
  int ranks() const { return nodes * ranks_per_node; }
  const InjectedFault* fault(Fault kind) const;
  TrainingJob without(Fault kind) const;  ///< mended: of an uneven layer the work is still there, spread evenly
  bool is_recorded(int rank) const;       ///< with a whole spool
  bool is_whole() const { return removed.empty() && torn.empty() && damaged.empty(); }
};

/// A healthy job, and the faults put into it so that each costs at least kLeastCost of the step.
TrainingJob draw_training_job(uint64_t seed, const std::vector<Fault>& faults);
constexpr double kLeastCost = 0.05;
/// The same on 24 to 64 ranks.
TrainingJob draw_large_training_job(uint64_t seed, const std::vector<Fault>& faults);
/// Takes the spools of `share` of the ranks away, of one at least, tears or damages them: which ones, and how,
/// the job's seed says.
void lose_ranks(TrainingJob& job, double share);
/// A job of any size: nodes of 8 ranks with clocks of their own; 20 steps of 14.4 ms with ten collectives each, on the
/// world, on the node and on a data-parallel group (a rank of every node). One rank in the middle computes 3 ms longer.
/// `ranks`: a multiple of 8.
TrainingJob many_ranks_job(int ranks);

/// Makes the folder and one spool per rank.
void write_training_job(const TrainingJob& job, const std::filesystem::path& folder);
/// Mean over the steps after the first five (and from `from_step` on) of the slowest rank's time; nothing is written.
double step_ns_of(const TrainingJob& job, uint64_t from_step = 0);

}  // namespace ddl::test
