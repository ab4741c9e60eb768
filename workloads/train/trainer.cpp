#include "workloads/train/trainer.h"

#include <cmath>
#include <cstdlib>
#include <stdexcept>

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
      labels_(options.batch),
      is_tuned_(std::getenv("DDL_TUNE_FILE") != nullptr) {
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
  if (!reducer_.replacement() || has_changed_) return {};
  return reducer_.replacement()->sent();
}

/**
 * What can change at the begin of a step, on all ranks of the same one: how the background runtime cycles and fuses;
 * else who adds up, and in what buckets. The names are those of the options. */
void Trainer::take_tuned_values(uint64_t step) {
  constexpr double kMib = 1024.0 * 1024.0;
  ddl_tune(step);
  const auto number = [](const char* name, double now, double most) {
    const double value = ddl_tuned(name, now);
    if (!(value >= 0 && value <= most))
      throw std::runtime_error(std::string(name) + " is tuned to what --help does not allow");
    return value;
  };
  if (background_) {
    BackgroundRuntime::Settings& settings = options_.background;
    settings.cycle_ms = number("cycle_ms", settings.cycle_ms, 1e4);
    settings.fusion_bytes =
        static_cast<std::size_t>(number("fusion_mb", static_cast<double>(settings.fusion_bytes) / kMib, 4096) * kMib);
    background_->change(settings.cycle_ms, settings.fusion_bytes);
    marks::value("cycle_ms", settings.cycle_ms);
    marks::value("fusion_mb", static_cast<double>(settings.fusion_bytes) / kMib);
    return;
  }
  if (const double bucket_mib = number("bucket_mb", options_.bucket_mib, 4096); bucket_mib != options_.bucket_mib) {
    options_.bucket_mib = bucket_mib;
    reducer_.cut(assign_buckets(arena_.counts(), options_.bucket_bytes()));
  }
  marks::value("bucket_mb", options_.bucket_mib);
  if (options_.compress != "none") return;
  const std::string now = options_.allreduce.algorithm ? options_.allreduce.name() : "mpi";
  const std::string name = ddl_tuned_text("allreduce", now.c_str());
  if (name == now) return;
  options_.allreduce = name == "mpi" ? allreduce::Choice() : allreduce::parse_choice(name);
  options_.overlap = options_.may_overlap && !options_.allreduce.algorithm;
  reducer_.use(make_gradient_sum(options_, arena_.size()));
  has_changed_ = true;
}

StepResult Trainer::run_step(uint64_t step) {
  step_ = step;
  const std::optional<allreduce::Traffic> sent_before = sent();
  times_ = {.step = step, .begin_ns = monotonic_ns()};
  const int64_t cpu_before = thread_cpu_ns();
  marks::begin_step(step);
  if (is_tuned_) take_tuned_values(step);
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
  // For the mean gradient over this rank's samples, and over all ranks': how much samples differ, which bounds the
  // batch that is worth while. Each rank's gradients are divided by the samples of all ranks before they are added up.
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
  for (std::size_t i = 0; i < options_.batch; ++i)
    labels_[i] = data_.load(sampler_.sample_at(first + i), model_.input().sample(i));
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
    arena_.update(bucket.offset, bucket.count, static_cast<float>(options_.rate),
                  static_cast<float>(options_.update_momentum()));
  }
}

}  // namespace ddl::train
