#include "cli/progress_bar.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "cli/terminal.h"

namespace ddl::cli {

ProgressBar::ProgressBar() : shown_on_terminal_(stderr_is_terminal()), drawn_(started_) {}

ProgressBar::~ProgressBar() {
  if (visible_) std::fputs("\r\x1b[K", stderr);
}

void ProgressBar::update(const std::string& what, double ratio) {
  if (!shown_on_terminal_) return;
  const Clock::time_point now = Clock::now();
  if (now - started_ < std::chrono::seconds(1) || now - drawn_ < std::chrono::milliseconds(100)) return;
  drawn_ = now;
  visible_ = true;
  constexpr size_t kWidth = 30;
  const auto full = static_cast<size_t>(std::clamp(ratio, 0.0, 1.0) * kWidth);
  std::fputs(fmt::format("\rddl: {} [{:<{}}] {:3.0f}%\x1b[K", what, std::string(full, '#'), kWidth,
                         std::clamp(ratio, 0.0, 1.0) * 100)
                 .c_str(),
             stderr);
}

}  // namespace ddl::cli
