// How far a pass over many events is: tells a listener now and then, not for every event.
#pragma once

#include <cstdint>
#include <functional>

namespace ddl {

/// Told how far a pass is, 0 to 1.
using PassProgress = std::function<void(double done)>;

class Ticker {
 public:
  Ticker(const PassProgress& progress, int64_t total) : progress_(progress), total_(total) {}

  void add(int64_t events) {
    done_ += events;
    if (done_ < next_ || !progress_) return;
    next_ = done_ + kEvery;
    progress_(total_ > done_ ? static_cast<double>(done_) / static_cast<double>(total_) : 1.0);
  }

 private:
  static constexpr int64_t kEvery = 50'000;
  const PassProgress& progress_;
  int64_t total_;
  int64_t done_ = 0;
  int64_t next_ = kEvery;
};

}  // namespace ddl
