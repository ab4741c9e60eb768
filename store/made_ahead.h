// Batches made by one thread while another uses the previous ones: the same batches in the same order, on
// one thread or two.
#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

namespace ddl::store {

template <class Batch>
class MadeAhead {
 public:
  /// `make` clears and fills its argument, which may be a used batch; false: the end. It runs on a thread of its own if
  /// `beside`, up to two batches ahead, else in next().
  MadeAhead(bool beside, std::function<bool(Batch&)> make) : make_(std::move(make)) {
    if (!beside) return;
    try {
      maker_ = std::jthread([this] { run(); });
    } catch (const std::system_error&) {  // no more threads for this user
    }
  }
  ~MadeAhead() {
    {
      const std::lock_guard lock(mutex_);
      stopped_ = true;
    }
    changed_.notify_all();
  }
  MadeAhead(const MadeAhead&) = delete;
  MadeAhead& operator=(const MadeAhead&) = delete;

  /// The next batch in place of `batch`; false: the end. Rethrows the maker's exceptions.
  bool next(Batch& batch) {
    if (!maker_.joinable()) return make_(batch);
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return full_ || ended_; });
    if (!full_) {
      if (failure_) std::rethrow_exception(failure_);
      return false;
    }
    std::swap(batch, ready_);
    full_ = false;
    lock.unlock();
    changed_.notify_all();
    return true;
  }

 private:
  void run() {
    Batch batch;
    try {
      while (make_(batch)) {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] { return !full_ || stopped_; });
        if (stopped_) return;
        std::swap(batch, ready_);
        full_ = true;
        lock.unlock();
        changed_.notify_all();
      }
    } catch (...) {
      failure_ = std::current_exception();
    }
    {
      const std::lock_guard lock(mutex_);
      ended_ = true;
    }
    changed_.notify_all();
  }

  const std::function<bool(Batch&)> make_;
  std::mutex mutex_;
  std::condition_variable changed_;
  Batch ready_;
  bool full_ = false, ended_ = false, stopped_ = false;
  std::exception_ptr failure_;  ///< set before ended_
  std::jthread maker_;          ///< last: it ends before what it uses
};

}  // namespace ddl::store
