#include "tui/frame.h"

#include <algorithm>

#include "reports/safe_text.h"

namespace ddl::tui {

Frame::Frame(Size size, bool ascii)
    : size_{std::clamp(size.width, 1, kLargest.width), std::clamp(size.height, 1, kLargest.height)},
      ascii_(ascii),
      cells_(static_cast<size_t>(size_.width * size_.height)) {}

int Frame::put(int x, int y, std::string_view text, Style style, int end) {
  if (y < 0 || y >= size_.height || x < 0) return x;
  end = std::min(end, size_.width);
  const std::string harmless = reports::printable(text);
  for (size_t offset = 0; offset < harmless.size() && x < end;) {
    const size_t begin = offset;
    const char32_t code = reports::next_code_point(harmless, offset);
    const auto columns =
        ascii_ && code >= 0x80
            ? 1
            : static_cast<int>(reports::display_width(std::string_view(harmless).substr(begin, offset - begin)));
    if (x + columns > end) break;
    Cell& cell = cells_[static_cast<size_t>(y * size_.width + x)];
    cell.glyph = ascii_ && code >= 0x80 ? U'?' : code;
    cell.style = style;
    if (columns == 2) cells_[static_cast<size_t>(y * size_.width + x + 1)] = {0, style, cell.selected};
    x += columns;
  }
  return x;
}

void Frame::put_right(int x, int y, std::string_view text, Style style, int end) {
  const int columns = static_cast<int>(reports::display_width(text));
  if (columns <= end - x && end <= size_.width) put(end - columns, y, text, style, end);
}

void Frame::put_glyph(int x, int y, char32_t glyph, Style style) {
  if (x < 0 || y < 0 || x >= size_.width || y >= size_.height) return;
  Cell& cell = cells_[static_cast<size_t>(y * size_.width + x)];
  cell.glyph = glyph;
  cell.style = style;
}

void Frame::select_row(int x, int y, int end) {
  if (y < 0 || y >= size_.height) return;
  for (; x < std::min(end, size_.width); ++x) cells_[static_cast<size_t>(y * size_.width + x)].selected = true;
}

std::string Frame::text() const {
  std::string all;
  for (int y = 0; y < size_.height; ++y) {
    std::string line;
    size_t used = 0;
    for (int x = 0; x < size_.width; ++x) {
      const char32_t glyph = at(x, y).glyph;
      if (glyph == 0) continue;
      line += utf8(glyph);
      if (glyph != U' ') used = line.size();
    }
    all += line.substr(0, used) + "\n";
  }
  return all;
}

std::string utf8(char32_t code) {
  const auto byte = [](char32_t value) { return static_cast<char>(value); };
  if (code < 0x80) return {byte(code)};
  if (code < 0x800) return {byte(0xc0 | code >> 6), byte(0x80 | (code & 0x3f))};
  if (code < 0x10000) return {byte(0xe0 | code >> 12), byte(0x80 | (code >> 6 & 0x3f)), byte(0x80 | (code & 0x3f))};
  return {byte(0xf0 | code >> 18), byte(0x80 | (code >> 12 & 0x3f)), byte(0x80 | (code >> 6 & 0x3f)),
          byte(0x80 | (code & 0x3f))};
}

}  // namespace ddl::tui
