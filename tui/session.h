// One user at one screen: keys change the view, and move through the past. No terminal here, so that tests can run it;
// terminal.h has it.
#pragma once

#include <deque>
#include <memory>

#include "tui/frame.h"
#include "tui/keys.h"
#include "tui/view.h"

namespace ddl::tui {

class Session {
 public:
  static constexpr size_t kPast = 120;  ///< snapshots to go back to; fewer with many ranks; twice as many while paused
  static constexpr size_t kPastRows = 32'768, kLeastPast = 20;

  explicit Session(View view) : view_(std::move(view)) {}

  void add(Snapshot snapshot);
  /// The newest snapshot, or the one gone back to. There must be one.
  const Snapshot& shown() const;
  const View& view() const { return view_; }
  bool empty() const { return past_.empty(); }

  enum class Wish { kNothing, kQuit, kMark, kExport, kSave };
  /// A key's request beyond the view.
  Wish press(int key, Size size);
  void click(int x, int y, Size size);
  /// The result of the request, for one line on the screen.
  void tell(std::string message) { view_.message = std::move(message); }
  void mark(std::string text);

 private:
  Wish type(int key);
  void move(int by, Size size);
  void find(bool forward);
  void go(Page page) {
    view_.page = view_.page == page ? Page::kMain : page;
    view_.scroll = 0;
  }
  void step_back(int by);
  void go_on();
  void forget_earlier_job();

  View view_;
  std::deque<std::shared_ptr<const Snapshot>> past_;
  std::deque<std::shared_ptr<const Snapshot>> frozen_;  ///< while paused: `past_` when the user paused
  std::shared_ptr<const Snapshot> baseline_;
  uint32_t generation_ = 0;  ///< Snapshot's, of which the baseline and the marks are
  char asking_ = 0;          ///< '/', 'f'ind: the prompt
};

}  // namespace ddl::tui
