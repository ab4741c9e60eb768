#include "tests/analyzer/injected/gpu_job.h"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <stdexcept>

#include "tests/support/training_job_random.h"

namespace ddl::test {
namespace {

constexpr uint64_t kHealthyGpus = 11, kGpuFault = 12, kGpuLoss = 13;
constexpr size_t kCold = 5;             // steps that do not count
constexpr double kLeastGpuCost = 0.05;  // of the step
// an axis that loses so much of what the worst one loses may be named in its place
constexpr double kAsMuch = 0.7;
constexpr int kFewestBefore = 10, kFewestAfter = 9;

// -------------------------------------------------------------------------------------------------------- healthy jobs

void draw_mesh(GpuJob& job, GpuMesh mesh, Dice& dice) {
  if (mesh == GpuMesh::kExperts) {
    job.data = 8;
    job.tensor = job.pipeline = 1;
    job.expert = dice.chance(0.5) ? 8 : 4;
    job.expert_share = dice.uniform(0.4, 0.75);
  }
  if (mesh == GpuMesh::kLarge) job.tensor = job.pipeline = 4;
  job.ranks_per_node = mesh == GpuMesh::kLarge ? (dice.chance(0.5) ? 8 : 4) : (dice.chance(0.6) ? 4 : 2);
}

GpuJob draw_healthy(uint64_t seed, GpuMesh mesh) {
  Dice dice = Dice(seed).of(kHealthyGpus);
  GpuJob job;
  job.seed = seed;
  draw_mesh(job, mesh, dice);
  job.steps = static_cast<uint64_t>(dice.between(22, 28));
  job.layers = dice.between(1, 3);
  job.kernels_per_layer = dice.between(1, 2);
  job.microbatches = job.pipeline > 1 ? job.pipeline * dice.between(2, 3) : dice.between(1, 3);
  job.layer_ns = static_cast<int64_t>(dice.log_uniform(150e3, 3e6)) * job.kernels_per_layer;
  const double step_ns = 3.0 * static_cast<double>(job.layer_ns) * job.layers * job.microbatches;
  job.links[static_cast<int>(Axis::kTensor)] = {dice.log_uniform(5e3, 20e3), 1 / dice.log_uniform(100, 400)};
  job.links[static_cast<int>(Axis::kExpert)] = {dice.log_uniform(10e3, 40e3), 1 / dice.log_uniform(20, 200)};
  for (const Axis axis : {Axis::kPipeline, Axis::kData, Axis::kAll})
    job.links[static_cast<int>(axis)] = {dice.log_uniform(10e3, 40e3), 1 / dice.log_uniform(10, 50)};
  const auto bytes_of = [&](Axis axis, double low, double high, double ns) {
    return static_cast<int64_t>(dice.uniform(low, high) * ns / job.links[static_cast<int>(axis)].ns_per_byte) / 4096 *
               4096 +
           4096;
  };
  const auto layer_ns = static_cast<double>(job.layer_ns);
  job.tensor_bytes = bytes_of(Axis::kTensor, 0.03, 0.2, layer_ns);
  job.token_bytes = bytes_of(Axis::kExpert, 0.05, 0.2, layer_ns);
  job.activation_bytes = bytes_of(Axis::kPipeline, 0.01, 0.05, layer_ns);
  const int buckets = dice.between(2, 4);
  for (int b = 0; b < buckets; ++b) job.bucket_bytes.push_back(bytes_of(Axis::kData, 0.02, 0.15, step_ns / buckets));
  job.optimizer_ns = static_cast<int64_t>(dice.uniform(0.01, 0.04) * step_ns);
  job.input_ns = static_cast<int64_t>(dice.uniform(0.0002, 0.004) * step_ns);
  job.launch_ns = dice.uniform(3e3, 7e3);
  job.norm_every_step = dice.chance(0.7);
  job.moment_noise = dice.log_uniform(0.003, 0.02);
  job.step_noise = dice.log_uniform(0.002, 0.008);
  job.rank_noise = dice.log_uniform(0.001, 0.005);
  job.network_noise = dice.log_uniform(0.02, 0.1);
  job.token_noise = dice.log_uniform(0.005, 0.04);
  job.hiccup_chance = dice.uniform(0, 0.02);
  job.hiccup_ns = static_cast<int64_t>(dice.uniform(0.01, 0.05) * step_ns);
  return job;
}

// ---------------------------------------------------------------------------------------------------- what faults cost

using Spans = std::vector<std::pair<int64_t, int64_t>>;

/// Of [begin, end), what lies outside of `spans`, which are in order.
int64_t outside_ns(int64_t begin, int64_t end, const Spans& spans) {
  int64_t ns = std::max<int64_t>(0, end - begin);
  auto span =
      std::lower_bound(spans.begin(), spans.end(), begin, [](const auto& s, int64_t t) { return s.second <= t; });
  for (; span != spans.end() && span->first < end; ++span)
    ns -= std::max<int64_t>(0, std::min(end, span->second) - std::max(begin, span->first));
  return ns;
}

struct Outcome {
  double step_ns = 0;
  std::map<Axis, double> lost_ns;  ///< waiting that nothing hides; of slow links the transfers
};

/// Over the steps that count: the slowest rank's time, and what the axes lost on all ranks with a trace together.
Outcome outcome_of(const GpuJob& job, const GpuTrace& trace, bool transfers) {
  Outcome outcome;
  const uint64_t first = std::max<uint64_t>(job.from_step, kCold);
  for (uint64_t step = first; step < job.steps; ++step) {
    int64_t longest_ns = 0;
    for (const auto& steps : trace.steps) longest_ns = std::max(longest_ns, steps[step].end_ns - steps[step].begin_ns);
    outcome.step_ns += static_cast<double>(longest_ns) / static_cast<double>(job.steps - first);
  }
  // when the last member came, by communicator and number
  std::vector<std::vector<int64_t>> last_ns(trace.communicators.size());
  std::vector<Spans> computing(trace.activities.size());
  for (size_t rank = 0; rank < trace.activities.size(); ++rank) {
    for (const GpuActivity& a : trace.activities[rank]) {
      if (a.communicator < 0) {
        computing[rank].emplace_back(a.start_ns, a.end_ns);
        continue;
      }
      auto& of_communicator = last_ns[static_cast<size_t>(a.communicator)];
      const auto number = static_cast<size_t>(a.seq);
      if (of_communicator.size() <= number) of_communicator.resize(number + 1, 0);
      of_communicator[number] = std::max(of_communicator[number], a.start_ns);
    }
  }
  for (size_t rank = 0; rank < trace.activities.size(); ++rank) {
    if (!job.is_recorded(static_cast<int>(rank))) continue;
    for (const GpuActivity& a : trace.activities[rank]) {
      if (a.communicator < 0 || a.step < first) continue;
      const int64_t came_ns = last_ns[static_cast<size_t>(a.communicator)][static_cast<size_t>(a.seq)];
      outcome.lost_ns[a.axis] +=
          static_cast<double>(transfers ? a.end_ns - came_ns : outside_ns(a.start_ns, came_ns, computing[rank]));
    }
  }
  return outcome;
}

/// `without`: of the same job without the fault.
void measure(GpuJob& job, const Outcome& without) {
  const Outcome with = outcome_of(job, run_gpu_job(job), job.fault == GpuFault::kSlowLink);
  job.cost = (with.step_ns - without.step_ns) / with.step_ns;
  std::map<Axis, double> more;
  for (const auto& [axis, ns] : with.lost_ns) more[axis] = ns - without.lost_ns.at(axis);
  const double worst = std::max_element(more.begin(), more.end(), [](const auto& a, const auto& b) {
                         return a.second < b.second;
                       })->second;
  job.axes.clear();
  for (const auto& [axis, ns] : more)
    if (ns >= kAsMuch * worst) job.axes.insert(name_of(axis));
}

/// One communicator of an axis that moves much.
void draw_link(GpuJob& job, const GpuTrace& trace, Dice& dice) {
  std::vector<Axis> axes{Axis::kData};
  if (job.tensor > 1) axes.push_back(Axis::kTensor);
  if (job.expert > 1 && job.expert < job.data) axes = {Axis::kExpert};  // of one alone nothing is like it
  job.axis = axes[static_cast<size_t>(dice.between(0, static_cast<int>(axes.size()) - 1))];
  std::vector<int> places;
  for (size_t c = 0; c < trace.communicators.size(); ++c)
    if (trace.communicators[c].axis == job.axis) places.push_back(static_cast<int>(c));
  job.place = places[static_cast<size_t>(dice.between(0, static_cast<int>(places.size()) - 1))];
  job.link = trace.communicators[static_cast<size_t>(job.place)].label;
  job.members = trace.communicators[static_cast<size_t>(job.place)].members;
  if (places.size() == 1) job.from_step = std::max<uint64_t>(job.from_step, kFewestBefore);
}

}  // namespace

const char* name_of(Axis axis) {
  static constexpr std::array kNames = {"tensor", "pipeline", "data", "expert", "all ranks"};
  return kNames[static_cast<size_t>(axis)];
}

bool GpuJob::is_recorded(int rank) const { return std::find(removed.begin(), removed.end(), rank) == removed.end(); }

std::vector<int> GpuJob::known_ranks(int node) const {
  std::vector<int> known;
  for (int rank = node * ranks_per_node; rank < (node + 1) * ranks_per_node; ++rank)
    if (is_recorded(rank)) known.push_back(rank);
  return known;
}

void lose_ranks(GpuJob& job, double share) {
  Dice dice = Dice(job.seed).of(kGpuLoss);
  const int lost = std::max(1, static_cast<int>(share * job.ranks()));
  while (static_cast<int>(job.removed.size()) < lost) {
    const int rank = dice.between(0, job.ranks() - 1);
    if (job.is_recorded(rank)) job.removed.push_back(rank);
  }
  if (job.fault == GpuFault::kNone) return;
  GpuJob without = job;
  without.fault = GpuFault::kNone;
  measure(job, outcome_of(without, run_gpu_job(without), job.fault == GpuFault::kSlowLink));
}

GpuJob draw_gpu_job(uint64_t seed, GpuFault fault, GpuMesh mesh) {
  constexpr int kMostTries = 40;
  constexpr double kMore = 1.3;
  GpuJob job = draw_healthy(seed, mesh);
  if (fault == GpuFault::kNone) return job;
  Dice dice = Dice(seed).of(kGpuFault);
  const double share = dice.log_uniform(0.06, 0.35);
  const GpuTrace healthy = run_gpu_job(job);
  const double step_ns = outcome_of(job, healthy, false).step_ns;
  if (dice.chance(0.35))
    job.from_step = static_cast<uint64_t>(dice.between(kFewestBefore, static_cast<int>(job.steps) - kFewestAfter));
  job.fault = fault;
  job.place = dice.between(0, (fault == GpuFault::kSlowNode ? job.ranks() / job.ranks_per_node : job.ranks()) - 1);
  job.size = share / (1 - share);
  if (fault == GpuFault::kSlowRanks) job.second = (job.place + dice.between(1, job.ranks() - 1)) % job.ranks();
  if (fault == GpuFault::kLateLoader) job.size *= step_ns;
  if (fault == GpuFault::kHostBound) {  // nothing is lost before the host takes longer than the GPU
    const size_t kernels = healthy.activities[0].size() / job.steps;
    job.size = (1 + job.size) * step_ns / static_cast<double>(kernels) / job.launch_ns;
  }
  if (fault == GpuFault::kSlowLink) draw_link(job, healthy, dice);
  const Outcome without = outcome_of(job, healthy, fault == GpuFault::kSlowLink);
  for (int i = 0; i < kMostTries; ++i) {
    measure(job, without);
    if (job.cost >= std::max(kLeastGpuCost, 0.5 * share)) return job;
    job.size *= kMore;
  }
  throw std::logic_error("job on GPUs: a fault that costs too little, seed " + std::to_string(seed));
}

}  // namespace ddl::test
