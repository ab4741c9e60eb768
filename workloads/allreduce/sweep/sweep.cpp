#include "workloads/allreduce/sweep/sweep.h"

#include <algorithm>
#include <cstdio>

namespace ddl::allreduce {

namespace {

/** Small whole numbers, different for neighbouring elements and ranks: a million of them add up exactly, in
 * whatever order. */
float contribution(std::size_t i, int rank) { return static_cast<float>(i % 7) + static_cast<float>(rank % 8 + 1); }

class Sweep {
 public:
  Sweep(const Options& options, const std::vector<Candidate>& candidates) : options_(options), candidates_(candidates) {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks_);
    const std::size_t most = *std::max_element(options.bytes.begin(), options.bytes.end()) / sizeof(float);
    send_.resize(most);
    receive_.resize(most);
    for (std::size_t i = 0; i < most; ++i) send_[i] = contribution(i, rank_);
    for (int rank = 0; rank < ranks_; ++rank) first_sum_ += contribution(0, rank);
    for (const std::size_t bytes : options.bytes) {
      Size& size = sizes_.emplace_back();
      size.bytes = bytes;
      for (std::size_t i = 0; i < candidates.size(); ++i) {
        // In one segment per block it would be the ring, which is there under its own name.
        if (candidates[i].segment_bytes * static_cast<std::size_t>(ranks_) <= bytes) size.candidates.push_back(i);
      }
      size.seconds.resize(size.candidates.size());
      to_do_ += size.candidates.size() * static_cast<std::size_t>(options.rounds);
    }
  }

  std::string run() {
    if (rank_ == 0) std::printf("algorithm,segment_bytes,bytes,round,seconds\n");
    start_ = MPI_Wtime();
    for (int round = 0; round < options_.rounds; ++round) {
      for (Size& size : sizes_) {
        if (!measure_size(round, size)) return wrong_;
      }
    }
    return {};
  }

 private:
  /** A message size and who is measured at it. */
  struct Size {
    std::size_t bytes = 0;
    std::vector<std::size_t> candidates{};
    std::vector<double> seconds{};  ///< of one call, as last measured; 0: not yet
  };
  struct Time {
    std::size_t candidate;
    double seconds;
  };

  /** False: a sum is wrong, or the time is up. */
  bool measure_size(int round, Size& size) {
    std::vector<Time> times;
    for (std::size_t i = 0; i < size.candidates.size(); ++i) {
      const std::size_t turn = (i + static_cast<std::size_t>(round)) % size.candidates.size();
      const std::size_t candidate = size.candidates[turn];
      double& seconds = size.seconds[turn];
      if (seconds == 0) {
        measure(candidate, size.bytes, 1);  // pays for connections and pages
        seconds = measure(candidate, size.bytes, 1);
      }
      seconds = measure(candidate, size.bytes, affordable_calls(seconds));
      if (!wrong_.empty()) return false;
      times.push_back({candidate, seconds});
      --to_do_;
      if (elapsed_ > options_.seconds && to_do_ > 0) {
        const bool complete = times.size() == size.candidates.size();
        if (complete) print(round, size.bytes, times);
        say_time_is_up(round, size.bytes, complete);
        return false;
      }
    }
    print(round, size.bytes, times);
    return true;
  }

  /** How many calls fit into one measurement's share of the time that is left. */
  int affordable_calls(double seconds_per_call) const {
    const double share = (options_.seconds - elapsed_) / static_cast<double>(to_do_);
    return static_cast<int>(
        std::clamp(share / std::max(seconds_per_call, 1e-9), 1.0, static_cast<double>(options_.calls)));
  }

  /** Seconds of one call. All ranks get the same answer, and the same `elapsed_` and, in effect, `wrong_`. */
  double measure(std::size_t candidate, std::size_t bytes, int calls) {
    const std::size_t count = bytes / sizeof(float);
    std::fill_n(receive_.begin(), count, -1.0F);
    MPI_Barrier(MPI_COMM_WORLD);
    const double start = MPI_Wtime();
    for (int i = 0; i < calls; ++i) candidates_[candidate].run(send_.data(), receive_.data(), static_cast<int>(count));
    const double end = MPI_Wtime();
    const std::size_t wrong = first_wrong(count);
    // The lowest rank that sees something wrong says so.
    double worst[] = {(end - start) / calls, end - start_, wrong < count ? static_cast<double>(ranks_ - rank_) : 0.0};
    MPI_Allreduce(MPI_IN_PLACE, worst, 3, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    elapsed_ = worst[1];
    if (worst[2] > 0) wrong_ = worst[2] == ranks_ - rank_ ? described(candidates_[candidate], bytes, wrong) : " ";
    return worst[0];
  }

  float expected(std::size_t i) const { return first_sum_ + static_cast<float>(ranks_) * static_cast<float>(i % 7); }

  std::size_t first_wrong(std::size_t count) const {
    std::size_t i = 0;
    while (i < count && receive_[i] == expected(i)) ++i;
    return i;
  }

  std::string described(const Candidate& candidate, std::size_t bytes, std::size_t i) const {
    return candidate.name + " with " + std::to_string(bytes) + " bytes: wrong sum on rank " + std::to_string(rank_) +
           ": element " + std::to_string(i) + " is " + std::to_string(receive_[i]) + ", not " +
           std::to_string(expected(i));
  }

  void print(int round, std::size_t bytes, const std::vector<Time>& times) const {
    if (rank_ != 0) return;
    for (const Time& time : times) {
      const Candidate& candidate = candidates_[time.candidate];
      std::printf("%s,%zu,%zu,%d,%.9g\n", candidate.name.c_str(), candidate.segment_bytes, bytes, round, time.seconds);
    }
    std::fflush(stdout);  // a sweep that is killed has shown how far it came
  }

  void say_time_is_up(int round, std::size_t bytes, bool complete) const {
    if (rank_ != 0) return;
    std::printf("# %g seconds are over in round %d of %d, at %zu bytes, %s\n", options_.seconds, round, options_.rounds,
                bytes, complete ? "which are the last ones shown" : "of which nothing is shown");
  }

  const Options& options_;
  const std::vector<Candidate>& candidates_;
  int rank_ = 0;
  int ranks_ = 1;
  float first_sum_ = 0;  ///< of element 0, over all ranks
  std::vector<float> send_;
  std::vector<float> receive_;
  std::vector<Size> sizes_;
  std::size_t to_do_ = 0;  ///< measurements
  double start_ = 0;
  double elapsed_ = 0;
  std::string wrong_;
};

}  // namespace

std::string run_sweep(const Options& options, const std::vector<Candidate>& candidates) {
  return Sweep(options, candidates).run();
}

}  // namespace ddl::allreduce
