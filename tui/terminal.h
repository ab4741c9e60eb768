// The only file that knows a terminal: ncurses, cells out, keys in.
#pragma once

#include "tui/frame.h"
#include "tui/keys.h"
#include "tui/top.h"

namespace ddl::tui {

enum class Color { kAuto, kAlways, kNever };

class Terminal {
 public:
  /// Takes over the screen. Throws ddl::Error if the terminal cannot.
  explicit Terminal(Color color);
  /// Restores the screen.
  ~Terminal();
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  Size size() const;
  void show(const Frame& frame);
  /// Waits for a key, or until `seconds` have passed: kNoKey, also when the size has changed. Ctrl-C and the end of
  /// the input are kQuit.
  int read(double seconds);
  struct Point {
    int x = 0, y = 0;
  };
  Point click() const { return click_; }
  /// A signal asked this program to end (SIGTERM, SIGHUP, SIGINT).
  static bool asked_to_end();

 private:
  Point click_;
  bool color_ = false;
};

// ---- ddl-top on a terminal: looks, shows, takes keys, until the user quits.
/// `source` may have nothing to show yet, which the screen says. Returns the exit code.
int run_screen(Source& source, const TopOptions& options, Color color);

}  // namespace ddl::tui
