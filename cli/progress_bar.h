// "reading 42%" on standard error: on a terminal only, after a second, erased at the end.
#pragma once

#include <chrono>
#include <string>

namespace ddl::cli {

class ProgressBar {
 public:
  ProgressBar();
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  /// `what` is a word or two, `ratio` 0 to 1.
  void update(const std::string& what, double ratio);

 private:
  using Clock = std::chrono::steady_clock;
  bool shown_on_terminal_;
  bool visible_ = false;
  Clock::time_point started_ = Clock::now();
  Clock::time_point drawn_;
};

}  // namespace ddl::cli
