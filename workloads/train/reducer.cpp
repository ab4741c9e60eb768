#include "workloads/train/reducer.h"

#include "workloads/train/marks.h"
#include "workloads/train/ops.h"
#include "workloads/train/step_log.h"

namespace ddl::train {

namespace {

/** Adds the length of a scope. */
class Timed {
 public:
  explicit Timed(int64_t& sum) : sum_(sum), start_(monotonic_ns()) {}
  ~Timed() { sum_ += monotonic_ns() - start_; }
  Timed(const Timed&) = delete;
  Timed& operator=(const Timed&) = delete;

 private:
  int64_t& sum_;
  int64_t start_;
};

}  // namespace

Reducer::Reducer(Mpi& mpi, BackgroundRuntime* background, ParameterArena& arena, std::vector<Bucket> buckets,
                 std::function<void()> before_first)
    : mpi_(mpi), background_(background), arena_(arena), before_first_(std::move(before_first)) {
  cut(std::move(buckets));
}

void Reducer::cut(std::vector<Bucket> buckets) {
  buckets_ = std::move(buckets);
  requests_.assign(buckets_.size(), MPI_REQUEST_NULL);
  names_.clear();
  for (std::size_t i = 0; i < buckets_.size(); ++i) names_.push_back("bucket" + std::to_string(i));
}

std::span<float> Reducer::payload(std::size_t bucket) {
  const std::size_t extra = bucket + 1 == buckets_.size() ? ParameterArena::kExtra : 0;
  return arena_.gradients().subspan(buckets_[bucket].offset, buckets_[bucket].count + extra);
}

std::vector<NamedTensor> Reducer::tensors() {
  std::vector<NamedTensor> result;
  for (std::size_t i = 0; i < buckets_.size(); ++i) result.push_back({names_[i], payload(i).size()});
  return result;
}

template <typename Reduce>
void Reducer::reduce_next(Reduce&& reduce) {
  if (next_ == 0) before_first_();
  own_squares_ += square_sum(arena_.gradients().subspan(buckets_[next_].offset, buckets_[next_].count));
  const marks::Layer range(names_[next_].c_str());
  handed_over_ns_ = monotonic_ns();
  if (background_) {
    background_->hand_over(next_, payload(next_));
  } else {
    reduce(next_);
  }
  ++next_;
}

void Reducer::post_ready(std::size_t finished_parameters) {
  while (next_ < buckets_.size() && buckets_[next_].end_parameter() <= finished_parameters) {
    reduce_next([this](std::size_t bucket) { requests_[bucket] = mpi_.start_sum(payload(bucket)); });
  }
}

void Reducer::reduce_all() {
  while (next_ < buckets_.size()) {
    reduce_next([this](std::size_t bucket) { sum(bucket); });
  }
}

void Reducer::wait(std::size_t bucket) {
  const Timed timed(blocked_ns_);
  mpi_.wait(requests_[bucket]);
}

void Reducer::synchronize() {
  const Timed timed(blocked_ns_);
  hidden_ns_ = background_->synchronize();
}

void Reducer::sum(std::size_t bucket) {
  const Timed timed(blocked_ns_);
  if (!sum_) return mpi_.sum(payload(bucket));
  const std::span<float> extra = payload(bucket).subspan(buckets_[bucket].count);
  sum_->add_up({payload(bucket).first(buckets_[bucket].count), extra, buckets_[bucket].offset, bucket, step_});
}

}  // namespace ddl::train
