#include <algorithm>

#include "workloads/allreduce/algorithms.h"

namespace ddl::allreduce {

namespace {

/** One rank's place in the ring: segments come from the left, are reduced or kept, and go on to the right. */
class Pipeline {
 public:
  Pipeline(Exchange& x, std::size_t segment_elements)
      : x_(x),
        p_(static_cast<std::size_t>(x.ranks())),
        me_(static_cast<std::size_t>(x.rank())),
        left_(static_cast<int>((me_ + p_ - 1) % p_)),
        right_(static_cast<int>((me_ + 1) % p_)),
        segment_(segment_elements),
        sent_(p_) {
    for (std::size_t block = 0; block < p_; ++block) sent_[block].resize(segments(block), MPI_REQUEST_NULL);
    for (std::size_t step = 0; step < steps(); ++step) {
      // First those of the reduce-scatter, then, without a seam, those of the allgather.
      const std::size_t block = (me_ + 3 * p_ - 2 - step) % p_;
      for (std::size_t i = 0; i < segments(block); ++i) arrivals_.push_back({step, block, i});
    }
  }

  void run() {
    const std::size_t first = (me_ + p_ - 1) % p_;
    for (std::size_t i = 0; i < segments(first); ++i) send(first, i);
    MPI_Request coming = arrivals_.empty() ? MPI_REQUEST_NULL : start(arrivals_[0]);
    for (std::size_t i = 0; i < arrivals_.size(); ++i) {
      const Arrival& arrival = arrivals_[i];
      MPI_Wait(&coming, MPI_STATUS_IGNORE);
      if (i + 1 < arrivals_.size()) coming = start(arrivals_[i + 1]);  // moves while this one is reduced
      if (reduces(arrival)) x_.reduce(range(arrival.block, arrival.segment), left_);
      if (arrival.step + 1 < steps()) send(arrival.block, arrival.segment);
    }
    for (std::vector<MPI_Request>& requests : sent_) {
      MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
    }
  }

 private:
  struct Arrival {
    std::size_t step, block, segment;
  };

  std::size_t steps() const { return 2 * (p_ - 1); }
  bool reduces(const Arrival& arrival) const { return arrival.step + 1 < p_; }
  std::size_t segments(std::size_t block) const { return (x_.all().part(block, p_).size() + segment_ - 1) / segment_; }

  Range range(std::size_t block, std::size_t segment) const {
    const Range whole = x_.all().part(block, p_);
    const std::size_t begin = whole.begin + segment * segment_;
    return {begin, std::min(begin + segment_, whole.end)};
  }

  void send(std::size_t block, std::size_t segment) {
    sent_[block][segment] = x_.start_send(range(block, segment), right_);
  }

  MPI_Request start(const Arrival& arrival) {
    // The final sum comes to where the partial one was sent from: not before that send has finished.
    if (!reduces(arrival)) MPI_Wait(&sent_[arrival.block][arrival.segment], MPI_STATUS_IGNORE);
    return x_.start_receive(range(arrival.block, arrival.segment), left_, reduces(arrival));
  }

  Exchange& x_;
  std::size_t p_, me_;
  int left_, right_;
  std::size_t segment_;
  std::vector<std::vector<MPI_Request>> sent_;  ///< the last send of each segment of each block
  std::vector<Arrival> arrivals_;
};

}  // namespace

/*
 * The ring with each block in m = ceil(n / (p s)) segments of s bytes, one received while the one before is reduced:
 * 2(p-1) m alpha + 2(p-1)/p n beta, with max(beta, gamma) instead of beta + gamma in the first half.
 */
void segmented_ring(Exchange& x, const Settings& settings) {
  Pipeline(x, std::max<std::size_t>(1, settings.segment_bytes / x.element_bytes())).run();
}

}  // namespace ddl::allreduce
