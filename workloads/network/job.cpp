#include "workloads/network/job.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <climits>
#include <cmath>
#include <stdexcept>
#include <thread>

#include "ddl/annotate.h"
#include "workloads/train/error.h"

namespace ddl::network {

namespace {

constexpr int kBackwardFactor = 2;  ///< the gradient of the weights and that of the input: each as much as forward

/** A phase range of the profile for the length of a scope. */
class Phase {
 public:
  explicit Phase(const char* name) { ddl_phase_begin(name); }
  ~Phase() { ddl_phase_end(); }
  Phase(const Phase&) = delete;
  Phase& operator=(const Phase&) = delete;
};

std::vector<uint64_t> costs(const LayerTable& table) {
  std::vector<uint64_t> costs;
  for (const Layer& layer : table.layers) costs.push_back(layer.macs);
  return costs;
}

}  // namespace

Job::Job(const Options& options, const LayerTable& table)
    : options_(options), table_(table), stages_(split_stages(costs(table), options.stages)) {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const auto stages = static_cast<int>(options.stages);
  MPI_Comm_split(MPI_COMM_WORLD, rank / stages, rank, &pipeline_);
  MPI_Comm_split(MPI_COMM_WORLD, rank % stages, rank, &replicas_);
  MPI_Comm_rank(pipeline_, &rank);
  stage_ = static_cast<std::size_t>(rank);
  layers_ = stages_[stage_];
  passes_ = passes(options.schedule, stage_, options.stages, options.micro_batches);

  std::vector<std::size_t> counts;  // in backward order
  for (std::size_t i = layers_.end; i-- > layers_.begin;) {
    counts.push_back(table.layers[i].parameters);
    cost_.parameters += table.layers[i].parameters;
    if (options.fixed_ms == 0) cost_.flops += 2 * macs_of(i) * (1 + kBackwardFactor) * options.micro_batches;
  }
  check_memory(cost_.parameters * sizeof(float));
  if (stage_ > 0) before_ = make_link(rank - 1, stages_[stage_ - 1].end - 1);
  if (stage_ + 1 < options.stages) behind_ = make_link(rank + 1, layers_.end - 1);
  for (const std::optional<Link>* link : {&before_, &behind_}) {
    if (*link) cost_.sent_bytes += (*link)->out.size() * sizeof(float) * options.micro_batches;
  }
  gradients_ = std::make_unique<Gradients>(
      replicas_, counts, Gradients::Reduction{options.bucket_bytes(), options.overlap, options.allreduce});
  cost_.buckets = gradients_->buckets();
}

Job::~Job() {
  gradients_.reset();
  MPI_Comm_free(&replicas_);
  MPI_Comm_free(&pipeline_);
}

/** For all ranks of the node: without, the kernel would end one of them when the gradients are written, with no
 * word about why. */
void Job::check_memory(uint64_t bytes) const {
  MPI_Comm node = MPI_COMM_NULL;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
  uint64_t sum = 0;
  MPI_Allreduce(&bytes, &sum, 1, MPI_UINT64_T, MPI_SUM, node);
  MPI_Comm_free(&node);
  const uint64_t memory = static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  const int fits = sum < memory;
  int all_fit = fits;
  MPI_Allreduce(&fits, &all_fit, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);  // all ranks leave together
  if (all_fit) return;
  if (fits) throw train::Error(table_.name + ": gradients do not fit into the memory of another node");
  throw train::Error(table_.name + ": gradients of the ranks on this node take " + std::to_string(sum >> 20) +
                     " MiB, it has " + std::to_string(memory >> 20) + " MiB");
}

std::optional<Job::Link> Job::make_link(int rank, std::size_t last_layer) const {
  const uint64_t count = table_.layers[last_layer].activations * options_.samples_per_pass();
  if (count > INT_MAX) {
    throw train::UsageError("--micro-batches: " + std::to_string(count) + " activations in a message; MPI takes " +
                            std::to_string(INT_MAX));
  }
  return Link{rank, train::Buffer(count), train::Buffer(count)};
}

uint64_t Job::macs_of(std::size_t layer) const {
  const double samples = static_cast<double>(options_.samples_per_pass());
  return static_cast<uint64_t>(std::llround(static_cast<double>(table_.layers[layer].macs) * samples * options_.scale));
}

void Job::run_step(uint64_t step) {
  ddl_step_begin(step);
  for (const Pass& pass : passes_) run(pass);
  if (gradients_->sums_after_backward()) {
    const Phase phase("reduce");
    finish_sends();
    gradients_->sum_rest();
  }
  {
    const Phase phase("update");
    finish_sends();
    gradients_->update(options_.micro_batches);
  }
  // All ranks of a pipeline work on the same samples: each reports its share, so that the sum is what the job trains
  // on.
  const double samples = static_cast<double>(options_.batch) / static_cast<double>(options_.stages);
  ddl_value("samples", samples);
  ddl_value("batch", samples);
  ddl_value("model_flops", static_cast<double>(cost_.flops));
  ddl_step_end();
}

void Job::run(const Pass& pass) {
  const Phase phase(pass.backward ? "backward" : "forward");
  std::optional<Link>& from = pass.backward ? behind_ : before_;
  std::optional<Link>& to = pass.backward ? before_ : behind_;
  if (from) receive(*from, pass.micro_batch);
  // Messages too long to be buffered move while a rank is in MPI. What was sent before goes out while this pass waits
  // for its own message, and must be gone before it computes, or the next stage would wait as long.
  finish_sends();
  compute(pass);
  if (to) send(*to, pass.micro_batch);
}

/** With fixed times each layer ends when it should, however late the one before was: sleeping too long does not add
 * up. */
void Job::compute(const Pass& pass) {
  using Milliseconds = std::chrono::duration<double, std::milli>;
  const auto start = std::chrono::steady_clock::now();
  const std::size_t count = layers_.end - layers_.begin;
  const double pass_ms = options_.fixed_ms * (pass.backward ? kBackwardFactor : 1);
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t layer = pass.backward ? layers_.end - 1 - i : layers_.begin + i;
    ddl_layer_begin(table_.layers[layer].name.c_str());
    if (options_.fixed_ms > 0) {
      const Milliseconds end(pass_ms * static_cast<double>(i + 1) / static_cast<double>(count));
      std::this_thread::sleep_until(start + std::chrono::duration_cast<std::chrono::nanoseconds>(end));
    } else {
      for (int n = 0; n < (pass.backward ? kBackwardFactor : 1); ++n) compute_.multiply_add(macs_of(layer));
    }
    ddl_layer_end();
    if (pass.backward) gradients_->add(i, pass.micro_batch == 0, pass.micro_batch + 1 == options_.micro_batches);
  }
}

void Job::receive(Link& link, std::size_t micro_batch) {
  MPI_Recv(link.in.data(), static_cast<int>(link.in.size()), MPI_FLOAT, link.rank, 0, pipeline_, MPI_STATUS_IGNORE);
  const auto wanted = static_cast<float>(micro_batch);
  if (std::all_of(link.in.begin(), link.in.end(), [wanted](float value) { return value == wanted; })) return;
  throw std::runtime_error("micro-batch " + std::to_string(micro_batch) + " from stage " + std::to_string(link.rank) +
                           " is another one");
}

void Job::send(Link& link, std::size_t micro_batch) {
  std::fill(link.out.begin(), link.out.end(), static_cast<float>(micro_batch));
  MPI_Isend(link.out.data(), static_cast<int>(link.out.size()), MPI_FLOAT, link.rank, 0, pipeline_, &link.sending);
}

void Job::finish_sends() {
  for (std::optional<Link>* link : {&before_, &behind_}) {
    if (*link) MPI_Wait(&(*link)->sending, MPI_STATUS_IGNORE);
  }
}

}  // namespace ddl::network
