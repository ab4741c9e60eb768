// SIGINT, SIGTERM and SIGHUP during work that must not be left half done.
#pragma once

#include "core/error.h"

namespace ddl::cli {

/// While it lives, the first of these signals is noted instead of obeyed, and blocking calls are then interrupted ten
/// times a second, so that they reach a check(); a second signal ends the program as usual. One at a time.
class Interrupts {
 public:
  Interrupts();
  ~Interrupts();
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

  /// Throws ddl::Error if a signal has come; unwinding removes unfinished work.
  static void check();
  /// Ends the program by the signal, if one has come.
  static void obey();
};

/// Runs work that leaves nothing half done: an exception thrown because of a signal ends the program by that signal.
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
