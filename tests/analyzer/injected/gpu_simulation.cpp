// Carries a GpuJob out.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <stdexcept>

#include "tests/analyzer/injected/gpu_job.h"
#include "tests/support/training_job_random.h"

namespace ddl::test {
namespace {

constexpr int64_t kLaunchLatencyNs = 5000, kBetweenStepsNs = 20'000;
constexpr int64_t kNormBytes = 8;
constexpr int64_t kPending = -1;

enum Stream { kComputing, kTensorStream, kDataStream, kFromStage, kToStage, kExpertStream, kAllStream, kStreams };
enum Purpose : uint64_t {
  kPace = 1,
  kStepPace,
  kMoment,
  kTransfer,
  kLeave,
  kTokens,
  kLaunch,
  kHiccup,
  kLoading,
  kBegin
};

/// One kernel, as a rank's program launches it.
struct Operation {
  Stream stream = kComputing;
  unsigned awaits = 0;  ///< bits of streams: what these were given before must be over
  double ns = 0;        ///< computing
  int communicator = -1;
  int64_t bytes = 0;
};

const char* group_name(Axis axis) {
  switch (axis) {
    case Axis::kTensor:
      return "TENSOR_MODEL_PARALLEL_GROUP";
    case Axis::kPipeline:
      return "PIPELINE_MODEL_PARALLEL_GROUP";
    case Axis::kData:
      return "DATA_PARALLEL_GROUP";
    case Axis::kExpert:
      return "EXPERT_MODEL_PARALLEL_GROUP";
    case Axis::kAll:
      return "default_pg";
  }
  return "";
}

/// A rank's communicators by axis; those of the pipeline by direction.
struct Communicators {
  int of[kAxes] = {-1, -1, -1, -1, -1};
  int from_stage = -1, to_stage = -1;
};

/// Launches one step of one rank.
class StepProgram {
 public:
  /// `tokens`: of the rank's experts, against an even share.
  StepProgram(const GpuJob& job, const Communicators& communicators, int rank, double tokens)
      : job_(job), communicators_(communicators), stage_(rank / (job.data * job.tensor)), tokens_(tokens) {}

  std::vector<Operation> build() {
    const int ahead = std::min(job_.pipeline - stage_ - 1, job_.microbatches);
    const int steady = job_.microbatches - ahead;
    for (int i = 0; i < ahead; ++i) {
      message(kFromStage);
      forward();
      message(kToStage);
    }
    if (steady > 0) message(kFromStage);
    for (int i = 0; i < steady; ++i) {
      forward();
      message(kToStage);  // what it sends, and what it gets back
      backward(ahead == 0 && i + 1 == steady);
      message(kFromStage);
    }
    for (int i = 0; i < ahead; ++i) {
      message(kToStage);
      backward(i + 1 == ahead);
      message(kFromStage);
    }
    if (job_.norm_every_step) {
      open_ |= 1u << kDataStream;
      collective(kAllStream, Axis::kAll, kNormBytes);
    }
    open_ |= 1u << kDataStream;
    compute(static_cast<double>(job_.optimizer_ns));
    return std::move(operations_);
  }

