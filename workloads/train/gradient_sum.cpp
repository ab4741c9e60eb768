#include "workloads/train/gradient_sum.h"

#include <charconv>
#include <cmath>
#include <utility>

#include "workloads/train/compress/codecs.h"
#include "workloads/train/compress/compressed_sum.h"
#include "workloads/train/compress/sparse_stream.h"
#include "workloads/train/error.h"
#include "workloads/train/tensor.h"

namespace ddl::train {

namespace {

using allreduce::Topology;
using allreduce::Traffic;

void sum(allreduce::Allreduce& allreduce, float* values, std::size_t count) {
  allreduce(MPI_IN_PLACE, values, static_cast<int>(count), MPI_FLOAT, MPI_SUM);
}

class ByAlgorithm : public GradientSum {
 public:
  explicit ByAlgorithm(const allreduce::Choice& choice)
      : allreduce_(MPI_COMM_WORLD, choice, Topology::discover(MPI_COMM_WORLD)) {}

  void add_up(const Bucket& bucket) override {
    // the extra ones lie behind
    sum(allreduce_, bucket.gradients.data(), bucket.gradients.size() + bucket.extra.size());
  }
  Traffic sent() const override { return allreduce_.traffic(); }

 private:
  allreduce::Allreduce allreduce_;
};

/** With error feedback: what codes lose is added to the gradients of the next step. */
class Compressed : public GradientSum {
 public:
  Compressed(const Options& options, std::size_t gradients)
      : seed_(options.seed),
        sum_(MPI_COMM_WORLD, make_codec(options.compress)),
        exact_(MPI_COMM_WORLD, allreduce::parse_choice("butterfly"), Topology::discover(MPI_COMM_WORLD)),
        residuals_(gradients) {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
  }

  void add_up(const Bucket& bucket) override {
    const std::span<float> residuals = std::span(residuals_).subspan(bucket.offset, bucket.gradients.size());
    for (std::size_t i = 0; i < residuals.size(); ++i) bucket.gradients[i] += residuals[i];
    Random random(seed_, Draw::kRounding, bucket.step, static_cast<uint64_t>(rank_) << 32 | bucket.number);
    sum_(bucket.gradients, residuals, random);
    if (!bucket.extra.empty()) sum(exact_, bucket.extra.data(), bucket.extra.size());
  }
  Traffic sent() const override {
    return {sum_.traffic().messages + exact_.traffic().messages, sum_.traffic().bytes + exact_.traffic().bytes};
  }

 private:
  uint64_t seed_;
  int rank_ = 0;
  CompressedSum sum_;
  allreduce::Allreduce exact_;
  Buffer residuals_;
};

/** Top-k streams, added up by SparCML's sparse allreduce, with error feedback. */
class SparseStreams : public GradientSum {
 public:
  SparseStreams(const Options& options, std::size_t gradients)
      : share_(share_that_is_sent(options.compress)),
        sum_(MPI_COMM_WORLD),
        exact_(MPI_COMM_WORLD, allreduce::parse_choice("butterfly"), Topology::discover(MPI_COMM_WORLD)),
        residuals_(gradients) {}

  void add_up(const Bucket& bucket) override {
    const std::span<float> residuals = std::span(residuals_).subspan(bucket.offset, bucket.gradients.size());
    for (std::size_t i = 0; i < residuals.size(); ++i) residuals[i] += bucket.gradients[i];
    const auto entries = static_cast<std::size_t>(std::ceil(share_ * static_cast<double>(residuals.size())));
    const std::vector<uint32_t> indices = largest_magnitudes(residuals, entries);
    std::vector<float> values;
    for (const uint32_t index : indices) values.push_back(std::exchange(residuals[index], 0.0F));
    sum_(indices, values, bucket.gradients);
    if (!bucket.extra.empty()) sum(exact_, bucket.extra.data(), bucket.extra.size());
  }
  Traffic sent() const override {
    return {sum_.traffic().messages + exact_.traffic().messages, sum_.traffic().bytes + exact_.traffic().bytes};
  }

