// Handles on their way from the threads that make them to those that end them.
#pragma once

#include <deque>
#include <mutex>
#include <thread>
#include <vector>

namespace ddl {

class Mailbox {
 public:
  /// put() waits while there are `most`: handles that were freed must be wanted again at once.
  explicit Mailbox(size_t most) : most_(most) {}

  void put(void* handle) {
    for (;; std::this_thread::yield()) {
      const std::lock_guard guard(mutex_);
      if (handles_.size() >= most_) continue;
      handles_.push_back(handle);
      return;
    }
  }
  std::vector<void*> take(size_t most) {
    const std::lock_guard guard(mutex_);
    std::vector<void*> taken;
    while (!handles_.empty() && taken.size() < most) {
      taken.push_back(handles_.front());
      handles_.pop_front();
    }
    return taken;
  }

 private:
  const size_t most_;
  std::mutex mutex_;
  std::deque<void*> handles_;
};

}  // namespace ddl