 private:
  void compute(double ns) {
    operations_.push_back({.stream = kComputing, .awaits = open_, .ns = ns});
    open_ = 0;
  }
  void collective(Stream stream, Axis axis, int64_t bytes, bool in_background = false) {
    operations_.push_back({.stream = stream,
                           .awaits = open_ | 1u << kComputing,
                           .communicator = communicators_.of[static_cast<int>(axis)],
                           .bytes = bytes});
    open_ = in_background ? 0 : 1u << stream;
  }
  void message(Stream direction) {
    const int communicator = direction == kFromStage ? communicators_.from_stage : communicators_.to_stage;
    if (communicator < 0) return;
    operations_.push_back({.stream = direction,
                           .awaits = open_ | 1u << kComputing,
                           .communicator = communicator,
                           .bytes = job_.activation_bytes});
    open_ = 1u << direction;
  }
  void layer(double times) {
    const double ns = static_cast<double>(job_.layer_ns) * times;
    for (int k = 0; k < job_.kernels_per_layer; ++k) compute(ns * (1 - job_.expert_share) / job_.kernels_per_layer);
    if (job_.expert > 1) {
      collective(kExpertStream, Axis::kExpert, job_.token_bytes);
      compute(ns * job_.expert_share * tokens_);
      collective(kExpertStream, Axis::kExpert, static_cast<int64_t>(static_cast<double>(job_.token_bytes) * tokens_));
    }
    if (job_.tensor > 1) collective(kTensorStream, Axis::kTensor, job_.tensor_bytes);
  }
  void forward() {
    for (int l = 0; l < job_.layers; ++l) layer(1);
  }
  void backward(bool last) {
    const auto buckets = job_.bucket_bytes.size();
    size_t reduced = 0;
    for (int l = 0; l < job_.layers; ++l) {
      layer(2);
      const size_t ready = last ? buckets * static_cast<size_t>(l + 1) / static_cast<size_t>(job_.layers) : 0;
      for (; reduced < ready; ++reduced) {
        const unsigned open = open_;
        collective(kDataStream, Axis::kData, job_.bucket_bytes[reduced], true);
        open_ = open;
      }
    }
  }

  const GpuJob& job_;
  const Communicators& communicators_;
  int stage_;
  double tokens_;
  unsigned open_ = 0;  ///< streams that the next kernel awaits
  std::vector<Operation> operations_;
};

class GpuSimulation {
 public:
  explicit GpuSimulation(const GpuJob& job) : job_(job), dice_(job.seed), ranks_(static_cast<size_t>(job.ranks())) {
    make_communicators();
    trace_.activities.resize(ranks_.size());
    trace_.steps.resize(ranks_.size());
    for (size_t r = 0; r < ranks_.size(); ++r)
      ranks_[r].host_ns = static_cast<int64_t>(dice_.of(kBegin, r).uniform(0, 200e3));
  }

  GpuTrace run() {
    for (uint64_t step = 0; step < job_.steps; ++step) run_step(step);
    return std::move(trace_);
  }

 private:
  struct Rank {
    int64_t host_ns = 0, begin_ns = 0, loaded_ns = 0;
    std::vector<Operation> program;
    size_t at = 0;
    int64_t over_ns[kStreams] = {};
    Communicators communicators;
    std::map<int, int64_t> numbers;  ///< by communicator
  };
  struct Meeting {
    std::vector<size_t> places;  ///< by member: of the activity
    std::vector<int> members;
    int64_t last_ns = 0, bytes = 0;
  };

  void add(Axis axis, std::vector<int> members) {
    const auto number = static_cast<int>(trace_.communicators.size());
    for (const int member : members) {
      Communicators& own = ranks_[static_cast<size_t>(member)].communicators;
      (axis != Axis::kPipeline ? own.of[static_cast<int>(axis)]
       : member == members[0]  ? own.to_stage
                               : own.from_stage) = number;
    }
    const int64_t of_axis = 1 + std::count_if(trace_.communicators.begin(), trace_.communicators.end(),
                                              [&](const auto& c) { return c.axis == axis; });
    trace_.communicators.push_back(
        {axis, of_axis == 1 ? group_name(axis) : fmt::format("{}#{}", group_name(axis), of_axis), std::move(members)});
  }
  void make_communicators() {
    const int d = job_.data, t = job_.tensor, p = job_.pipeline;
    const auto rank = [&](int stage, int replica, int part) { return (stage * d + replica) * t + part; };
    std::vector<int> all;
    for (int r = 0; r < job_.ranks(); ++r) all.push_back(r);
    for (int stage = 0; stage < p && t > 1; ++stage) {
      for (int replica = 0; replica < d; ++replica) {
        std::vector<int> members;
        for (int part = 0; part < t; ++part) members.push_back(rank(stage, replica, part));
        add(Axis::kTensor, members);
      }
    }
    for (int stage = 0; stage < p; ++stage) {
      for (int part = 0; part < t; ++part) {
        std::vector<int> members;
        for (int replica = 0; replica < d; ++replica) members.push_back(rank(stage, replica, part));
        add(Axis::kData, members);
      }
    }
    for (int stage = 0; stage + 1 < p; ++stage) {
      for (int i = 0; i < d * t; ++i) add(Axis::kPipeline, {stage * d * t + i, (stage + 1) * d * t + i});
    }
    for (int first = 0; first < job_.ranks() && job_.expert > 1; first += job_.expert)
      add(Axis::kExpert, {all.begin() + first, all.begin() + first + job_.expert});
    add(Axis::kAll, all);
  }

