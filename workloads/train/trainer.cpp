#include "workloads/train/trainer.h"

#include <cmath>

#include "ddl/annotate.h"
#include "workloads/train/loss.h"
#include "workloads/train/models.h"
#include "workloads/train/ops.h"

namespace ddl::train {

namespace {

/** A phase range of the profile for the length of a scope. */
class Phase {
 public:
  explicit Phase(const char* name) { ddl_phase_begin(name); }
  ~Phase() { ddl_phase_end(); }
  Phase(const Phase&) = delete;
  Phase& operator=(const Phase&) = delete;
};

}  // namespace

Trainer::Trainer(const Options& options, const Dataset& data, Mpi& mpi)
    : options_(options),
      data_(data),
      mpi_(mpi),
      sampler_(data.size(), options.seed),
      faults_(options.faults, options.seed, mpi.rank()),
      model_(build_model(options.model, options.batch, data.shape(), options.width)),
      arena_(model_),
      reducer_(mpi, arena_, assign_buckets(arena_.counts(), options.bucket_bytes()), [this] { faults_.before_first_reduction(step_); }),
      labels_(options.batch) {
  arena_.initialise(options.seed);
}

void Trainer::start() {
  mpi_.broadcast(arena_.values());
  reducer_.use(make_gradient_sum(options_, arena_.size()));
}

std::optional<allreduce::Traffic> Trainer::sent() const {
  if (!reducer_.replacement()) return {};
  return reducer_.replacement()->sent();
}

StepResult Trainer::run_step(uint64_t step) {
  step_ = step;
  const std::optional<allreduce::Traffic> sent_before = sent();
  ddl_step_begin(step);
  load_batch(step);
  forward(step);
  backward();
  update();
  const StepResult result{static_cast<double>(arena_.extra()[0]),
                          static_cast<double>(arena_.extra()[1]) / static_cast<double>(global_batch())};
  ddl_value("samples", static_cast<double>(options_.batch));
  ddl_value("batch", static_cast<double>(options_.batch));
  ddl_value("loss", result.loss);
  // Of the mean gradient over this rank's samples, and over all ranks': how much samples differ, which bounds the batch that is worth
  // while. Each rank's gradients are divided by the samples of all ranks before they are added up.
  ddl_value("local_gradient_norm", std::sqrt(reducer_.own_squares()) * static_cast<double>(mpi_.size()));
  ddl_value("gradient_norm", std::sqrt(squares_));
  if (sent_before) ddl_value("wire_bytes", static_cast<double>(sent()->bytes - sent_before->bytes));
  ddl_step_end();
  return result;
}

void Trainer::load_batch(uint64_t step) {
  const Phase phase("input");
  const uint64_t first = step * global_batch() + static_cast<uint64_t>(mpi_.rank()) * options_.batch;
  for (std::size_t i = 0; i < options_.batch; ++i) labels_[i] = data_.load(sampler_.sample_at(first + i), model_.input().sample(i));
}

void Trainer::forward(uint64_t step) {
  const Phase phase("forward");
  faults_.stretch_forward(step);
  const Tensor& logits = model_.forward();
  const double scale = 1.0 / static_cast<double>(global_batch());
  const BatchLoss loss = softmax_cross_entropy(logits, labels_, static_cast<float>(scale), model_.output_gradient());
  arena_.extra()[0] = static_cast<float>(loss.loss_sum * scale);
  arena_.extra()[1] = static_cast<float>(loss.correct);
}

void Trainer::backward() {
  reducer_.reset(step_);
  if (options_.overlap) {
    const Phase phase("backward");
    model_.backward([this](std::size_t finished_parameters) { reducer_.post_ready(finished_parameters); });
    return;
  }
  {
    const Phase phase("backward");
    model_.backward();
  }
  const Phase phase("reduce");
  reducer_.reduce_all();
}

void Trainer::update() {
  const Phase phase("update");
  squares_ = 0;
  for (std::size_t i = 0; i < reducer_.buckets().size(); ++i) {
    if (options_.overlap) reducer_.wait(i);
    const Bucket& bucket = reducer_.buckets()[i];
    squares_ += square_sum(arena_.gradients().subspan(bucket.offset, bucket.count));
    arena_.update(bucket.offset, bucket.count, static_cast<float>(options_.rate), static_cast<float>(options_.momentum));
  }
}

}  // namespace ddl::train
