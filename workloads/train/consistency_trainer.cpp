#include "workloads/train/consistency_trainer.h"

#include <algorithm>
#include <cmath>

#include "workloads/train/loss.h"
#include "workloads/train/marks.h"
#include "workloads/train/models.h"
#include "workloads/train/ops.h"

namespace ddl::train {

using marks::Phase;
using Kind = ConsistencyRule::Kind;

namespace {

std::size_t workers_of(const Options& options, const Mpi& mpi) {
  return static_cast<std::size_t>(mpi.size()) - (options.consistency.has_server() ? 1 : 0);
}

std::size_t worker_of(const Options& options, const Mpi& mpi) {
  const auto rank = static_cast<std::size_t>(mpi.rank());
  return options.consistency.has_server() ? std::max<std::size_t>(rank, 1) - 1 : rank;
}

}  // namespace

Replica::Replica(const Options& options, const Dataset& data, std::size_t worker, std::size_t workers)
    : options_(options),
      data_(data),
      worker_(worker),
      workers_(workers),
      sampler_(data.size(), options.seed),
      model_(build_model(options.model, options.batch, data.shape(), options.width)),
      arena_(model_),
      labels_(options.batch) {
  arena_.initialise(options.seed);
}

void Replica::load(uint64_t step) {
  const uint64_t first = (step * workers_ + worker_) * options_.batch;
  for (std::size_t i = 0; i < options_.batch; ++i)
    labels_[i] = data_.load(sampler_.sample_at(first + i), model_.input().sample(i));
}

Replica::Pass Replica::forward() {
  const double scale = 1.0 / static_cast<double>(options_.batch * workers_);
  const BatchLoss loss =
      softmax_cross_entropy(model_.forward(), labels_, static_cast<float>(scale), model_.output_gradient());
  return {loss.loss_sum, loss.correct};
}

ConsistencyTrainer::ConsistencyTrainer(const Options& options, const Dataset& data, Mpi& mpi)
    : options_(options),
      mpi_(mpi),
      workers_(workers_of(options, mpi)),
      faults_(options.faults, options.seed, mpi.rank()),
      replica_(options, data, worker_of(options, mpi), workers_),
      parameters_(replica_.arena().size()),
      other_(parameters_),
      done_(workers_),
      known_(workers_) {}

void ConsistencyTrainer::start() { mpi_.broadcast(replica_.arena().values()); }

std::optional<allreduce::Traffic> ConsistencyTrainer::sent() const {
  if (rule().kind == Kind::kLocal) return {};  // the MPI library knows
  return sent_;
}

std::optional<std::vector<uint64_t>> ConsistencyTrainer::staleness() const {
  if (!serves()) return {};
  return staleness_;
}

bool ConsistencyTrainer::exchanges_in(uint64_t step) const {
  const bool has_period = rule().kind == Kind::kElastic || rule().kind == Kind::kLocal;
  return !has_period || (step + 1) % rule().value == 0;
}

StepResult ConsistencyTrainer::run_step(uint64_t step) {
  times_ = {.step = step, .begin_ns = monotonic_ns()};
  const int64_t cpu_before = thread_cpu_ns();
  const uint64_t bytes_before = sent_.bytes;
  marks::begin_step(step);
  if (serves()) {
    results_.push_back({});
    serve(step);
    if (exchanges_in(step))
      marks::value("staleness", static_cast<double>(step_updates_missed_) / static_cast<double>(workers_));
  } else {
    train(step);
    marks::value("samples", static_cast<double>(options_.batch));
    marks::value("batch", static_cast<double>(options_.batch));
    marks::value("loss", results_.back().loss / static_cast<double>(options_.batch));
  }
  if (sent()) marks::value("wire_bytes", static_cast<double>(sent_.bytes - bytes_before));
  marks::end_step();
  times_.end_ns = monotonic_ns();
  times_.compute_ns = times_.end_ns - times_.begin_ns - times_.input_ns - times_.blocked_ns;
  times_.cpu_ns = thread_cpu_ns() - cpu_before;
  return results_.back();
}

void ConsistencyTrainer::train(uint64_t step) {
  {
    const Phase phase("input");
    replica_.load(step);
    times_.input_ns = monotonic_ns() - times_.begin_ns;
  }
  {
    const Phase phase("forward");
    times_.slept_ns += faults_.stretch_forward(step);
    const Replica::Pass pass = replica_.forward();
    results_.push_back({pass.loss_sum, static_cast<double>(pass.correct)});
  }
  {
    const Phase phase("backward");
    replica_.backward();
  }
  const bool updates_itself =
      rule().kind == Kind::kGossip || rule().kind == Kind::kElastic || rule().kind == Kind::kLocal;
  if (updates_itself) {
    const Phase phase("update");
    // Alone it takes the mean over its own samples; gradients are divided by those of all workers.
    for (float& gradient : replica_.gradients()) gradient *= static_cast<float>(workers_);
    update();
  }
  times_.slept_ns += faults_.before_first_reduction(step);
  if (!exchanges_in(step)) return;
  times_.handed_over_ns = monotonic_ns();
  exchange();
}

void ConsistencyTrainer::update() {
  replica_.arena().update(0, parameters_, static_cast<float>(options_.rate), static_cast<float>(options_.momentum));
}

void ConsistencyTrainer::send(std::span<const float> values, int to) {
  mpi_.send(values, to);
  sent_.messages += 1;
  sent_.bytes += values.size_bytes();
}

void ConsistencyTrainer::exchange() {
  const Phase phase("exchange");
  const std::span<float> own = replica_.arena().values();
  const int64_t entered_ns = monotonic_ns();
  switch (rule().kind) {
    case Kind::kSynchronous:
      break;
    case Kind::kBounded:
    case Kind::kAsynchronous:
      send(replica_.gradients(), 0);
      mpi_.receive(own, 0);
      break;
    case Kind::kElastic: {
      send(own, 0);
      mpi_.receive(other_, 0);
      const float rate = kElasticRate / static_cast<float>(workers_);
      for (std::size_t i = 0; i < parameters_; ++i) own[i] -= rate * (own[i] - other_[i]);
      break;
    }
    case Kind::kGossip: {
      const int ranks = mpi_.size(), next = (mpi_.rank() + 1) % ranks, before = (mpi_.rank() + ranks - 1) % ranks;
      if (ranks == 1) break;
      const std::vector<float> sent(own.begin(), own.end());
      const float share = ranks == 2 ? 0.5F : 1.0F / 3;
      for (float& value : own) value *= share;
      for (const auto& [to, from] : {std::pair(next, before), std::pair(before, next)}) {
        mpi_.exchange(sent, to, other_, from);
        sent_.messages += 1;
        sent_.bytes += own.size_bytes();
        for (std::size_t i = 0; i < parameters_; ++i) own[i] += share * other_[i];
        if (ranks == 2) break;
      }
      break;
    }
    case Kind::kLocal:
      mpi_.sum(own);
      for (float& value : own) value /= static_cast<float>(workers_);
      break;
  }
  times_.blocked_ns += monotonic_ns() - entered_ns;
}

void ConsistencyTrainer::serve(uint64_t step) {
  step_updates_missed_ = 0;
  if (!exchanges_in(step)) return;
  const Phase phase("serve");
  for (std::size_t i = 0; i < workers_; ++i) {
    const int from = rule().order.empty() ? -1 : static_cast<int>(rule().order[next_++ % rule().order.size()]) + 1;
    const std::span<float> values = rule().kind == Kind::kElastic ? std::span<float>(other_) : replica_.gradients();
    const int64_t entered_ns = monotonic_ns();
    const int source = mpi_.receive(values, from);
    times_.blocked_ns += monotonic_ns() - entered_ns;
    take(static_cast<std::size_t>(source) - 1);
  }
}

void ConsistencyTrainer::take(std::size_t worker) {
  const uint64_t missed = updates_ - known_[worker];
  if (staleness_.size() <= missed) staleness_.resize(missed + 1);
  ++staleness_[missed];
  step_updates_missed_ += missed;
  ++done_[worker];
  held_.push_back(worker);
  if (rule().kind == Kind::kElastic) {
    const std::span<float> centre = replica_.arena().values();
    send(centre, static_cast<int>(worker) + 1);  // as it was: both move by the distance that they had
    held_.clear();
    const float rate = kElasticRate / static_cast<float>(workers_);
    for (std::size_t i = 0; i < parameters_; ++i) centre[i] += rate * (other_[i] - centre[i]);
    known_[worker] = ++updates_;
    return;
  }
  update();
  ++updates_;
  answer_those_within_bound();
}

void ConsistencyTrainer::answer_those_within_bound() {
  const uint64_t slowest = *std::min_element(done_.begin(), done_.end());
  std::erase_if(held_, [&](std::size_t worker) {
    const bool goes_on =
        rule().kind != Kind::kBounded || done_[worker] - slowest <= rule().value || done_[worker] == options_.steps;
    if (!goes_on) return false;
    send(replica_.arena().values(), static_cast<int>(worker) + 1);
    known_[worker] = updates_;
    return true;
  });
}

void ConsistencyTrainer::finish() {
  std::vector<double> sums;
  for (const StepResult& result : results_) sums.push_back(result.loss), sums.push_back(result.accuracy);
  mpi_.sum_to_root(sums);
  for (std::size_t step = 0; step < results_.size(); ++step) {
    results_[step].loss = sums[2 * step] / static_cast<double>(global_batch());
    results_[step].accuracy = sums[2 * step + 1] / static_cast<double>(global_batch());
  }
}

}  // namespace ddl::train
