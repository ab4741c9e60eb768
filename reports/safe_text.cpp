#include "reports/safe_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <vector>

namespace ddl::reports {
namespace {

struct CodeRange {
  char32_t first, last;
};

constexpr CodeRange kWide[] = {
    {0x1100, 0x115f},   {0x231a, 0x231b},   {0x2329, 0x232a},   {0x23e9, 0x23ec},  {0x25fd, 0x25fe}, {0x2614, 0x2615},
    {0x2648, 0x2653},   {0x267f, 0x267f},   {0x2693, 0x2693},   {0x26a1, 0x26a1},  {0x26aa, 0x26ab}, {0x26bd, 0x26be},
    {0x26c4, 0x26c5},   {0x26ce, 0x26ce},   {0x26d4, 0x26d4},   {0x26ea, 0x26ea},  {0x26f2, 0x26f5}, {0x26fa, 0x26fd},
    {0x2705, 0x2705},   {0x270a, 0x270b},   {0x2728, 0x2728},   {0x274c, 0x2757},  {0x2795, 0x2797}, {0x27b0, 0x27bf},
    {0x2b1b, 0x2b1c},   {0x2b50, 0x2b55},   {0x2e80, 0x303e},   {0x3041, 0x4dbf},  {0x4e00, 0xa4cf}, {0xa960, 0xa97c},
    {0xac00, 0xd7a3},   {0xf900, 0xfaff},   {0xfe10, 0xfe19},   {0xfe30, 0xfe6f},  {0xff00, 0xff60}, {0xffe0, 0xffe6},
    {0x16fe0, 0x18cff}, {0x1aff0, 0x1b2ff}, {0x1f000, 0x1faff}, {0x20000, 0x3fffd}};

// What takes no column, turns the direction of the line, or is not a character at all.
constexpr CodeRange kInvisible[] = {
    {0x0000, 0x001f},   {0x007f, 0x009f},   {0x00ad, 0x00ad},   {0x0300, 0x036f},   {0x0483, 0x0489},
    {0x0590, 0x08ff},   {0x0e31, 0x0e31},   {0x0e34, 0x0e3a},   {0x0e47, 0x0e4e},   {0x115f, 0x1160},
    {0x17b4, 0x17b5},   {0x180b, 0x180f},   {0x1ab0, 0x1aff},   {0x1dc0, 0x1dff},   {0x200b, 0x200f},
    {0x2028, 0x202e},   {0x2060, 0x206f},   {0x20d0, 0x20ff},   {0x302a, 0x302d},   {0x3099, 0x309a},
    {0x3164, 0x3164},   {0xd800, 0xf8ff},   {0xfb1d, 0xfdff},   {0xfe00, 0xfe0f},   {0xfe20, 0xfe2f},
    {0xfe70, 0xfeff},   {0xffa0, 0xffa0},   {0xfff0, 0xffff},   {0x10800, 0x10fff}, {0x1d165, 0x1d169},
    {0x1d16d, 0x1d182}, {0x1e800, 0x1efff}, {0x1f3fb, 0x1f3ff}, {0xe0000, 0x10ffff}};

template <size_t n>
bool contains(const CodeRange (&ranges)[n], char32_t code) {
  const CodeRange* range = std::lower_bound(std::begin(ranges), std::end(ranges), code,
                                            [](const CodeRange& r, char32_t c) { return r.last < c; });
  return range != std::end(ranges) && range->first <= code;
}

}  // namespace

char32_t next_code_point(std::string_view text, size_t& offset) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(offset++);
  if (lead < 0x80) return lead;
  const size_t more = lead >= 0xf0 ? 3 : lead >= 0xe0 ? 2 : 1;
  if (lead < 0xc2 || lead > 0xf4 || offset + more > text.size()) return kNotUtf8;
  char32_t code = lead & (0x3fu >> more);
  for (size_t i = 0; i < more; ++i) {
    if ((byte(offset + i) & 0xc0) != 0x80) return kNotUtf8;
    code = code << 6 | (byte(offset + i) & 0x3f);
  }
  constexpr char32_t kSmallest[] = {0, 0x80, 0x800, 0x10000};  // anything smaller was written longer than it need be
  if (code < kSmallest[more] || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff)) return kNotUtf8;
  offset += more;
  return code;
}

std::string printable(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t offset = 0; offset < text.size();) {
    const size_t start = offset;
    const char32_t code = next_code_point(text, offset);
    if (code == kNotUtf8 || code < 0x20 || code == 0x7f) {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[start]));
    } else if (contains(kInvisible, code)) {
      out += fmt::format("\\u{{{:x}}}", static_cast<uint32_t>(code));
    } else {
      out += text.substr(start, offset - start);
    }
  }
  return out;
}

size_t display_width(std::string_view text) {
  size_t width = 0;
  for (size_t offset = 0; offset < text.size();) width += contains(kWide, next_code_point(text, offset)) ? 2 : 1;
  return width;
}

std::string shorten_middle(std::string_view text, size_t width) {
  if (display_width(text) <= width) return std::string(text);
  constexpr std::string_view kGap = "..";
  if (width <= kGap.size()) return std::string(kGap.substr(0, width));
  std::vector<size_t> starts;  // of the code points
  for (size_t offset = 0; offset < text.size(); next_code_point(text, offset)) starts.push_back(offset);
  starts.push_back(text.size());

  // Take characters from both ends in turn while they fit.
  size_t left = width - kGap.size();
  size_t head = 0, tail = starts.size() - 1;
  for (bool front = true;; front = !front) {
    const size_t i = front ? head : tail - 1;
    const size_t columns = display_width(text.substr(starts[i], starts[i + 1] - starts[i]));
    if (columns > left) break;
    left -= columns;
    front ? ++head : --tail;
  }
  return fmt::format("{}{}{}", text.substr(0, starts[head]), kGap, text.substr(starts[tail]));
}

}  // namespace ddl::reports
