#include "workloads/train/background_runtime.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "workloads/train/step_log.h"

namespace ddl::train {

BackgroundRuntime::BackgroundRuntime(int* argc, char*** argv) : thread_([this] { serve(); }) {
  call([this, argc, argv] { mpi_.emplace(argc, argv, MPI_THREAD_MULTIPLE); });
}

BackgroundRuntime::~BackgroundRuntime() {
  call([this] { mpi_->finalize(); });
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  work_.notify_one();
  thread_.join();
}

void BackgroundRuntime::serve() {
  std::unique_lock lock(mutex_);
  for (;;) {
    work_.wait(lock, [this] { return ends_ || !functions_.empty(); });
    if (functions_.empty()) return;
    const std::function<void()> function = std::move(functions_.front());
    functions_.pop_front();
    running_ = true;
    lock.unlock();
    try {
      function();
    } catch (const std::exception& error) {
      // Nobody could be told who is not waiting in MPI, and the other ranks are.
      std::fprintf(stderr, "train: error: %s\n", error.what());
      Mpi::abort(1);
    }
    lock.lock();
    running_ = false;
    done_.notify_all();
  }
}

void BackgroundRuntime::call(std::function<void()> function) {
  std::unique_lock lock(mutex_);
  functions_.push_back(std::move(function));
  work_.notify_one();
  done_.wait(lock, [this] { return functions_.empty() && !running_; });
}

void BackgroundRuntime::start_cycles(const Settings& settings, std::vector<NamedTensor> tensors) {
  const std::lock_guard lock(mutex_);
  values_.resize(tensors.size());
  shut_down_ = false;
  settings_ = settings;
  functions_.emplace_back([this, tensors = std::move(tensors)] { cycles(tensors); });
  work_.notify_one();
}

void BackgroundRuntime::change(double cycle_ms, std::size_t fusion_bytes) {
  const std::lock_guard lock(mutex_);
  settings_.cycle_ms = cycle_ms;
  settings_.fusion_bytes = fusion_bytes;
}

void BackgroundRuntime::hand_over(std::size_t tensor, std::span<float> values) {
  const std::lock_guard lock(mutex_);
  values_[tensor] = values;
  handed_over_.push_back(tensor);
  ++outstanding_;
}

int64_t BackgroundRuntime::synchronize() {
  const int64_t entered_ns = monotonic_ns();
  std::unique_lock lock(mutex_);
  done_.wait(lock, [this] { return outstanding_ == 0; });
  int64_t hidden_ns = 0;
  for (const auto& [begin_ns, end_ns] : reductions_)
    hidden_ns += std::max<int64_t>(0, std::min(end_ns, entered_ns) - begin_ns);
  reductions_.clear();
  return hidden_ns;
}

void BackgroundRuntime::stop_cycles() {
  std::unique_lock lock(mutex_);
  shut_down_ = true;
  done_.wait(lock, [this] { return functions_.empty() && !running_; });
}

void BackgroundRuntime::cycles(std::vector<NamedTensor> tensors) {
  using Clock = std::chrono::steady_clock;
  std::size_t total = 0;
  for (const NamedTensor& tensor : tensors) total += tensor.floats;
  // As Horovod's users ask for them.
  const char* const path = mpi_->rank() == 0 ? std::getenv("HOROVOD_TIMELINE") : nullptr;
  const char* const capacity = std::getenv("HOROVOD_CACHE_CAPACITY");
  if (path != nullptr && *path != '\0') timeline_.emplace(path, tensors);
  bool cache = capacity == nullptr || std::atoi(capacity) != 0;
  {
    const std::lock_guard lock(mutex_);
    cache = cache && settings_.cache;
  }
  Negotiation negotiation(*mpi_, tensors, cache, timeline_ ? &*timeline_ : nullptr);
  for (;;) {
    const auto start = Clock::now();
    std::vector<std::size_t> handed_over;
    bool shut_down = false;
    Settings settings;
    {
      const std::lock_guard lock(mutex_);
      handed_over.swap(handed_over_);
      shut_down = shut_down_;
      // with what was handed over: a tensor is never cut by the settings of another step than its own
      settings = settings_;
    }
    const auto cycle =
        std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double, std::milli>(settings.cycle_ms));
    const std::size_t most = settings.fusion_bytes / sizeof(float);
    fusion_.resize(std::max(fusion_.size(), std::min(most, total)));
    const Negotiation::Outcome agreed = negotiation.agree(handed_over, shut_down);
    for (const std::vector<std::size_t>& batch : fuse(agreed.tensors, tensors, most)) reduce(batch);
    if (agreed.shut_down) {
      timeline_.reset();
      return;
    }
    std::this_thread::sleep_until(start + cycle);
  }
}

void BackgroundRuntime::reduce(std::span<const std::size_t> batch) {
  int64_t begin_ns = 0, end_ns = 0;
  const auto sum = [&](std::span<float> values) {
    begin_ns = monotonic_ns();
    mpi_->sum(values);
    end_ns = monotonic_ns();
  };
  if (batch.size() == 1) {
    sum(values_[batch.front()]);
  } else {
    float* end = fusion_.data();
    for (const std::size_t tensor : batch) end = std::copy(values_[tensor].begin(), values_[tensor].end(), end);
    sum({fusion_.data(), end});
    const float* from = fusion_.data();
    for (const std::size_t tensor : batch) {
      std::copy_n(from, values_[tensor].size(), values_[tensor].begin());
      from += values_[tensor].size();
    }
  }
  if (timeline_) timeline_->reduced(batch, begin_ns, end_ns);
  const std::lock_guard lock(mutex_);
  reductions_.emplace_back(begin_ns, end_ns);
  outstanding_ -= batch.size();
  if (outstanding_ == 0) done_.notify_all();
}

}  // namespace ddl::train
