#include "tui/terminal.h"

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>

#include "core/error.h"

#define NCURSES_WIDECHAR 1
#include <curses.h>

namespace ddl::tui {
namespace {

volatile sig_atomic_t g_asked_to_end = 0;

void on_end(int) { g_asked_to_end = 1; }

bool wants_color(Color color) {
  if (color != Color::kAuto) return color == Color::kAlways;
  const char* no_color = std::getenv("NO_COLOR");
  return (no_color == nullptr || *no_color == '\0') && has_colors();
}

/// Okabe and Ito's colours, told apart by everybody; the default background stays, so light terminals work.
struct Paint {
  short many, few;  ///< of 256 colours, of 8
  attr_t attributes;
};
Paint paint_of(Style style) {
  switch (style) {
    case Style::kPlain:
      return {-1, -1, 0};
    case Style::kDim:
      return {-1, -1, A_DIM};
    case Style::kBold:
      return {-1, -1, A_BOLD};
    case Style::kTitle:
      return {-1, -1, A_BOLD};
    case Style::kHeader:
      return {-1, -1, A_REVERSE};
    case Style::kAlarm:
      return {166, COLOR_RED, A_BOLD};
    case Style::kKey:
      return {-1, -1, A_REVERSE};
    case Style::kCompute:
      return {25, COLOR_BLUE, 0};
    case Style::kOverlapped:
      return {36, COLOR_GREEN, 0};
    case Style::kTransfer:
      return {178, COLOR_YELLOW, 0};
    case Style::kWaiting:
      return {166, COLOR_RED, 0};
    case Style::kCopy:
      return {97, COLOR_MAGENTA, 0};
    case Style::kIdle:
      return {244, -1, 0};
  }
  return {-1, -1, 0};
}

}  // namespace

Terminal::Terminal(Color color) {
  set_escdelay(50);
  SCREEN* const screen = newterm(nullptr, stdout, stdin);
  if (screen == nullptr || tigetstr("cup") == nullptr) {  // "dumb" cannot move its cursor
    if (screen != nullptr) endwin();
    throw Error(std::string("ncurses cannot draw on this terminal: TERM=") +
                    (std::getenv("TERM") != nullptr ? std::getenv("TERM") : ""),
                "ddl-top -b prints frames as text");
  }
  raw();  // Ctrl-C comes as a key, and the screen is put back in any case
  noecho();
  nonl();
  curs_set(0);
  keypad(stdscr, TRUE);
  nodelay(stdscr, TRUE);
  mousemask(BUTTON1_CLICKED | BUTTON1_PRESSED | BUTTON4_PRESSED | BUTTON5_PRESSED, nullptr);
  mouseinterval(0);
  color_ = wants_color(color);
  if (color_) {
    start_color();
    use_default_colors();
    for (int i = 0; i < kStyles; ++i) {
      const Paint paint = paint_of(static_cast<Style>(i));
      init_pair(static_cast<short>(i + 1), COLORS >= 256 ? paint.many : paint.few, -1);
    }
  }
  struct sigaction action {};
  action.sa_handler = on_end;
  for (const int number : {SIGTERM, SIGHUP, SIGINT}) sigaction(number, &action, nullptr);
}

Terminal::~Terminal() { endwin(); }

bool Terminal::asked_to_end() { return g_asked_to_end != 0; }

Size Terminal::size() const { return {COLS, LINES}; }

void Terminal::show(const Frame& frame) {
  for (int y = 0; y < std::min(frame.height(), LINES); ++y) {
    for (int x = 0; x < std::min(frame.width(), COLS); ++x) {
      const Cell& cell = frame.at(x, y);
      if (cell.glyph == 0) continue;
      attr_t attributes = paint_of(cell.style).attributes;
      if (cell.selected) attributes |= A_BOLD | A_UNDERLINE;
      const wchar_t text[] = {static_cast<wchar_t>(cell.glyph), L'\0'};
      cchar_t ready;
      setcchar(&ready, text, attributes,
               color_ ? static_cast<short>(static_cast<int>(cell.style) + 1) : static_cast<short>(0), nullptr);
      mvadd_wch(y, x, &ready);
    }
  }
  refresh();  // ncurses sends only what has changed
}

int Terminal::read(double seconds) {
  pollfd input{STDIN_FILENO, POLLIN, 0};
  wint_t code = 0;
  int kind = get_wch(&code);
  if (kind == ERR) {
    // a signal: the window may have changed
    if (poll(&input, 1, static_cast<int>(seconds * 1000)) < 0) input.revents = 0;
    kind = get_wch(&code);
    if (kind == ERR) return (input.revents & (POLLHUP | POLLERR)) ? kQuit : kNoKey;
  }
  if (kind != KEY_CODE_YES)
    return code == 3      ? static_cast<int>(kQuit)
           : code == '\r' ? static_cast<int>(kReturn)
           : code == 26   ? kNoKey
                          : static_cast<int>(code);
  switch (code) {
    case KEY_UP:
      return kUp;
    case KEY_DOWN:
      return kDown;
    case KEY_PPAGE:
      return kPageUp;
    case KEY_NPAGE:
      return kPageDown;
    case KEY_HOME:
      return kHome;
    case KEY_END:
      return kEnd;
    case KEY_BACKSPACE:
      return kErase;
    case KEY_ENTER:
      return kReturn;
    case KEY_MOUSE: {
      MEVENT event;
      if (getmouse(&event) != OK) return kNoKey;
      click_ = {event.x, event.y};
      return event.bstate & BUTTON4_PRESSED ? kWheelUp : event.bstate & BUTTON5_PRESSED ? kWheelDown : kClick;
    }
    default:
      break;
  }
  if (code >= KEY_F(1) && code <= KEY_F(12)) return kF1 + static_cast<int>(code) - KEY_F(1);
  return kNoKey;
}

}  // namespace ddl::tui
