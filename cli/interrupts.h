// SIGINT, SIGTERM and SIGHUP while something is made that must not be left half done.
#pragma once

namespace ddl::cli {

/// While it lives, the first of these signals is noted instead of obeyed; the second one ends the program as usual. One at a time.
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

}  // namespace ddl::cli