 private:
  double share_;
  SparseStreamSum sum_;
  allreduce::Allreduce exact_;
  Buffer residuals_;
};

/**
 * Deep gradient compression (Lin et al., ICLR 2018): top-k of what was accumulated with momentum correction - u = m u +
 * g, v = v + u, the largest of v are sent, and u and v start over where they were (momentum factor masking). With a
 * warm-up of W steps the share that is sent is 1/4, 1/16, 1/64 and 1/256 for a quarter of it each, but never less than
 * in the end. Clipping of gradients is left out. */
class DeepCompression : public GradientSum {
 public:
  DeepCompression(const Options& options, std::size_t gradients)
      : setting_(parse_dgc(options.compress)),
        momentum_(static_cast<float>(options.momentum)),
        exact_(MPI_COMM_WORLD, allreduce::parse_choice("butterfly"), Topology::discover(MPI_COMM_WORLD)),
        momenta_(gradients),
        sums_(gradients),
        left_(gradients) {
    for (int stage = 0; stage <= DgcSetting::kStages; ++stage)
      by_stage_.push_back(
          std::make_unique<CompressedSum>(MPI_COMM_WORLD, std::make_unique<TopK>(setting_.share(stage))));
  }

  void add_up(const Bucket& bucket) override {
    const std::size_t count = bucket.gradients.size();
    float* const u = momenta_.data() + bucket.offset;
    float* const v = sums_.data() + bucket.offset;
    const std::span<float> left = std::span(left_).subspan(bucket.offset, count);
    for (std::size_t i = 0; i < count; ++i) {
      u[i] = momentum_ * u[i] + bucket.gradients[i];
      v[i] += u[i];
      bucket.gradients[i] = v[i];
    }
    Random random(0, Draw::kRounding, bucket.step, bucket.number);  // top-k draws nothing
    (*by_stage_[static_cast<std::size_t>(setting_.stage(bucket.step))])(bucket.gradients, left, random);
    for (std::size_t i = 0; i < count; ++i) {
      if (left[i] != v[i]) u[i] = 0;
      v[i] = left[i];
    }
    if (!bucket.extra.empty()) sum(exact_, bucket.extra.data(), bucket.extra.size());
  }
  Traffic sent() const override {
    Traffic traffic = exact_.traffic();
    for (const auto& stage : by_stage_)
      traffic.messages += stage->traffic().messages, traffic.bytes += stage->traffic().bytes;
    return traffic;
  }

 private:
  DgcSetting setting_;
  float momentum_;
  std::vector<std::unique_ptr<CompressedSum>> by_stage_;
  allreduce::Allreduce exact_;
  Buffer momenta_, sums_, left_;
};

}  // namespace

double DgcSetting::share(int stage) const {
  return stage == kStages ? ratio : std::max(ratio, std::pow(0.25, stage + 1));
}

int DgcSetting::stage(uint64_t step) const {
  return step >= warm_up_steps ? kStages : static_cast<int>(step * kStages / warm_up_steps);
}

DgcSetting parse_dgc(const std::string& name) {
  DgcSetting setting;
  const std::size_t warm_up = name.find(':', name.find(':') + 1);
  setting.ratio = share_that_is_sent(name.substr(0, warm_up));
  if (warm_up == std::string::npos) return setting;
  const char* const end = name.data() + name.size();
  const auto [rest, error] = std::from_chars(name.data() + warm_up + 1, end, setting.warm_up_steps);
  if (error != std::errc() || rest != end || setting.warm_up_steps > (uint64_t{1} << 40))
    throw UsageError("--compress '" + name + "': expected steps of warm-up, as in dgc:0.001:200");
  return setting;
}

void check_compression(const std::string& name) {
  if (name == "none") return;
  if (name.starts_with("dgc:")) {
    parse_dgc(name);
  } else if (name.starts_with("sparcml:")) {
    share_that_is_sent(name);
  } else {
    make_codec(name);
  }
}

std::unique_ptr<GradientSum> make_gradient_sum(const Options& options, std::size_t gradients) {
  if (options.compress.starts_with("dgc:")) return std::make_unique<DeepCompression>(options, gradients);
  if (options.compress.starts_with("sparcml:")) return std::make_unique<SparseStreams>(options, gradients);
  if (options.compress != "none") return std::make_unique<Compressed>(options, gradients);
  if (options.allreduce.algorithm) return std::make_unique<ByAlgorithm>(options.allreduce);
  return nullptr;
}

}  // namespace ddl::train
