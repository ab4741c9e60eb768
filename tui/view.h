// The user's choices on the screen: pure state, changed by actions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tui/filter.h"
#include "tui/frame.h"
#include "tui/snapshot.h"

namespace ddl::tui {

/// Letters, boxes and colour as the terminal can show them.
struct Theme {
  bool unicode = true;
};

enum class Page { kMain, kHelp, kSetup, kWhy, kMatrix, kMap, kLayers, kCollectives };
enum class Column : uint8_t { kRank, kNode, kLate, kWait, kStep, kGpu };
constexpr int kColumns = 6;
const char* name_of(Column column);

struct View {
  Page page = Page::kMain;
  Column sort = Column::kLate;
  bool inverted = false;
  bool by_node = false;
  bool paused = false;
  int back = 0;                               ///< snapshots before the newest one, while paused
  int cursor = 0;                             ///< row among those shown
  int scroll = 0;                             ///< of pages
  bool panels[4] = {true, true, true, true};  ///< ranks, layers, collectives, history
  double interval_s = 1;
  Filter filter;
  std::string prompt;  ///< what is being typed; empty: no prompt
  std::string typed;
  std::string message;  ///< one line about the last action
  std::string find;
  std::vector<std::string> open_nodes;
  const Snapshot* baseline = nullptr;
  std::vector<std::pair<uint64_t, std::string>> marks;  ///< step, text
};

/// A line of the rank table: a rank, or a node with its worst rank.
struct Line {
  const RankRow* row = nullptr;
  bool node = false;  ///< stands for all ranks of row->node
  int ranks = 1;
  bool inside = false;  ///< a rank below its node
};

/// What is at a position of the screen.
struct Place {
  std::optional<int> line;  ///< of visible_lines()
  std::optional<Column> column;
};
Place place_at(const Snapshot& s, Size size, const View& view, int x, int y);

/// Filtered, grouped and sorted: the culprit first.
std::vector<Line> visible_lines(const Snapshot& s, const View& view);

}  // namespace ddl::tui
