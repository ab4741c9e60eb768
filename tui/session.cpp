#include "tui/session.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/error.h"
#include "tui/draw.h"

namespace ddl::tui {
namespace {

constexpr double kIntervals[] = {0.5, 1, 2, 5};
constexpr Column kOrder[kColumns] = {Column::kRank, Column::kNode, Column::kLate,
                                     Column::kWait, Column::kStep, Column::kGpu};

}  // namespace

void Session::add(Snapshot snapshot) {
  if (!past_.empty() && past_.back()->generation != snapshot.generation) past_.clear();
  past_.push_back(std::make_shared<const Snapshot>(std::move(snapshot)));
  const size_t rows = std::max<size_t>(1, past_.back()->ranks.size());
  while (past_.size() > std::clamp(kPastRows / rows, kLeastPast, kPast)) past_.pop_front();
  if (!view_.paused) forget_earlier_job();
}

/// Another world of the run, or another run: numbers of the one before are not what these are to be compared with. A
/// paused picture stays as it is.
void Session::forget_earlier_job() {
  if (past_.back()->generation == generation_) return;
  generation_ = past_.back()->generation;
  baseline_.reset();
  view_.baseline = nullptr;
  view_.marks.clear();
}

const Snapshot& Session::shown() const {
  return view_.paused ? *frozen_[frozen_.size() - 1 - static_cast<size_t>(view_.back)] : *past_.back();
}

void Session::step_back(int by) {
  if (!view_.paused) {
    view_.paused = true;
    frozen_ = past_;
    view_.back = 0;
  }
  view_.back = std::clamp(view_.back + by, 0, static_cast<int>(frozen_.size()) - 1);
}

void Session::go_on() {
  view_.paused = false;
  frozen_.clear();
  forget_earlier_job();
}

void Session::move(int by, Size size) {
  if (view_.page != Page::kMain && view_.page != Page::kWhy) {
    view_.scroll = std::clamp(view_.scroll + by, 0, scroll_limit(shown(), size, view_));
    return;
  }
  const int lines = static_cast<int>(visible_lines(shown(), view_).size());
  view_.cursor = std::clamp(view_.cursor + by, 0, std::max(0, lines - 1));
}

void Session::find(bool forward) {
  const std::vector<Line> lines = visible_lines(shown(), view_);
  const auto n = static_cast<int>(lines.size());
  for (int i = 1; i <= n; ++i) {
    const int at = ((view_.cursor + (forward ? i : -i)) % n + n) % n;
    const RankRow& row = *lines[static_cast<size_t>(at)].row;
    if (std::to_string(row.rank) == view_.find || row.node.find(view_.find) != std::string::npos ||
        row.call.find(view_.find) != std::string::npos) {
      view_.cursor = at;
      return;
    }
  }
  view_.message = fmt::format("'{}' is not a rank, node or call here", view_.find);
}

Session::Wish Session::type(int key) {
  if (key == kEscape) {
    asking_ = 0;
  } else if (key == kErase || key == 8) {
    while (!view_.typed.empty() && (static_cast<unsigned char>(view_.typed.back()) & 0xc0) == 0x80)
      view_.typed.pop_back();
    if (!view_.typed.empty()) view_.typed.pop_back();
  } else if (key == kReturn || key == '\r') {
    if (asking_ == '/') {
      try {
        view_.filter = Filter(view_.typed);
        view_.cursor = 0;
      } catch (const Error& error) {
        view_.message = error.what();
        return Wish::kNothing;  // still there to be mended
      }
    } else if (!view_.typed.empty()) {
      view_.find = view_.typed;
      find(true);
    }
    asking_ = 0;
  } else if (key >= ' ' && key < kUp && view_.typed.size() < 200) {
    view_.typed += utf8(static_cast<char32_t>(key));
  }
  if (asking_ == 0) view_.prompt.clear();
  return Wish::kNothing;
}

Session::Wish Session::press(int key, Size size) {
  if (key == kQuit) return Wish::kQuit;
  if (key == kNoKey || empty()) return key == 'q' || key == kEscape ? Wish::kQuit : Wish::kNothing;
  view_.message.clear();
  if (asking_ != 0) return type(key);
  const auto ask = [&](char what, const char* prompt, const std::string& typed) {
    asking_ = what;
    view_.prompt = prompt;
    view_.typed = typed;
  };
  const auto sort_by = [&](int by) {
    const auto at = std::find(std::begin(kOrder), std::end(kOrder), view_.sort) - std::begin(kOrder);
    view_.sort = kOrder[(at + by + kColumns) % kColumns];
    view_.cursor = 0;
  };
  const int page = page_rows(shown(), size, view_);
  switch (key) {
    case 'q':
      return Wish::kQuit;
    case kEscape:
      if (view_.page == Page::kMain && !view_.paused && view_.filter.empty()) return Wish::kQuit;
      if (view_.page != Page::kMain) {
        view_.page = Page::kMain;
      } else if (view_.paused) {
        go_on();
      } else {
        view_.filter = Filter();
      }
      break;
    case '?':
    case 'h':
    case kF1:
      go(Page::kHelp);
      break;
    case kF1 + 1:
      go(Page::kSetup);
      break;
    case kF12:
      return Wish::kSave;
    case kF1 + 2:
      ask('f', "find rank, node or call: ", {});
      break;
    case 'n':
    case 'N':
      if (!view_.find.empty()) find(key == 'n');
      break;
    case '/':
    case kF1 + 3:
      ask('/', "filter: ", view_.filter.text());
      break;
    case kF1 + 4:
      go(Page::kLayers);
      break;
    case kF1 + 6:
      go(Page::kCollectives);
      break;
    case '<':
      sort_by(-1);
      break;
    case '>':
    case kF1 + 5:
      sort_by(1);
      break;
    case 'I':
      view_.inverted = !view_.inverted;
      break;
    case ' ':
    case kF1 + 7:
      if (view_.paused) {
        go_on();
      } else {
        step_back(0);
      }
      break;
    case '[':
      step_back(1);
      break;
    case ']':
      step_back(-1);
      break;
    case '{':
      step_back(10);
      break;
    case '}':
      step_back(-10);
      break;
    case 'm':
    case kF1 + 8:
      return Wish::kMark;
    case 'e':
      return Wish::kExport;
    case 'j':
    case kDown:
    case kWheelDown:
      move(1, size);
      break;
    case 'k':
    case kUp:
    case kWheelUp:
      move(-1, size);
      break;
    case kPageDown:
      move(page, size);
      break;
    case kPageUp:
      move(-page, size);
      break;
    case 'g':
    case kHome:
      move(-(1 << 24), size);
      break;
    case kEnd:
      if (view_.paused) {
        go_on();
        break;
      }
      [[fallthrough]];
    case 'G':
      move(1 << 24, size);
      break;
    case kReturn:
    case '\r':
      if (view_.page == Page::kMain) go(Page::kWhy);
      break;
    case kErase:
    case 8:
      view_.page = Page::kMain;
      break;
    case '1':
    case '2':
    case '3':
    case '4':
      view_.panels[key - '1'] = !view_.panels[key - '1'];
      break;
    case 't':
      view_.by_node = !view_.by_node;
      view_.cursor = 0;
      break;
    case '+':
    case '-': {
      const std::vector<Line> lines = visible_lines(shown(), view_);
      if (!view_.by_node || lines.empty()) break;
      const std::string node =
          lines[static_cast<size_t>(std::min<int>(view_.cursor, static_cast<int>(lines.size()) - 1))].row->node;
      std::erase(view_.open_nodes, node);
      if (key == '+') view_.open_nodes.push_back(node);
      move(0, size);
      break;
    }
    case kTab:
      go(view_.page == Page::kLayers || view_.page == Page::kCollectives ? Page::kCollectives : Page::kLayers);
      break;
    case 'w':
      go(Page::kMatrix);
      break;
    case 'M':
      go(Page::kMap);
      break;
    case 'b':
      baseline_ = baseline_ ? nullptr : std::make_shared<const Snapshot>(shown());
      view_.baseline = baseline_.get();
      view_.message = baseline_ ? "differences to this moment; b again: no more" : "";
      break;
    case 'd': {
      const auto next =
          std::find_if(std::begin(kIntervals), std::end(kIntervals), [&](double s) { return s > view_.interval_s; });
      view_.interval_s = next == std::end(kIntervals) ? kIntervals[0] : *next;
      view_.message = fmt::format("a look every {} s", view_.interval_s);
      break;
    }
    default:
      break;
  }
  return Wish::kNothing;
}

void Session::click(int x, int y, Size size) {
  if (empty() || view_.page != Page::kMain) return;
  const Place place = place_at(shown(), size, view_, x, y);
  if (place.line) view_.cursor = *place.line;
  if (place.column) {
    if (view_.sort == *place.column) {
      view_.inverted = !view_.inverted;
    } else {
      view_.sort = *place.column;
      view_.inverted = false;
    }
  }
}

void Session::mark(std::string text) {
  if (!empty() && shown().step) view_.marks.emplace_back(*shown().step, std::move(text));
}

}  // namespace ddl::tui
