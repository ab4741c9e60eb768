// Results 0, 1, 2, ... of independent pieces of work, made by several threads and taken in order by one, which sees the
// same whatever the number of threads. It works too while its next result is missing, and with one thread does all.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace ddl::store {

/// Spools read ahead and held: each is open, and up to a megabyte.
constexpr size_t kSpoolsAhead = 64;

/// `asked` threads; 0: one for each core that this process may use.
inline unsigned threads_for(unsigned asked) {
  return asked > 0 ? asked : std::max(1u, std::thread::hardware_concurrency());
}

template <class Result>
class OrderedWork {
 public:
  /// `make(i)` makes result i < `count`, on any thread; at most `ahead` results wait to be taken. `threads`: 1 or more.
  OrderedWork(size_t count, unsigned threads, size_t ahead, std::function<Result(size_t)> make)
      : count_(count), ahead_(std::max<size_t>(1, ahead)), make_(std::move(make)), slots_(std::min(count, ahead_)) {
    const size_t helpers = std::min<size_t>(count, threads) - (count > 0 ? 1 : 0);
    try {
      for (size_t i = 0; i < helpers; ++i) helpers_.emplace_back([this] { help(); });
    } catch (const std::system_error&) {  // no more threads for this user: with those that there are
    }
  }
  ~OrderedWork() {
    {
      const std::lock_guard lock(mutex_);
      count_ = 0;
    }
    changed_.notify_all();
  }
  OrderedWork(const OrderedWork&) = delete;
  OrderedWork& operator=(const OrderedWork&) = delete;

  /// The next result; rethrows its maker's exception. Call it `count` times at most.
  Result next() {
    std::unique_lock lock(mutex_);
    Slot& slot = slots_[taken_ % slots_.size()];
    while (!slot.done) {
      if (can_claim())
        work(lock);
      else
        changed_.wait(lock);
    }
    slot.done = false;
    ++taken_;
    const std::unique_ptr<Result> result = std::move(slot.result);
    const std::exception_ptr failure = std::exchange(slot.failure, nullptr);
    lock.unlock();
    changed_.notify_all();
    if (failure) std::rethrow_exception(failure);
    return std::move(*result);
  }

 private:
  struct Slot {
    bool done = false;
    std::unique_ptr<Result> result;
    std::exception_ptr failure;
  };

  bool can_claim() const { return claimed_ < count_ && claimed_ < taken_ + slots_.size(); }

  /// Claims the next piece and does it, without the lock.
  void work(std::unique_lock<std::mutex>& lock) {
    const size_t number = claimed_++;
    lock.unlock();
    std::unique_ptr<Result> result;
    std::exception_ptr failure;
    try {
      result = std::make_unique<Result>(make_(number));
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    Slot& slot = slots_[number % slots_.size()];
    slot.result = std::move(result);
    slot.failure = failure;
    slot.done = true;
    changed_.notify_all();
  }

  void help() {
    std::unique_lock lock(mutex_);
    while (claimed_ < count_) {
      if (can_claim())
        work(lock);
      else
        changed_.wait(lock);
    }
  }

  size_t count_;
  const size_t ahead_;
  const std::function<Result(size_t)> make_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Slot> slots_;
  size_t claimed_ = 0, taken_ = 0;
  std::vector<std::jthread> helpers_;  ///< last: they end before what they use
};

}  // namespace ddl::store
