// What a rank of a training job does in a step.
#include <algorithm>

#include "tests/support/training_job_simulation.h"

namespace ddl::test {
namespace {

enum Site : uint32_t { kBucketSite = 100, kSmallSite = 20, kLossSite, kWaitSite, kSendSite, kReceiveSite };

constexpr uint64_t kUnluckyRank = 100;

/// Puts the actions of one step together.
class Program {
 public:
  Program(const TrainingJob& job, int rank, uint64_t step) : job_(job), rank_(rank), step_(step) {}

  std::vector<Action> build() {
    if (job_.gpu.kernels_per_layer > 0) {
      on_gpu();
    } else if (job_.pipeline.stages > 1) {
      pipeline();
    } else {
      data_parallel();
    }
    return std::move(actions_);
  }

 private:
  void open(const std::string& name, ContextKind kind = ContextKind::kPhase) {
    actions_.push_back({.kind = Action::Kind::kOpen, .range = kind, .name = name});
  }
  void close(ContextKind kind = ContextKind::kPhase) {
    actions_.push_back({.kind = Action::Kind::kClose, .range = kind});
  }
  void compute(int64_t ns) { actions_.push_back({.kind = Action::Kind::kCompute, .ns = ns}); }
  void collective(const char* op, int64_t bytes, uint32_t site, size_t comm = kWorldComm) {
    actions_.push_back({.kind = Action::Kind::kCollective, .bytes = bytes, .comm = comm, .op = op, .site = site});
  }

  void input() {
    int64_t ns = job_.input_ns;
    const InjectedFault* stall = job_.fault(Fault::kInputStall);
    if (stall != nullptr && step_ % stall->every == 0) ns += stall->size_ns * static_cast<int64_t>(stall->every);
    open(job_.input_phase);
    actions_.push_back({.kind = Action::Kind::kCompute, .ns = ns, .irregular = true});
    close();
  }

  void layer(size_t l, int64_t ns) {
    if (job_.named_layers) open("layer" + std::to_string(l), ContextKind::kLayer);
    for (const Fault kind : {Fault::kSlowRank, Fault::kSlowRanks, Fault::kSlowNode}) {
      const InjectedFault* slow = job_.fault(kind);
      const int place = kind == Fault::kSlowNode ? rank_ / job_.ranks_per_node : rank_;
      if (slow == nullptr || step_ < slow->from_step) continue;
      const double share = slow->rank == place ? 1 : slow->second == place ? slow->second_share : 0;
      ns += static_cast<int64_t>(share * static_cast<double>(slow->size_ns) * static_cast<double>(ns) /
                                 job_.computing_ns());
    }
    const InjectedFault* uneven = job_.fault(Fault::kLayerImbalance);
    if (uneven != nullptr && uneven->rank == static_cast<int>(l)) {
      const int unlucky = Dice(job_.seed).of(kUnluckyRank, step_).between(0, job_.ranks() - 1);
      const int64_t more_ns = uneven->size_ns / 2;  // forwards, and backwards
      if (uneven->spread) {
        ns += more_ns / job_.ranks();
      } else if (unlucky == rank_) {
        ns += more_ns;
      }
    }
    compute(ns);
    if (job_.named_layers) close(ContextKind::kLayer);
  }

  void reduce(const TrainingJob::Bucket& bucket) {
    const auto site = kBucketSite + 4 * static_cast<uint32_t>(&bucket - job_.buckets.data());
    switch (job_.reduction) {
      case Reduction::kOverlapped:
        actions_.push_back({.kind = Action::Kind::kPost, .bytes = bucket.bytes, .op = "MPI_Iallreduce", .site = site});
        break;
      case Reduction::kHierarchical:
        collective("MPI_Reduce_scatter_block", bucket.bytes, site, kNodeComm);
        collective("MPI_Allreduce", bucket.bytes / job_.ranks_per_node, site + 1, kColumnComm);
        collective("MPI_Allgather", bucket.bytes / job_.ranks_per_node, site + 2, kNodeComm);
        break;
      default:
        collective("MPI_Allreduce", bucket.bytes, site);
    }
  }

