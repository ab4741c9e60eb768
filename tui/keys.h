// What can be typed, whatever a terminal calls it.
#pragma once

namespace ddl::tui {

/// Characters stand for themselves.
enum Key : int {
  kNoKey = -1,
  kEscape = 27,
  kReturn = 10,
  kTab = 9,
  kErase = 127,
  kUp = 0x110000,
  kDown,
  kPageUp,
  kPageDown,
  kHome,
  kEnd,
  kF1,              ///< kF1 + n - 1 is Fn
  kQuit = kF1 + 9,  ///< quits whatever is on the screen
  kF12 = kF1 + 11,
  kWheelUp,
  kWheelDown,
  kClick,  ///< where: Terminal::click()
};

}  // namespace ddl::tui
