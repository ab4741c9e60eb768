// Where the live view gets its job from.
#pragma once

#include "tui/job.h"

namespace ddl::tui {

class Source {
 public:
  virtual ~Source() = default;
  /// Takes in what has come since the last call, which was `interval_s` ago: a replay moves on by that. Throws ddl::Error (kDataMissing) as
  /// long as there is nothing to look at.
  virtual void poll(Job& job, double interval_s) = 0;
};

}  // namespace ddl::tui