  void data_parallel() {
    input();
    open("forward");
    for (size_t l = 0; l < job_.forward_ns.size(); ++l) layer(l, job_.forward_ns[l]);
    close();
    open("backward");
    const bool at_once = job_.reduction == Reduction::kInBackward || job_.reduction == Reduction::kOverlapped;
    for (size_t l = job_.backward_ns.size(); l-- > 0;) {
      layer(l, job_.backward_ns[l]);
      for (const TrainingJob::Bucket& bucket : job_.buckets) {
        const size_t ready = job_.fault(Fault::kExposedTail) != nullptr ? 0 : bucket.layer;
        if (at_once && ready == l) reduce(bucket);
      }
    }
    close();
    open("gradients");
    for (int i = 0; i < job_.small_tensors; ++i) collective("MPI_Allreduce", job_.small_bytes, kSmallSite);
    for (const TrainingJob::Bucket& bucket : job_.buckets) {
      if (!at_once) reduce(bucket);
    }
    if (job_.reduction == Reduction::kOverlapped)
      actions_.push_back({.kind = Action::Kind::kWaitall, .site = kWaitSite});
    close();
    finish();
  }

  void copy(int64_t bytes, bool from_gpu) {
    actions_.push_back({.kind = Action::Kind::kLaunch, .bytes = bytes, .peer = from_gpu ? 1 : 0});
  }
  void kernels(size_t l, int64_t ns) {
    if (job_.named_layers) open("layer" + std::to_string(l), ContextKind::kLayer);
    for (int i = 0; i < job_.gpu.kernels_per_layer; ++i)
      actions_.push_back({.kind = Action::Kind::kLaunch, .ns = ns / job_.gpu.kernels_per_layer});
    if (job_.named_layers) close(ContextKind::kLayer);
  }

  /// Gradients are reduced by way of the host.
  void on_gpu() {
    input();
    copy(job_.gpu.input_bytes, false);
    for (size_t l = 0; l < job_.forward_ns.size(); ++l) kernels(l, job_.forward_ns[l]);
    for (size_t l = job_.backward_ns.size(); l-- > 0;) kernels(l, job_.backward_ns[l]);
    for (const TrainingJob::Bucket& bucket : job_.buckets) copy(bucket.bytes, true);
    actions_.push_back({.kind = Action::Kind::kSynchronize});
    for (const TrainingJob::Bucket& bucket : job_.buckets) reduce(bucket);
    for (const TrainingJob::Bucket& bucket : job_.buckets) copy(bucket.bytes, false);
    if (job_.loss_every_step) collective("MPI_Allreduce", 8, kLossSite);
    actions_.push_back({.kind = Action::Kind::kSynchronize});
  }

  void finish() {
    if (job_.loss_every_step) {
      collective("MPI_Allreduce", 8, kLossSite);
    } else if (step_ % 5 == 0) {
      collective("MPI_Barrier", 0, kLossSite);
    }
    compute(job_.optimizer_ns);
  }

  /// 1F1B: forward and backward of the micro-batches in turn, after as many forwards as stages follow.
  void pipeline() {
    if (rank_ == 0) input();
    const TrainingJob::Pipeline& p = job_.pipeline;
    const int at_once = p.flush_every > 0 ? p.flush_every : p.microbatches;
    for (int first = 0; first < p.microbatches; first += at_once) {
      const int count = std::min(at_once, p.microbatches - first);
      const int ahead = std::min(p.stages - rank_ - 1, count);
      for (int i = 0; i < ahead; ++i) stage(true);
      for (int i = ahead; i < count; ++i) stage(true), stage(false);
      for (int i = 0; i < ahead; ++i) stage(false);
    }
    finish();
  }

  void stage(bool forwards) {
    const TrainingJob::Pipeline& p = job_.pipeline;
    const int from = forwards ? rank_ - 1 : rank_ + 1, to = forwards ? rank_ + 1 : rank_ - 1;
    open(forwards ? "forward" : "backward");
    if (from >= 0 && from < p.stages)
      actions_.push_back({.kind = Action::Kind::kReceive, .peer = from, .site = kReceiveSite + (forwards ? 0u : 2u)});
    int64_t ns = 0;
    for (const int64_t l : forwards ? job_.forward_ns : job_.backward_ns) ns += l;
    ns /= p.microbatches;
    const InjectedFault* slow = job_.fault(Fault::kSlowRank);
    if (slow != nullptr && slow->rank == rank_ && step_ >= slow->from_step) ns += slow->size_ns / (2 * p.microbatches);
    compute(ns);
    if (to >= 0 && to < p.stages)
      actions_.push_back({.kind = Action::Kind::kSend,
                          .bytes = p.activation_bytes,
                          .peer = to,
                          .site = kSendSite + (forwards ? 10u : 12u)});
    close();
  }

  const TrainingJob& job_;
  int rank_;
  uint64_t step_;
  std::vector<Action> actions_;
};

}  // namespace

std::vector<Action> program_of(const TrainingJob& job, int rank, uint64_t step) {
  return Program(job, rank, step).build();
}

}  // namespace ddl::test
