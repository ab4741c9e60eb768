// A screen as a grid of cells; terminals, text files and tests all get a copy of it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ddl::tui {

struct Size {
  int width = 80;
  int height = 24;
};
constexpr Size kSmallest{20, 5}, kLargest{1000, 400};

enum class Style : uint8_t {
  kPlain,
  kDim,
  kBold,
  kTitle,
  kHeader,  ///< of columns
  kAlarm,
  kKey,
  kCompute,  ///< the categories, in the order of Category
  kOverlapped,
  kTransfer,
  kWaiting,
  kCopy,
  kIdle,
};
constexpr int kStyles = 13;

struct Cell {
  char32_t glyph = U' ';  ///< 0: the second half of a wide character
  Style style = Style::kPlain;
  bool selected = false;
  friend bool operator==(const Cell&, const Cell&) = default;
};

class Frame {
 public:
  /// `ascii`: other characters become question marks.
  explicit Frame(Size size, bool ascii = false);

  int width() const { return size_.width; }
  int height() const { return size_.height; }
  const Cell& at(int x, int y) const { return cells_[static_cast<size_t>(y * size_.width + x)]; }

  /// Writes `text` from (x, y) on, made harmless (reports/safe_text.h) and cut before column `end` (and at the frame's
  /// edge). Returns the column behind it.
  int put(int x, int y, std::string_view text, Style style, int end = INT32_MAX);
  /// The same, ending before column `end`. Writes nothing if it does not fit in [x, end).
  void put_right(int x, int y, std::string_view text, Style style, int end);
  void put_glyph(int x, int y, char32_t glyph, Style style);
  void select_row(int x, int y, int end);

  /// Lines without trailing blanks, UTF-8.
  std::string text() const;

 private:
  Size size_;
  bool ascii_;
  std::vector<Cell> cells_;
};

std::string utf8(char32_t code);

}  // namespace ddl::tui
