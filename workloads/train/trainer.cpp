#include "workloads/train/trainer.h"

#include <cmath>

#include "workloads/train/loss.h"
#include "workloads/train/marks.h"
#include "workloads/train/models.h"
#include "workloads/train/ops.h"

namespace ddl::train {

using marks::Phase;

Trainer::Trainer(const Options& options, const Dataset& data, Mpi& mpi, BackgroundRuntime* background)
    : options_(options),
      data_(data),
      mpi_(mpi),
      background_(background),
      sampler_(data.size(), options.seed),
      faults_(options.faults, options.seed, mpi.rank()),
      model_(build_model(options.model, options.batch, data.shape(), options.width)),
      arena_(model_),
      reducer_(mpi, background, arena_, assign_buckets(arena_.counts(), options.bucket_bytes()),
               [this] { times_.slept_ns += faults_.before_first_reduction(step_); }),
      labels_(options.batch) {
  arena_.initialise(options.seed);
}

void Trainer::start() {
  if (background_) {
    background_->call([this] { mpi_.broadcast(arena_.values()); });
    background_->start_cycles(options_.background, reducer_.tensors());
    return;
  }
  mpi_.broadcast(arena_.values());
  reducer_.use(make_gradient_sum(options_, arena_.size()));
}

void Trainer::finish() {
  if (background_) background_->stop_cycles();
}

std::optional<allreduce::Traffic> Trainer::sent() const {
  if (!reducer_.replacement()) return {};
  return reducer_.replacement()->sent();
}

StepResult Trainer::run_step(uint64_t step) {
  step_ = step;
  const std::optional<allreduce::Traffic> sent_before = sent();
  times_ = {.step = step, .begin_ns = monotonic_ns()};
  const int64_t cpu_before = thread_cpu_ns();
  marks::begin_step(step);
  load_batch(step);
  const int64_t loaded_ns = monotonic_ns();
  forward(step);
  backward();
  update();
  const int64_t updated_ns = monotonic_ns();
  const StepResult result{static_cast<double>(arena_.extra()[0]),
                          static_cast<double>(arena_.extra()[1]) / static_cast<double>(global_batch())};
  marks::value("samples", static_cast<double>(options_.batch));
  marks::value("batch", static_cast<double>(options_.batch));
  marks::value("loss", result.loss);
  // For the mean gradient over this rank's samples, and over all ranks': how much samples differ, which bounds the batch that is worth
  // while. Each rank's gradients are divided by the samples of all ranks before they are added up.
  marks::value("local_gradient_norm", std::sqrt(reducer_.own_squares()) * static_cast<double>(mpi_.size()));
  marks::value("gradient_norm", std::sqrt(squares_));
  if (sent_before) marks::value("wire_bytes", static_cast<double>(sent()->bytes - sent_before->bytes));
  marks::end_step();
  times_.input_ns = loaded_ns - times_.begin_ns;
  times_.blocked_ns = reducer_.blocked_ns();
  times_.compute_ns = updated_ns - loaded_ns - times_.blocked_ns;
  times_.hidden_ns = reducer_.hidden_ns();
  times_.handed_over_ns = reducer_.handed_over_ns();
  times_.cpu_ns = thread_cpu_ns() - cpu_before;
  times_.end_ns = monotonic_ns();
  return result;
}

void Trainer::load_batch(uint64_t step) {
  const Phase phase("input");
  const uint64_t first = step * global_batch() + static_cast<uint64_t>(mpi_.rank()) * options_.batch;
  for (std::size_t i = 0; i < options_.batch; ++i) labels_[i] = data_.load(sampler_.sample_at(first + i), model_.input().sample(i));
}

void Trainer::forward(uint64_t step) {
  const Phase phase("forward");
  times_.slept_ns += faults_.stretch_forward(step);
  const Tensor& logits = model_.forward();
  const double scale = 1.0 / static_cast<double>(global_batch());
  const BatchLoss loss = softmax_cross_entropy(logits, labels_, static_cast<float>(scale), model_.output_gradient());
  arena_.extra()[0] = static_cast<float>(loss.loss_sum * scale);
  arena_.extra()[1] = static_cast<float>(loss.correct);
}

void Trainer::backward() {
  reducer_.reset(step_);
  {
    const Phase phase("backward");
    const auto post = [this](std::size_t finished_parameters) { reducer_.post_ready(finished_parameters); };
    model_.backward(options_.overlap ? post : Model::OnGradientsReady());
  }
  if (background_) {
    const Phase phase("synchronize");
    reducer_.reduce_all();
    reducer_.synchronize();
  } else if (!options_.overlap) {
    const Phase phase("reduce");
    reducer_.reduce_all();
  }
}

void Trainer::update() {
  const Phase phase("update");
  squares_ = 0;
  for (std::size_t i = 0; i < reducer_.buckets().size(); ++i) {
    if (options_.overlap && !background_) reducer_.wait(i);
    const Bucket& bucket = reducer_.buckets()[i];
    squares_ += square_sum(arena_.gradients().subspan(bucket.offset, bucket.count));
    arena_.update(bucket.offset, bucket.count, static_cast<float>(options_.rate), static_cast<float>(options_.update_momentum()));
  }
}

}  // namespace ddl::train
