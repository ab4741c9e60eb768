// SIGINT, SIGTERM and SIGHUP while something is made that must not be left half done.
#pragma once

#include "core/error.h"

namespace ddl::cli {

/// While it lives, the first of these signals is noted instead of obeyed, and what waits from then on is interrupted ten times a second, so that it comes
/// to a check(); the second signal ends the program as usual. One at a time.
class Interrupts {
 public:
  Interrupts();
  ~Interrupts();
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

  /// Throws ddl::Error if one has come: what was begun is cleared away on the way out.
  static void check();
  /// Ends the program by the signal that has come, if one has.
  static void obey();
};

/// Makes something that leaves nothing half done: what throws because a signal has come ends the program by it.
template <class Work>
void interruptible(const Work& work) {
  const Interrupts interrupts;
  try {
    work();
  } catch (const Error&) {
    Interrupts::obey();
    throw;
  }
}

}  // namespace ddl::cli
