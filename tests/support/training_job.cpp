#include "tests/support/training_job.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <stdexcept>

#include "tests/support/training_job_random.h"
#include "tests/support/training_job_simulation.h"

namespace ddl::test {
namespace {

constexpr uint64_t kHealthy = 1, kFault = 2, kLoss = 3;
constexpr uint64_t kWarmup = 5, kMeanOf = 64;  // the latter: ranks times runs
constexpr int kMostSmallTensors = 120, kFewestSmallTensors = 12;

int64_t share_of(double share, double ns) { return static_cast<int64_t>(share * ns); }

bool has(const std::vector<Fault>& faults, Fault kind) {
  return std::find(faults.begin(), faults.end(), kind) != faults.end();
}

// -------------------------------------------------------------------------------------------------------- healthy jobs

/// Layers of unlike size, forwards a third of the time.
void draw_layers(TrainingJob& job, double compute_ns, Dice& dice) {
  const int layers = dice.between(3, 7);
  std::vector<double> weight;
  for (int l = 0; l < layers; ++l) weight.push_back(dice.uniform(0.4, 1.6));
  const double all = std::accumulate(weight.begin(), weight.end(), 0.0);
  for (const double w : weight) {
    job.forward_ns.push_back(share_of(w / all / 3, compute_ns));
    job.backward_ns.push_back(share_of(w / all * 2 / 3, compute_ns));
  }
}

/// Buckets that move for `xfer_ns` in all; the last layers' gradients are ready first.
void draw_buckets(TrainingJob& job, double xfer_ns, Dice& dice) {
  const TrainingJob::Link& link = job.nodes > 1 ? job.between : job.inside;
  const double p = job.ranks();
  const double bytes = std::max(400e3, xfer_ns / (2 * (p - 1) / p * link.ns_per_byte));
  const int count = std::min(
      {std::max(2, static_cast<int>(bytes / 300e3)), static_cast<int>(job.backward_ns.size()), dice.between(2, 6)});
  std::vector<double> weight;
  for (int b = 0; b < count; ++b) weight.push_back(dice.uniform(0.6, 1.4));
  const double all = std::accumulate(weight.begin(), weight.end(), 0.0);
  for (int b = 0; b < count; ++b) {
    const size_t layer = job.backward_ns.size() * static_cast<size_t>(count - 1 - b) / static_cast<size_t>(count);
    job.buckets.push_back({layer, share_of(weight[static_cast<size_t>(b)] / all, bytes) / 4096 * 4096});
  }
}

Reduction draw_reduction(const TrainingJob& job, bool needs_blocking, Dice& dice) {
  if (job.nodes > 1 && job.ranks_per_node > 1 && dice.chance(0.4)) return Reduction::kHierarchical;
  static constexpr std::array kKinds = {Reduction::kAfterBackward, Reduction::kInBackward, Reduction::kOverlapped};
  return kKinds[static_cast<size_t>(dice.between(0, needs_blocking ? 1 : 2))];
}

/// Enough micro-batches that the bubble is below 4 %.
void draw_pipeline(TrainingJob& job, double compute_ns, Dice& dice) {
  job.nodes = dice.between(1, 2);
  job.ranks_per_node = job.nodes == 1 ? dice.between(2, 3) : 1;
  job.steps = static_cast<uint64_t>(dice.between(14, 22));
  job.pipeline.stages = job.ranks();
  job.pipeline.microbatches = job.pipeline.usual_microbatches = (job.ranks() - 1) * dice.between(26, 36);
  const TrainingJob::Link& link = job.nodes > 1 ? job.between : job.inside;
  job.pipeline.activation_bytes =
      share_of(dice.uniform(0.005, 0.02), compute_ns / job.pipeline.microbatches / link.ns_per_byte) + 1024;
  job.loss_every_step = true;
}

/// Kernels of 20 us and longer, pinned memory over PCIe 4.0.
void draw_gpu(TrainingJob& job, double compute_ns, Dice& dice) {
  job.reduction = Reduction::kAfterBackward;
  const int most = std::max(1, static_cast<int>(compute_ns / 3 / static_cast<double>(job.forward_ns.size()) / 40e3));
  job.gpu.kernels_per_layer = std::min(dice.between(4, 20), most);
  job.gpu.launch_ns = static_cast<int64_t>(dice.uniform(3e3, 6e3));
  job.gpu.copy_ns_per_byte = 1 / (31.5 * dice.uniform(0.72, 0.85));
  job.gpu.input_bytes = share_of(dice.uniform(0.001, 0.01), compute_ns / job.gpu.copy_ns_per_byte) + 4096;
}

TrainingJob draw_healthy(uint64_t seed, const std::vector<Fault>& faults, bool large) {
  Dice dice = Dice(seed).of(kHealthy);
  TrainingJob job;
  job.seed = seed;
  job.nodes = dice.between(has(faults, Fault::kClockJump) ? 2 : 1, 3);
  job.ranks_per_node = job.nodes == 1 ? dice.between(2, 6) : dice.between(1, 3);
  if (has(faults, Fault::kSlowNode)) job.nodes = dice.between(2, 3), job.ranks_per_node = dice.between(2, 3);
  if (has(faults, Fault::kSlowRanks))
    job.ranks_per_node = job.nodes == 1 ? dice.between(5, 8) : dice.between(5 - job.nodes, 6 - job.nodes);
  if (large) job.nodes = dice.between(3, 8), job.ranks_per_node = 8;
  job.steps = static_cast<uint64_t>(dice.between(22, 40));
  job.named_layers = dice.chance(0.5);
  const double compute_ns =
      has(faults, Fault::kSmallTensors) ? dice.log_uniform(8e6, 30e6) : dice.log_uniform(8e6, 400e6);
  static constexpr std::array kInputNames = {"data", "load_batch", "DataLoader",
                                             "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__",
                                             "next_batch"};
  job.input_phase = kInputNames[static_cast<size_t>(dice.between(0, kInputNames.size() - 1))];
  job.input_ns = share_of(dice.uniform(0.0005, 0.008), compute_ns);
  job.optimizer_ns = share_of(dice.uniform(0.01, 0.05), compute_ns);
  draw_layers(job, compute_ns, dice);
  job.inside = {dice.log_uniform(1e3, 5e3), 1 / dice.log_uniform(4, 20)};  // 4 to 20 GB/s
  job.between = {dice.log_uniform(6e3, 30e3), 1 / dice.log_uniform(1, 12)};
  job.moment_noise = dice.log_uniform(0.003, 0.02);
  job.step_noise = dice.log_uniform(0.002, 0.01);
  job.rank_noise = dice.log_uniform(0.001, 0.005);
  job.network_noise = dice.log_uniform(0.02, 0.1);
  job.hiccup_chance = dice.uniform(0, 0.03);
  job.hiccup_ns = share_of(dice.uniform(0.01, 0.05), compute_ns);
  job.loss_every_step = dice.chance(0.7);
  if (has(faults, Fault::kBubble) || (faults.empty() && !large && dice.chance(0.15)))
    draw_pipeline(job, compute_ns, dice);
  for (int node = 0; node < job.nodes; ++node) {
    job.clock_offset_ns.push_back(node == 0 ? 0 : static_cast<int64_t>(dice.uniform(-1e9, 1e9)));
    job.clock_drift_ppm.push_back(node == 0 ? 0 : dice.uniform(-60, 60));
  }
  if (job.pipeline.stages > 1) return job;
  job.reduction = draw_reduction(job, has(faults, Fault::kSlowLink), dice);
  if (has(faults, Fault::kSlowAlgorithm))
    job.reduction = dice.chance(0.5) ? Reduction::kAfterBackward : Reduction::kInBackward;
  if (has(faults, Fault::kExposedTail)) job.reduction = Reduction::kOverlapped;
  if (has(faults, Fault::kLayerImbalance)) job.named_layers = true;
  const bool gpu =
      has(faults, Fault::kHostBound) || has(faults, Fault::kSlowCopies) || (faults.empty() && dice.chance(0.2));
  if (gpu) draw_gpu(job, compute_ns, dice);
  if (has(faults, Fault::kSmallBatch))
    job.reduction = dice.chance(0.5) ? Reduction::kAfterBackward : Reduction::kInBackward;
  if (has(faults, Fault::kSmallBatch) || (faults.empty() && dice.chance(0.3))) job.samples = dice.between(1, 256);
  const bool overlapped = job.reduction == Reduction::kOverlapped;
  if (gpu) return draw_buckets(job, compute_ns * dice.uniform(0.01, 0.03), dice), job;
  const double most = has(faults, Fault::kSmallBatch) ? 0.6 : job.samples > 0 ? 0.07 : overlapped ? 0.12 : 0.25;
  draw_buckets(job, compute_ns * dice.uniform(has(faults, Fault::kSmallBatch) ? 0.25 : 0.02, most), dice);
  return job;
}

// -------------------------------------------------------------------------------------------------------------- faults

InjectedFault draw_fault(TrainingJob& job, Fault kind, Dice& dice) {
  const double step_ns = step_ns_of(job);
  const double share = dice.log_uniform(0.06, 0.35);
  InjectedFault fault = {.kind = kind, .size_ns = share_of(share / (1 - share), step_ns)};
  const auto middle = [&] { return static_cast<uint64_t>(dice.between(12, static_cast<int>(job.steps) - 8)); };
  switch (kind) {
    case Fault::kSlowRank:
      fault.rank = dice.between(0, job.ranks() - 1);
      if (dice.chance(0.35)) fault.from_step = middle();
      break;
    case Fault::kSlowRanks:
      fault.rank = dice.between(0, job.ranks() - 1);
      fault.second = (fault.rank + dice.between(1, job.ranks() - 1)) % job.ranks();
      fault.second_share = dice.uniform(0.8, 1);
      if (dice.chance(0.35)) fault.from_step = middle();
      break;
    case Fault::kSlowNode:
      fault.rank = dice.between(0, job.nodes - 1);
      if (dice.chance(0.35)) fault.from_step = middle();
      break;
    case Fault::kSlowLink:
      if (job.reduction == Reduction::kHierarchical) {
        fault.rank = dice.between(0, job.ranks_per_node - 1);
      } else {
        fault.from_step = middle();
      }
      break;
    case Fault::kSmallTensors: {
      job.small_bytes = static_cast<int64_t>(dice.log_uniform(64, 8192)) / 4 * 4;
      break;
    }
    case Fault::kInputStall:
      if (dice.chance(0.4)) fault.every = static_cast<uint64_t>(dice.between(2, 4));
      break;
    case Fault::kBubble:
      if (dice.chance(0.5)) {
        job.pipeline.flush_every = dice.between(job.ranks(), 4 * job.ranks());
      } else {
        job.pipeline.microbatches = dice.between(job.ranks(), 6 * job.ranks());
      }
      break;
    case Fault::kLayerImbalance:
      fault.rank = dice.between(0, static_cast<int>(job.forward_ns.size()) - 1);
      break;
    case Fault::kHostBound:  // nothing is lost before the host takes longer than the GPU
      fault.size_ns += share_of(1, job.computing_ns());
      break;
    case Fault::kSlowCopies:
      job.gpu.pageable = dice.chance(0.6);
      break;
    case Fault::kSlowAlgorithm:
    case Fault::kExposedTail:
    case Fault::kSmallBatch:
      break;
    case Fault::kClockJump:
      fault.rank = dice.between(0, job.nodes - 1);
      fault.from_step = static_cast<uint64_t>(dice.between(8, static_cast<int>(job.steps) - 8));
      fault.size_ns = share_of(dice.log_uniform(0.3, 30), step_ns) * (dice.chance(0.5) ? 1 : -1);
      break;
  }
  return fault;
}

/// As many small ones as take the fault's time; of a network that is so slow that the store need not hold millions.
void set_small_tensors(TrainingJob& job) {
  const InjectedFault* fault = job.fault(Fault::kSmallTensors);
  if (fault == nullptr) return;
  TrainingJob::Link& link = job.nodes > 1 ? job.between : job.inside;
  double rounds = 0;
  for (int reach = 1; reach < job.ranks(); reach *= 2) rounds += 2;
  double count = static_cast<double>(fault->size_ns) / (rounds * link.alpha_ns);
  if (count > kMostSmallTensors) link.alpha_ns *= count / kMostSmallTensors;
  job.small_tensors = std::clamp(static_cast<int>(count), kFewestSmallTensors, kMostSmallTensors);
}

void measure(TrainingJob& job, InjectedFault& fault) {
  // With other calls in a step the same dice fall for other things: then the mean of more steps tells what is not
  // chance.
  TrainingJob with = job;
  if (fault.kind == Fault::kBubble || fault.kind == Fault::kSmallTensors)
    with.steps *= std::clamp<uint64_t>(kMeanOf / static_cast<uint64_t>(job.ranks()), 1, 8);
  const double with_ns = step_ns_of(with, fault.from_step);
  // as many samples in steps of twice the batch, which the system takes away as much time of
  if (fault.kind == Fault::kSmallBatch) {
    TrainingJob twice = job;
    twice.input_ns *= 2;
    for (auto* layers : {&twice.forward_ns, &twice.backward_ns}) {
      for (int64_t& layer_ns : *layers) layer_ns *= 2;
    }
    twice.hiccup_chance *= twice.computing_ns() / job.computing_ns();
    fault.cost = (with_ns - step_ns_of(twice, fault.from_step) / 2) / with_ns;
    return;
  }
  TrainingJob without = with.without(fault.kind);
  // too few micro-batches: what twice as many of half the size save
  if (fault.kind == Fault::kBubble && job.pipeline.flush_every == 0) {
    without.pipeline.microbatches = 2 * job.pipeline.microbatches;
    without.pipeline.activation_bytes = job.pipeline.activation_bytes / 2;
  }
  fault.cost = (with_ns - step_ns_of(without, fault.from_step)) / with_ns;
}

}  // namespace

const char* name_of(Fault fault) {
  static constexpr std::array kNames = {
      "slow rank",  "slow ranks",      "slow node",      "slow link",    "small tensors", "input stall", "bubble",
      "clock jump", "layer imbalance", "slow algorithm", "exposed tail", "small batch",   "host bound",  "slow copies"};
  return kNames[static_cast<size_t>(fault)];
}

double TrainingJob::computing_ns() const {
  double ns = static_cast<double>(input_ns + optimizer_ns);
  for (const int64_t layer : forward_ns) ns += static_cast<double>(layer);
  for (const int64_t layer : backward_ns) ns += static_cast<double>(layer);
  return ns;
}

int64_t TrainingJob::copied_bytes() const {
  int64_t bytes = gpu.input_bytes;
  for (const Bucket& bucket : buckets) bytes += 2 * bucket.bytes;
  return bytes;
}

const InjectedFault* TrainingJob::fault(Fault kind) const {
  for (const InjectedFault& fault : faults) {
    if (fault.kind == kind) return &fault;
  }
  return nullptr;
}

bool TrainingJob::is_recorded(int rank) const {
  const auto has_it = [rank](const std::vector<int>& ranks) {
    return std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
  };
  return !has_it(removed) && !has_it(torn) && !has_it(damaged);
}

TrainingJob TrainingJob::without(Fault kind) const {
  TrainingJob job = *this;
  if (kind == Fault::kLayerImbalance) {
    for (InjectedFault& fault : job.faults) fault.spread |= fault.kind == kind;
    return job;
  }
  std::erase_if(job.faults, [&](const InjectedFault& fault) { return fault.kind == kind; });
  if (kind == Fault::kSmallTensors) {  // one call for all of them
    job.small_bytes *= small_tensors;
    job.small_tensors = 1;
  }
  if (kind == Fault::kBubble) {
    job.pipeline.flush_every = 0;
    job.pipeline.microbatches = job.pipeline.usual_microbatches;
  }
  return job;
}

namespace {

TrainingJob draw_job(uint64_t seed, const std::vector<Fault>& faults, bool large) {
  constexpr int kTries = 12;
  TrainingJob job = draw_healthy(seed, faults, large);
  Dice dice = Dice(seed).of(kFault);
  for (const Fault kind : faults) {
    job.faults.push_back(draw_fault(job, kind, dice));
    set_small_tensors(job);
  }
  for (int i = 0; i < kTries; ++i) {
    bool enough = true;
    for (InjectedFault& fault : job.faults) {
      if (fault.kind == Fault::kClockJump) continue;
      measure(job, fault);
      if (fault.cost >= kLeastCost) continue;
      enough = false;
      fault.size_ns = fault.size_ns * 4 / 3;
      if (fault.kind == Fault::kBubble) {
        job.pipeline.flush_every = job.pipeline.flush_every * 3 / 4;
        if (job.pipeline.flush_every == 0) job.pipeline.microbatches = std::max(1, job.pipeline.microbatches * 3 / 4);
      }
      if (fault.kind == Fault::kExposedTail) {
        for (TrainingJob::Bucket& bucket : job.buckets) bucket.bytes = bucket.bytes * 4 / 3;
      }
      set_small_tensors(job);
    }
    if (enough) return job;
  }
  throw std::logic_error("training job: a fault that costs too little, seed " + std::to_string(seed));
}

}  // namespace

TrainingJob draw_training_job(uint64_t seed, const std::vector<Fault>& faults) { return draw_job(seed, faults, false); }
TrainingJob draw_large_training_job(uint64_t seed, const std::vector<Fault>& faults) {
  return draw_job(seed, faults, true);
}

void lose_ranks(TrainingJob& job, double share) {
  Dice dice = Dice(job.seed).of(kLoss);
  const int lost = std::max(1, static_cast<int>(share * job.ranks()));
  std::vector<int>* const ways[] = {&job.removed, &job.torn, &job.damaged};
  for (int done = 0; done < lost;) {
    const int rank = dice.between(0, job.ranks() - 1);
    if (!job.is_recorded(rank)) continue;
    ways[dice.between(0, 2)]->push_back(rank);
    ++done;
  }
}

TrainingJob many_ranks_job(int ranks) {
  TrainingJob job;
  job.seed = static_cast<uint64_t>(ranks);
  job.ranks_per_node = 8;
  job.nodes = ranks / job.ranks_per_node;
  job.steps = 20;
  job.forward_ns.assign(3, 1'300'000);
  job.backward_ns.assign(3, 2'600'000);
  job.input_ns = 50'000;
  job.optimizer_ns = 300'000;
  job.inside = {1e3, 1 / 20.0};
  job.between = {3e3, 1 / 10.0};
  job.buckets = {{2, 400'000}, {1, 400'000}, {0, 400'000}};
  job.reduction = Reduction::kHierarchical;
  Dice dice(job.seed);
  for (int node = 0; node < job.nodes; ++node) {
    job.clock_offset_ns.push_back(node == 0 ? 0 : static_cast<int64_t>(dice.uniform(-1e9, 1e9)));
    job.clock_drift_ppm.push_back(node == 0 ? 0 : dice.uniform(-60, 60));
  }
  job.faults.push_back({.kind = Fault::kSlowRank, .size_ns = 3'000'000, .rank = ranks / 2 + 3});
  return job;
}

void write_training_job(const TrainingJob& job, const std::filesystem::path& folder) {
  TrainingSimulation simulation(job, true);
  simulation.run();
  simulation.write(folder);
}

double step_ns_of(const TrainingJob& job, uint64_t from_step) {
  TrainingSimulation simulation(job, false);
  simulation.run();
  const std::vector<int64_t>& steps = simulation.step_ns();
  const auto first = steps.begin() + static_cast<std::ptrdiff_t>(std::max(from_step, kWarmup));
  return std::accumulate(first, steps.end(), 0.0) / static_cast<double>(steps.end() - first);
}

}  // namespace ddl::test