  double tokens_of(int rank, uint64_t step) const {
    const auto weight = [&](int r) {
      const double even = dice_.of(kTokens, static_cast<uint64_t>(r), step).lognormal(job_.token_noise);
      return job_.fault == GpuFault::kUnevenExperts && job_.place == r && step >= job_.from_step
                 ? even * (1 + job_.size)
                 : even;
    };
    double sum = 0;
    const int first = rank / job_.expert * job_.expert;
    for (int r = first; r < first + job_.expert; ++r) sum += weight(r);
    return weight(rank) * job_.expert / sum;  // there are no more tokens for it
  }

  void run_step(uint64_t step) {
    for (size_t i = 0; i < ranks_.size(); ++i) {
      Rank& rank = ranks_[i];
      const int number = static_cast<int>(i);
      rank.program =
          StepProgram(job_, rank.communicators, number, job_.expert > 1 ? tokens_of(number, step) : 1).build();
      rank.at = 0;
      rank.begin_ns = rank.host_ns;
      double loading = static_cast<double>(job_.input_ns) * dice_.of(kLoading, i, step).lognormal(0.25);
      if (job_.fault == GpuFault::kLateLoader && job_.strikes(number, step)) loading += job_.size;
      rank.host_ns += static_cast<int64_t>(loading);
      rank.loaded_ns = rank.host_ns;
      Dice hiccup = dice_.of(kHiccup, i, step);
      if (hiccup.chance(job_.hiccup_chance))
        rank.host_ns += static_cast<int64_t>(hiccup.exponential(static_cast<double>(job_.hiccup_ns)));
    }
    for (bool done = false; !done;) {
      done = true;
      bool moved = false;
      for (size_t i = 0; i < ranks_.size(); ++i) {
        while (advance(i, step)) moved = true;
        done = done && ranks_[i].at == ranks_[i].program.size();
      }
      if (!moved && !done) throw std::logic_error("job on GPUs: the ranks wait for each other");
    }
    for (size_t i = 0; i < ranks_.size(); ++i) {
      Rank& rank = ranks_[i];
      rank.host_ns = std::max(rank.host_ns, *std::max_element(std::begin(rank.over_ns), std::end(rank.over_ns))) +
                     kLaunchLatencyNs;
      trace_.steps[i].push_back({rank.begin_ns, rank.host_ns, rank.loaded_ns});
      rank.host_ns += kBetweenStepsNs;
    }
  }

  /// False: the next kernel awaits what nobody knows the end of yet.
  bool advance(size_t i, uint64_t step) {
    Rank& rank = ranks_[i];
    if (rank.at == rank.program.size()) return false;
    const Operation& op = rank.program[rank.at];
    int64_t free_ns = rank.over_ns[op.stream];
    if (free_ns == kPending) return false;
    for (int s = 0; s < kStreams; ++s) {
      if ((op.awaits >> s & 1) == 0) continue;
      if (rank.over_ns[s] == kPending) return false;
      free_ns = std::max(free_ns, rank.over_ns[s]);
    }
    const uint64_t place = rank.at++;
    const double launch = job_.launch_ns * dice_.of(kLaunch, i, step, place).lognormal(0.2);
    const auto launch_ns = static_cast<int64_t>(launch);
    // what it does between two launches
    if (job_.fault == GpuFault::kHostBound && job_.strikes(static_cast<int>(i), step))
      rank.host_ns += static_cast<int64_t>(launch * job_.size);
    const int64_t start_ns = std::max(free_ns, rank.host_ns + launch_ns + kLaunchLatencyNs);
    GpuActivity activity{step, start_ns, start_ns,   rank.host_ns, launch_ns, op.communicator,
                         0,    op.bytes, Axis::kAll, op.stream};
    rank.host_ns += launch_ns;
    if (op.communicator < 0) {
      rank.over_ns[op.stream] = activity.end_ns = start_ns + computing_ns(i, step, place, op.ns);
      trace_.activities[i].push_back(activity);
      return true;
    }
    activity.axis = trace_.communicators[static_cast<size_t>(op.communicator)].axis;
    activity.seq = ++rank.numbers[op.communicator];
    rank.over_ns[op.stream] = kPending;
    trace_.activities[i].push_back(activity);
    meet(i, activity, step);
    return true;
  }

