// A training job on GPUs over several axes of parallelism, simulated in time with noise, and with a fault whose cost
// and axis are known because the same job is simulated without it. It knows nothing of the analyzer's rules. The model:
//   mesh       data x tensor x pipeline as Megatron-LM lays it out (rank = (stage * data + replica) * tensor +
//              part), hosts in blocks of ranks; or data with experts: all ranks are replicas, and groups of them
//              share the experts
//   GPU        streams: computing, and one for each axis. What was launched runs when its stream is free and what
//              it awaits is over
//   host       launches kernel by kernel, and waits for the GPU at the end of a step; loads the next batch before it
//   tensor     an all-reduce behind every layer, forwards and backwards; computing goes on behind it
//   pipeline   1F1B, messages between neighbours as Megatron-LM couples them; both ends stay until the bytes have moved
//   experts    two all-to-alls around the experts of every layer: the first brings tokens, the second takes them back
//   data       gradients in buckets, while the last micro-batch still goes backwards
//   noise      of kernels, ranks, steps and transfers; now and then the operating system takes a host's core away
// Units: ns and bytes. The same seed gives the same job.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace ddl::test {

enum class GpuFault {
  kNone,
  kSlowRank,       ///< its kernels take longer
  kSlowRanks,      ///< those of two ranks
  kSlowNode,       ///< those of all ranks of a host
  kSlowLink,       ///< one communicator of an axis moves its bytes slower than its like, or than it did before
  kUnevenExperts,  ///< one rank's experts get more tokens than others'
  kHostBound,      ///< one rank's host launches later than its GPU could go on
  kLateLoader,     ///< one rank's next batch is not there yet when the step begins
};

enum class Axis { kTensor, kPipeline, kData, kExpert, kAll };
constexpr int kAxes = 5;
/// As the analyzer's users know it.
const char* name_of(Axis axis);

struct GpuJob {
  uint64_t seed = 1;
  int data = 2, tensor = 2, pipeline = 2;
  int expert = 1;  ///< ranks that share the experts; 1: there are none
  int ranks_per_node = 4;
  uint64_t steps = 20;
  int microbatches = 6, layers = 2, kernels_per_layer = 1;
  /// forwards, of one micro-batch; backwards twice as long
  int64_t layer_ns = 200'000;
  /// of that, what the experts take with their share of the tokens
  double expert_share = 0;
  int64_t tensor_bytes = 0, activation_bytes = 0, token_bytes = 0;  ///< of one collective or message
  std::vector<int64_t> bucket_bytes;
  int64_t optimizer_ns = 0, input_ns = 0;
  double launch_ns = 5000;
  struct Link {
    double alpha_ns = 10'000, ns_per_byte = 0.01;
  } links[kAxes];
  bool norm_every_step = true;  ///< a reduction of a few bytes over all ranks
  /// sigmas of logarithms
  double moment_noise = 0.01, step_noise = 0.005, rank_noise = 0.003, network_noise = 0.05, token_noise = 0.02;
  /// per rank and step
  double hiccup_chance = 0.01;
  int64_t hiccup_ns = 0;

  GpuFault fault = GpuFault::kNone;
  int place = 0;               ///< rank, node, or communicator of the axis
  int second = -1;             ///< of slow ranks the other one
  Axis axis = Axis::kTensor;   ///< of slow links
  std::string link;            ///< label of the slow one's communicator
  std::vector<int> members;    ///< of it
  double size = 0;             ///< of kernels, bytes and launches: so much more of themselves; of loading: of the step
  uint64_t from_step = 0;      ///< before it all is well
  double cost = 0;             ///< share of the step that would be won without the fault
  std::set<std::string> axes;  ///< on which the others wait, or the bytes move late: those that lose most
  std::vector<int> removed;    ///< ranks without a trace; a damaged one is refused, and has to be left out

  int ranks() const { return data * tensor * pipeline; }
  bool strikes(int rank, uint64_t step) const;  ///< faults of ranks and nodes
  bool is_recorded(int rank) const;
  std::vector<int> known_ranks(int node) const;  ///< those of its ranks that left a trace
};

enum class GpuMesh { kSmall, kLarge, kExperts };  ///< 2 x 2 x 2; 2 x 4 x 4; 8 replicas with experts

/// A job of which the fault costs at least a twentieth of the step.
GpuJob draw_gpu_job(uint64_t seed, GpuFault fault, GpuMesh mesh);

/// Takes the traces of `share` of the ranks away, of one at least: which ones the job's seed says. The axes are then
/// those on which the ranks that are left lose most.
void lose_ranks(GpuJob& job, double share);

/// One thing that a GPU did.
struct GpuActivity {
  uint64_t step;
  int64_t start_ns, end_ns, launch_ns, launch_duration_ns;
  int communicator;  ///< index into GpuTrace::communicators; -1: it computed
  int64_t seq;       ///< number on the communicator
  int64_t bytes;     ///< that this rank sends
  Axis axis;
  int stream;
};

struct GpuTrace {
  struct Communicator {
    Axis axis;
    std::string label;
    std::vector<int> members;
  };
  struct Step {
    int64_t begin_ns, end_ns, loaded_ns;  ///< loading goes from begin to loaded
  };
  std::vector<Communicator> communicators;
  std::vector<std::vector<GpuActivity>> activities;  ///< by rank
  std::vector<std::vector<Step>> steps;              ///< by rank
};

GpuTrace run_gpu_job(const GpuJob& job);

}  // namespace ddl::test
