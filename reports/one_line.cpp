// The report in one line, for the log of a batch job: what it was, where its step goes, and the first thing to fix.
#include "reports/text.h"

#include <fmt/format.h>

#include <algorithm>

#include "reports/format.h"
#include "reports/safe_text.h"

namespace ddl::reports {
namespace {

constexpr size_t kLongestName = 60, kLongestSentence = 200;

const NumberLine* line_of(const Document& document, std::string_view id) {
  const auto found =
      std::find_if(document.lines.begin(), document.lines.end(), [&](const NumberLine& line) { return line.id == id; });
  return found == document.lines.end() ? nullptr : &*found;
}

std::string short_text(const std::string& text, size_t columns) { return shorten_middle(printable(text), columns); }

/// "compute / communication raw 1.77, transfer 2.76, exposed 3.54": those that are known.
void add_ratios(const NumberLine& line, std::string& text) {
  const char* before = ", compute / communication";
  for (const NumberLine::Item& item : line.items) {
    if (item.value.is_absent()) continue;
    text += fmt::format("{} {} {}", before, item.name, line_text(item.value));
    before = ",";
  }
}

// "compute 30.0%": those above a tenth of a percent, and those that are not known.
void add_shares(const NumberLine& line, std::string& text) {
  for (const NumberLine::Item& item : line.items)
    if (item.value.is_absent() || item.value.as_double() >= 0.001)
      text += fmt::format(", {} {}", item.name, line_text(item.value));
}

}  // namespace

std::string render_one_line(const Document& document) {
  std::string text = document.headline.empty() ? "ddl" : short_text(document.headline.front(), kLongestName);
  for (size_t i = 1; i < document.headline.size(); ++i)
    text += fmt::format(", {}", short_text(document.headline[i], kLongestName));
  if (const NumberLine* step = line_of(document, "step"); step != nullptr && !step->items.empty())
    text += fmt::format(": {} {}", step->title == "STEP" ? "step" : "run", line_text(step->items.front().value));
  if (const NumberLine* where = line_of(document, "where_it_goes")) add_shares(*where, text);
  if (const NumberLine* ratios = line_of(document, "ccr")) add_ratios(*ratios, text);
  for (std::string alert : document.alerts) {
    if (alert.ends_with('.')) alert.pop_back();
    text += fmt::format("; {}", short_text(alert, kLongestSentence));
  }
  if (!document.loss.empty()) text += "; data are missing";
  if (document.findings.empty())
    text += "; no finding";
  else
    text += fmt::format("; {}, first: {}", plural(static_cast<int64_t>(document.findings.size()), "finding"),
                        short_text(document.findings.front().sentence, kLongestSentence));
  return text + "\n";
}

}  // namespace ddl::reports
