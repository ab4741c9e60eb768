#include "workloads/network/split_job.h"

#include <algorithm>
#include <climits>
#include <cmath>
#include <stdexcept>

#include "ddl/annotate.h"
#include "workloads/allreduce/exchange.h"
#include "workloads/train/error.h"

namespace ddl::network {

namespace {

using Form = LayerSplit::Form;
constexpr int kBackwardPasses = 2;  ///< the gradient of the weights and that of the input: each as much as forward

std::size_t part_of(uint64_t elements, int part, int parts) {
  return allreduce::Range{0, elements}.part(static_cast<std::size_t>(part), static_cast<std::size_t>(parts)).size();
}

/** A range of the profile, of the kind that a pair of functions begins and ends, for the length of a scope. */
class SplitPhase {
 public:
  explicit SplitPhase(const char* name) { ddl_phase_begin(name); }
  ~SplitPhase() { ddl_phase_end(); }
  SplitPhase(const SplitPhase&) = delete;
  SplitPhase& operator=(const SplitPhase&) = delete;
};

}  // namespace

SplitJob::SplitJob(const Options& options, const LayerTable& table)
    : options_(options), table_(table), plan_(plan_split(table, options.split)) {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const auto parts = static_cast<int>(options.split.ranks);
  MPI_Comm_split(MPI_COMM_WORLD, rank / parts, rank, &group_);
  MPI_Comm_split(MPI_COMM_WORLD, rank % parts, rank, &peers_);
  part_ = rank % parts;
  parts_ = parts;
  uint64_t largest = 0;
  for (const LayerSplit& layer : plan_) largest = std::max({largest, of_batch(layer.input), of_batch(layer.output)});
  if (largest > INT_MAX) {
    throw train::UsageError("--batch: " + std::to_string(largest) + " values of a layer in one call; MPI takes " +
                            std::to_string(INT_MAX));
  }
  out_.resize(largest);
  in_.resize(largest);
  std::vector<std::size_t> all, own;  // in backward order
  place_.resize(plan_.size());
  for (std::size_t i = plan_.size(); i-- > 0;) {
    std::vector<std::size_t>& counts = plan_[i].form == Form::kSpatial ? all : own;
    place_[i] = counts.size();
    const uint64_t parameters = table.layers[i].parameters;
    counts.push_back(plan_[i].splits_parameters() ? part_of(parameters, part_, parts_) : parameters);
    if (&counts == &all) cost_.gradients += sizeof(float) * counts.back();
  }
  const Gradients::Reduction reduction{options.bucket_bytes(), options.overlap, options.allreduce};
  if (!all.empty()) of_all_ = std::make_unique<Gradients>(MPI_COMM_WORLD, all, reduction);
  int peers = 1;
  MPI_Comm_size(peers_, &peers);
  if (peers == 1 || own.empty()) return;  // nobody has the same parameters
  of_peers_ = std::make_unique<Gradients>(peers_, own, reduction);
  for (const std::size_t count : own) cost_.gradients += sizeof(float) * count;
}

SplitJob::~SplitJob() {
  of_peers_.reset();
  of_all_.reset();
  MPI_Comm_free(&peers_);
  MPI_Comm_free(&group_);
}

void SplitJob::run_step(uint64_t step) {
  ddl_step_begin(step);
  step_cost_ = {0, 0, cost_.gradients};
  {
    const SplitPhase phase("forward");
    counted_ = &step_cost_.forward;
    for (std::size_t layer = 0; layer < plan_.size(); ++layer) forward(layer);
  }
  {
    const SplitPhase phase("backward");
    counted_ = &step_cost_.backward;
    for (std::size_t layer = plan_.size(); layer-- > 0;) backward(layer);
  }
  cost_ = step_cost_;
  for (Gradients* gradients : {of_all_.get(), of_peers_.get()}) {
    if (!gradients || !gradients->sums_after_backward()) continue;
    const SplitPhase phase("reduce");
    gradients->sum_rest();
  }
  {
    const SplitPhase phase("update");
    if (of_all_) of_all_->update(1);
    if (of_peers_) of_peers_->update(1);
  }
  // All ranks of a replica work on the same samples: each reports its share.
  const double samples = static_cast<double>(options_.batch) / static_cast<double>(parts_);
  ddl_value("samples", samples);
  ddl_value("batch", samples);
  ddl_step_end();
}

void SplitJob::forward(std::size_t layer) {
  const LayerSplit& split = plan_[layer];
  ddl_layer_begin(table_.layers[layer].name.c_str());
  if (before(layer) != split.in && split.in == Layout::kWhole) gather(elements_before(layer));
  if (split.form == Form::kSpatial) exchange_halos(layer);
  if (split.form == Form::kFilter) gather(split.input);
  compute(layer, 1);
  if (split.form == Form::kChannel) reduce_scatter(split.output);
  if (split.form == Form::kRow) sum(split.output);
  ddl_layer_end();
}

void SplitJob::backward(std::size_t layer) {
  const LayerSplit& split = plan_[layer];
  ddl_layer_begin(table_.layers[layer].name.c_str());
  if (split.form == Form::kChannel) gather(split.output);
  compute(layer, kBackwardPasses);
  if (split.form == Form::kFilter) reduce_scatter(split.input);
  if (split.form == Form::kColumn) sum(split.input);
  if (split.form == Form::kSpatial) exchange_halos(layer);
  if (before(layer) != split.in && before(layer) == Layout::kWhole) gather(elements_before(layer));
  ddl_layer_end();
  Gradients* gradients = split.form == Form::kSpatial ? of_all_.get() : of_peers_.get();
  if (gradients) gradients->add(place_[layer], true, true);
}

void SplitJob::compute(std::size_t layer, int times) {
  const double share = plan_[layer].form == Form::kReplicated ? 1 : 1.0 / static_cast<double>(parts_);
  const double macs =
      static_cast<double>(table_.layers[layer].macs) * static_cast<double>(options_.batch) * options_.scale * share;
  for (int n = 0; n < times; ++n) compute_.multiply_add(static_cast<uint64_t>(std::llround(macs)));
}

void SplitJob::exchange_halos(std::size_t layer) {
  const uint64_t halo = of_batch(plan_[layer].halo);
  if (halo == 0) return;
  // Down, then up; at both ends there is nobody.
  for (const int direction : {1, -1}) {
    const auto neighbour = [&](int part) { return part < 0 || part >= parts_ ? MPI_PROC_NULL : part; };
    const int to = neighbour(part_ + direction), from = neighbour(part_ - direction);
    std::fill_n(out_.data(), halo, static_cast<float>(part_));
    MPI_Sendrecv(out_.data(), static_cast<int>(halo), MPI_FLOAT, to, 0, in_.data(), static_cast<int>(halo), MPI_FLOAT,
                 from, 0, group_, MPI_STATUS_IGNORE);
    if (to != MPI_PROC_NULL) *counted_ += sizeof(float) * halo;
    check(from == MPI_PROC_NULL || (in_[0] == static_cast<float>(from) && in_[halo - 1] == static_cast<float>(from)),
          "a halo");
  }
}

void SplitJob::learn_parts(uint64_t elements) {
  counts_.clear();
  offsets_.assign(1, 0);
  for (int part = 0; part < parts_; ++part) {
    counts_.push_back(static_cast<int>(part_of(of_batch(elements), part, parts_)));
    offsets_.push_back(offsets_.back() + counts_.back());
  }
  *counted_ += sizeof(float) * of_batch(elements);
}

void SplitJob::gather(uint64_t elements) {
  learn_parts(elements);
  const auto own = static_cast<std::size_t>(part_);
  std::fill_n(out_.data(), counts_[own], static_cast<float>(part_));
  MPI_Allgatherv(out_.data(), counts_[own], MPI_FLOAT, in_.data(), counts_.data(), offsets_.data(), MPI_FLOAT, group_);
  bool good = true;
  for (int part = 0; part < parts_; ++part) {
    const auto first = static_cast<std::size_t>(offsets_[static_cast<std::size_t>(part)]);
    good = good && (counts_[static_cast<std::size_t>(part)] == 0 || in_[first] == static_cast<float>(part));
  }
  check(good, "what was gathered");
}

void SplitJob::reduce_scatter(uint64_t elements) {
  learn_parts(elements);
  std::fill_n(out_.data(), of_batch(elements), 1.0F);
  MPI_Reduce_scatter(out_.data(), in_.data(), counts_.data(), MPI_FLOAT, MPI_SUM, group_);
  const auto own = static_cast<std::size_t>(counts_[static_cast<std::size_t>(part_)]);
  check(own == 0 || (in_[0] == static_cast<float>(parts_) && in_[own - 1] == static_cast<float>(parts_)), "a sum");
}

void SplitJob::sum(uint64_t elements) {
  const uint64_t count = of_batch(elements);
  std::fill_n(out_.data(), count, 1.0F);
  MPI_Allreduce(MPI_IN_PLACE, out_.data(), static_cast<int>(count), MPI_FLOAT, MPI_SUM, group_);
  *counted_ += sizeof(float) * count;
  check(count == 0 || (out_[0] == static_cast<float>(parts_) && out_[count - 1] == static_cast<float>(parts_)),
        "a sum");
}

void SplitJob::check(bool good, const char* what) const {
  if (!good) throw std::runtime_error(std::string(what) + " of the replica is another one");
}

}  // namespace ddl::network
