// How a table is fitted to a width: first its names are shortened to a readable length, then the columns that matter
// least are left out (and named below), then names are shortened further. Numbers are never touched.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "reports/format.h"
#include "reports/safe_text.h"
#include "reports/text.h"

namespace ddl::reports {
namespace {

constexpr size_t kReadableName = 24;
constexpr size_t kShortestName = 8;
constexpr int kNeverDropped = 9;

class Grid {
 public:
  Grid(const Table& table, bool brief) : table_(table) {
    for (size_t c = 0; c < table.columns.size(); ++c)
      if (table.columns[c].keep > 0) shown_.push_back(c);
    widths_.resize(table.columns.size());
    for (const Column& column : table.columns) titles_.push_back(printable(column.title));
    for (size_t c = 0; c < titles_.size(); ++c) widths_[c] = display_width(titles_[c]);
    for (const auto& row : table.rows) {
      auto& cells = cells_.emplace_back();
      for (size_t c = 0; c < titles_.size(); ++c) {
        cells.push_back(cell(row[c], brief));
        widths_[c] = std::max(widths_[c], display_width(cells.back()));
      }
    }
  }

  size_t total() const {
    size_t sum = shown_.empty() ? 0 : 1 + 2 * (shown_.size() - 1);
    for (const size_t c : shown_) sum += widths_[c];
    return sum;
  }

  void fit(size_t width) {
    shrink_names(width, kReadableName);
    while (total() > width && drop_column()) {
    }
    shrink_names(width, kShortestName);
  }

  std::string print(const TextOptions& options) const {
    std::string out = styled(line([&](size_t c) { return titles_[c]; }), Style::kDim, options);
    for (const auto& cells : cells_) out += line([&](size_t c) { return cells[c]; });
    return out;
  }

  const std::vector<std::string>& dropped() const { return dropped_; }
  const std::set<std::string>& reasons() const { return reasons_; }

 private:
  std::string cell(const Value& value, bool brief) {
    std::string text = printable(table_text(value));
    if (!brief || value.why().empty() || text == "-") return text;
    reasons_.insert(value.why());
    return "n/a";
  }

  bool is_name(size_t c) const { return table_.columns[c].unit == Unit::kText; }

  void shrink_names(size_t width, size_t shortest) {
    while (total() > width) {
      size_t widest = SIZE_MAX;
      for (const size_t c : shown_)
        if (is_name(c) && widths_[c] > std::max(shortest, display_width(titles_[c])) &&
            (widest == SIZE_MAX || widths_[c] > widths_[widest]))
          widest = c;
      if (widest == SIZE_MAX) return;
      --widths_[widest];
    }
  }

  bool drop_column() {
    auto least = std::min_element(shown_.begin(), shown_.end(),
                                  [&](size_t a, size_t b) { return table_.columns[a].keep < table_.columns[b].keep; });
    if (least == shown_.end() || table_.columns[*least].keep >= kNeverDropped) return false;
    dropped_.push_back(titles_[*least]);
    shown_.erase(least);
    return true;
  }

  template <class Cell>
  std::string line(const Cell& text_of) const {
    std::string out;
    for (const size_t c : shown_) {
      const std::string text = shorten_middle(text_of(c), widths_[c]);
      const std::string padding(widths_[c] - display_width(text), ' ');
      out += out.empty() ? " " : "  ";
      out += is_name(c) ? text + padding : padding + text;
    }
    out.erase(out.find_last_not_of(' ') + 1);
    return out + "\n";
  }

  const Table& table_;
  std::vector<std::string> titles_;
  std::vector<std::vector<std::string>> cells_;
  std::vector<size_t> widths_;
  std::vector<size_t> shown_;  // indices of columns
  std::vector<std::string> dropped_;
  std::set<std::string> reasons_;  // of the brief n/a
};

std::string joined(const auto& words) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : ", ") + word;
  return out;
}

}  // namespace

std::string render_table(const Table& table, const TextOptions& options) {
  const size_t width = options.width ? std::max(*options.width, kNarrowest) : SIZE_MAX;
  std::string out;
  const auto say = [&](const std::string& text, Style style, size_t indent) {
    for (const std::string& line :
         wrap(printable(text), std::min(width, kComfortable) - indent, options.width.has_value()))
      out += std::string(indent, ' ') + styled(line, style, options) + "\n";
  };
  if (table.rows.empty()) {
    if (!table.when_empty.empty()) say(table.when_empty, Style::kPlain, 0);
    return out;
  }
  if (!table.caption.empty()) say(table.caption, Style::kBold, 0);
  // "n/a(PARTIAL_RANKS)" is a wide cell: where it does not fit, the reasons go below the table.
  const bool fits = Grid(table, false).total() <= width;
  Grid grid(table, !fits);
  grid.fit(width);
  out += grid.print(options);
  if (!grid.reasons().empty()) say(fmt::format("n/a: {}", joined(grid.reasons())), Style::kDim, 1);
  if (!grid.dropped().empty())
    say(fmt::format("left out here, too narrow: {}", joined(grid.dropped())), Style::kDim, 1);
  if (!table.note.empty()) say(table.note, Style::kDim, 1);
  return out;
}

}  // namespace ddl::reports
