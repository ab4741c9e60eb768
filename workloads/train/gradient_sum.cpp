#include "workloads/train/gradient_sum.h"

#include "workloads/train/compress/compressed_sum.h"
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
  explicit ByAlgorithm(const allreduce::Choice& choice) : allreduce_(MPI_COMM_WORLD, choice, Topology::discover(MPI_COMM_WORLD)) {}

  void add_up(const Bucket& bucket) override {
    sum(allreduce_, bucket.gradients.data(), bucket.gradients.size() + bucket.extra.size());  // the extra ones lie behind
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

}  // namespace

std::unique_ptr<GradientSum> make_gradient_sum(const Options& options, std::size_t gradients) {
  if (options.compress != "none") return std::make_unique<Compressed>(options, gradients);
  if (options.allreduce.algorithm) return std::make_unique<ByAlgorithm>(options.allreduce);
  return nullptr;
}

}  // namespace ddl::train
