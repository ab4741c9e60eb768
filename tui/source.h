// Where the live view gets its job from.
#pragma once

#include "tui/job.h"

namespace ddl::tui {

class Source {
 public:
  virtual ~Source() = default;
  /// Takes in what has come since the last call. Throws ddl::Error if there never was anything to read.
  virtual void poll(Job& job) = 0;
};

}  // namespace ddl::tui
