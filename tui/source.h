// The live view's source of the job.
#pragma once

#include "tui/job.h"

namespace ddl::tui {

class Source {
 public:
  virtual ~Source() = default;
  /// Reads what is new since the last call, `interval_s` ago: a replay moves on by that. Throws ddl::Error
  /// (kDataMissing) while there is nothing to see. long as there is nothing to look at.
  virtual void poll(Job& job, double interval_s) = 0;
};

}  // namespace ddl::tui
