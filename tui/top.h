// ddl-top without its command line: looks at a job repeatedly, and shows it.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "tui/draw.h"
#include "tui/observer.h"
#include "tui/source.h"

namespace ddl::tui {

struct TopOptions {
  std::optional<int> frames;  ///< then end
  bool json = false;          ///< snapshots as JSON lines; else frames as text
  bool replay = false;
  std::filesystem::path notes;  ///< where marks are written
  /// Saves the setup; returns a message for the user.
  std::function<std::string(const View&)> save_setup;
  Size size;
  Theme theme;
  View view;
};

/// CLOCK_MONOTONIC, s.
double monotonic_s();

/// CPU time of this process over elapsed time, since the last call.
class OwnCost {
 public:
  OwnCost();
  double cpu_ratio();

 private:
  double cpu_s_ = 0, wall_s_ = 0;
};

/// Writes frames or lines with `write` until there are enough, or the job has ended. Returns the exit code.
int run_batch(Source& source, const TopOptions& options, const std::function<void(std::string_view)>& write);

}  // namespace ddl::tui