  int64_t computing_ns(size_t rank, uint64_t step, uint64_t place, double ns) const {
    const double noise = dice_.of(kPace, rank).lognormal(job_.rank_noise) *
                         dice_.of(kStepPace, rank, step).lognormal(job_.step_noise) *
                         dice_.of(kMoment, rank, step, place).lognormal(job_.moment_noise);
    const bool is_slow =
        job_.fault == GpuFault::kSlowRank || job_.fault == GpuFault::kSlowRanks || job_.fault == GpuFault::kSlowNode;
    return 1 + static_cast<int64_t>(ns * noise *
                                    (is_slow && job_.strikes(static_cast<int>(rank), step) ? 1 + job_.size : 1));
  }

  void meet(size_t i, const GpuActivity& activity, uint64_t step) {
    const std::pair key(activity.communicator, activity.seq);
    Meeting& meeting = meetings_[key];
    meeting.members.push_back(static_cast<int>(i));
    meeting.places.push_back(trace_.activities[i].size() - 1);
    meeting.last_ns = std::max(meeting.last_ns, activity.start_ns);
    meeting.bytes = std::max(meeting.bytes, activity.bytes);
    const auto& communicator = trace_.communicators[static_cast<size_t>(activity.communicator)];
    if (meeting.members.size() < communicator.members.size()) return;
    const GpuJob::Link& link = job_.links[static_cast<size_t>(communicator.axis)];
    const double p = static_cast<double>(communicator.members.size());
    const bool reduces = communicator.axis != Axis::kPipeline && communicator.axis != Axis::kExpert;
    // A ring moves 2 (p - 1) / p of the bytes; an all-to-all is done when the rank with most to send, or to get, is.
    const double bytes = static_cast<double>(meeting.bytes) * (reduces                              ? 2 * (p - 1) / p
                                                               : communicator.axis == Axis::kExpert ? (p - 1) / p
                                                                                                    : 1);
    const bool is_slow =
        job_.fault == GpuFault::kSlowLink && job_.place == activity.communicator && step >= job_.from_step;
    const double ns = link.alpha_ns + bytes * link.ns_per_byte * (is_slow ? 1 + job_.size : 1);
    const uint64_t comm = static_cast<uint64_t>(activity.communicator), number = static_cast<uint64_t>(activity.seq);
    const int64_t end_ns = meeting.last_ns + 1 +
                           static_cast<int64_t>(ns * dice_.of(kTransfer, comm, number).lognormal(job_.network_noise));
    for (size_t m = 0; m < meeting.members.size(); ++m) {
      const auto rank = static_cast<size_t>(meeting.members[m]);
      GpuActivity& own = trace_.activities[rank][meeting.places[m]];
      own.end_ns = end_ns + static_cast<int64_t>(dice_.of(kLeave, comm, number, rank).exponential(1000));
      ranks_[rank].over_ns[own.stream] = own.end_ns;
    }
    meetings_.erase(key);
  }

  const GpuJob& job_;
  Dice dice_;
  std::vector<Rank> ranks_;
  GpuTrace trace_;
  std::map<std::pair<int, int64_t>, Meeting> meetings_;  ///< by communicator and number
};

}  // namespace

bool GpuJob::strikes(int rank, uint64_t step) const {
  return step >= from_step &&
         (rank == second || place == (fault == GpuFault::kSlowNode ? rank / ranks_per_node : rank));
}

GpuTrace run_gpu_job(const GpuJob& job) { return GpuSimulation(job).run(); }

}  // namespace ddl::test
