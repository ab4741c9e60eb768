#include "reports/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "reports/format.h"
#include "reports/safe_text.h"

namespace ddl::reports {
namespace {

constexpr size_t kTitleColumns = 16;

bool is_number(std::string_view word) {
  return !word.empty() && word.find_first_of("0123456789") != std::string_view::npos &&
         word.find_first_not_of("0123456789.,+-") == std::string_view::npos;
}

// Words that belong together: "rank 3", "4.93 ms".
bool glued(std::string_view word, std::string_view next) {
  constexpr std::array<std::string_view, 5> kBefore = {"rank", "ranks", "step", "steps", "Try:"};
  if (std::find(kBefore.begin(), kBefore.end(), word) != kBefore.end())
    return is_number(next.substr(0, next.find_first_of(",.;:)")));
  constexpr std::array<std::string_view, 5> kAfter = {"ns", "us", "ms", "s", "%"};
  const std::string_view unit = next.substr(0, next.find_first_of(",.;:)/"));
  return is_number(word) && std::find(kAfter.begin(), kAfter.end(), unit) != kAfter.end();
}

std::string right_aligned(std::string_view text, size_t width) {
  const size_t have = display_width(text);
  return have >= width ? std::string(text) : std::string(width - have, ' ') + std::string(text);
}

std::string left_aligned(std::string_view text, size_t width) {
  const size_t have = display_width(text);
  return have >= width ? std::string(text) : std::string(text) + std::string(width - have, ' ');
}

class TextReport {
 public:
  TextReport(const Document& document, const TextOptions& options)
      : document_(document),
        options_(options),
        limited_(options.width.has_value()),
        width_(options.width ? std::max(*options.width, kNarrowest) : kComfortable) {}

  std::string render() {
    header();
    if (!document_.alerts.empty()) gap();
    for (const std::string& alert : document_.alerts) paragraph(alert, Style::kAlert, 0, 2);
    findings();
    gap();
    for (const NumberLine& line : document_.lines) number_line(line);
    if (!document_.verdict.empty()) titled("VERDICT", document_.verdict);
    for (const Table& table : document_.tables) {
      const std::string text = render_table(table, options_);
      if (text.empty()) continue;
      gap();
      out_ += text;
    }
    if (!document_.more.empty()) {
      gap();
      items("More: ", document_.more, "     ");
    }
    return std::move(out_);
  }

 private:
  void gap() {
    if (!out_.empty() && !out_.ends_with("\n\n")) out_ += "\n";
  }

  void line(std::string_view text, Style style = Style::kPlain) {
    while (text.ends_with(' ')) text.remove_suffix(1);
    out_ += styled(text, style, options_) + "\n";
  }

  void paragraph(std::string_view text, Style style, size_t first_indent, size_t indent) {
    bool first = true;
    for (const std::string& part : wrap(printable(text), width_ - std::max(indent, first_indent), limited_)) {
      line(std::string(first ? first_indent : indent, ' ') + part, style);
      first = false;
    }
  }

  // Parts side by side, as many per line as fit.
  void items(std::string_view title, const std::vector<std::string>& parts, std::string_view space) {
    std::string current(title);
    bool any = false;
    for (const std::string& raw : parts) {
      std::string part = printable(raw);
      if (any && display_width(current) + space.size() + display_width(part) > width_) {
        line(current);
        current.assign(title.size(), ' ');
        any = false;
      }
      if (limited_) part = shorten_middle(part, width_ - title.size());
      if (any) current += space;
      current += part;
      any = true;
    }
    line(current);
  }

  void header() {
    if (!document_.headline.empty()) {
      std::vector<std::string> parts = document_.headline;
      if (limited_) parts[0] = shorten_middle(printable(parts[0]), width_ / 2);
      items("", parts, "   ");
    }
    if (document_.data.empty()) return;
    std::vector<std::string> parts = document_.data;
    for (size_t i = 0; i + 1 < parts.size(); ++i) parts[i] += ',';
    std::string data = "data:";
    for (const std::string& part : parts) data += ' ' + printable(part);
    const std::string source = printable(document_.source);
    if (display_width(data) + 3 + display_width(source) <= width_) {
      line(left_aligned(data, width_ - display_width(source)) + source);
    } else {
      items("data: ", parts, " ");
      line("      " + (limited_ ? shorten_middle(source, width_ - 6) : source));
    }
  }

  void findings() {
    if (document_.findings.empty()) {
      if (document_.no_finding.empty()) return;
      gap();
      line("WHAT TO FIX", Style::kBold);
      paragraph(document_.no_finding, Style::kPlain, 1, 1);
      return;
    }
    gap();
    // Three right-hand columns: saving, share, how sure.
    constexpr size_t kSaving = 12, kShare = 8, kSure = 8, kNumbers = kSaving + kShare + 2 + kSure;
    const size_t left = width_ - kNumbers;
    line(left_aligned("WHAT TO FIX", left) + right_aligned("saves/" + document_.saving_per, kSaving) +
             right_aligned("share", kShare) + "  how sure",
         Style::kBold);
    int number = 0;
    for (const Finding& finding : document_.findings) {
      const std::vector<std::string> parts = wrap(printable(finding.sentence), left - 4, limited_);
      for (size_t i = 0; i < parts.size(); ++i) {
        std::string text = i == 0 ? fmt::format("{:>2} {}", ++number, parts[i]) : "   " + parts[i];
        if (i == 0)
          text =
              left_aligned(text, left) +
              right_aligned(finding.saving_ns ? sign_of(finding.bound) + short_duration(*finding.saving_ns) : "n/a",
                            kSaving) +
              right_aligned(finding.share_ratio ? sign_of(finding.bound) + percent_text(*finding.share_ratio) : "n/a",
                            kShare) +
              "  " + printable(finding.confidence);
        line(text, i == 0 ? Style::kBold : Style::kPlain);
      }
      if (!finding.evidence.empty()) paragraph(finding.evidence, Style::kPlain, 5, 5);
      if (!finding.try_next.empty()) paragraph("Try: " + finding.try_next, Style::kPlain, 5, 10);
    }
  }

  void titled(std::string_view title, std::string_view text) {
    bool first = true;
    for (const std::string& part : wrap(printable(text), width_ - kTitleColumns, limited_)) {
      out_ +=
          first ? styled(left_aligned(title, kTitleColumns), Style::kBold, options_) : std::string(kTitleColumns, ' ');
      line(part);
      first = false;
    }
  }

  void number_line(const NumberLine& numbers) {
    std::vector<std::string> parts;
    for (const NumberLine::Item& item : numbers.items) {
      std::string part = item.name;
      if (!part.empty()) part += ' ';
      part += line_text(item.value);
      if (!item.note.empty()) part += ' ' + item.note;
      parts.push_back(std::move(part));
    }
    if (!numbers.remark.empty())
      for (const std::string& part : wrap(printable("(" + numbers.remark + ")"), width_ - kTitleColumns, limited_))
        parts.push_back(part);
    const size_t start = out_.size();
    items(left_aligned(numbers.title, kTitleColumns), parts, "   ");
    if (options_.color) out_.replace(start, numbers.title.size(), styled(numbers.title, Style::kBold, options_));
  }

  const Document& document_;
  const TextOptions& options_;
  bool limited_;
  size_t width_;
  std::string out_;
};

}  // namespace

std::string styled(std::string_view text, Style style, const TextOptions& options) {
  if (!options.color || style == Style::kPlain || text.empty()) return std::string(text);
  const bool newline = text.back() == '\n';
  if (newline) text.remove_suffix(1);
  const char* code = style == Style::kBold ? "1" : style == Style::kDim ? "2" : "1;31";
  return fmt::format("\x1b[{}m{}\x1b[0m{}", code, text, newline ? "\n" : "");
}

std::vector<std::string> wrap(std::string_view text, size_t width, bool shorten) {
  std::vector<std::string> words;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(' ', at), text.size());
    const std::string_view word = text.substr(at, end - at);
    if (!word.empty()) {
      const std::string_view last =
          words.empty() ? std::string_view() : std::string_view(words.back()).substr(words.back().rfind(' ') + 1);
      if (!words.empty() && glued(last, word))
        words.back() += ' ' + std::string(word);
      else
        words.emplace_back(word);
    }
    at = end + 1;
  }
  std::vector<std::string> lines(1);
  size_t used = 0;
  for (const std::string& raw : words) {
    const std::string word = shorten ? shorten_middle(raw, width) : raw;
    const size_t columns = display_width(word);
    if (used != 0 && used + 1 + columns > width) {
      lines.emplace_back();
      used = 0;
    }
    if (used != 0) lines.back() += ' ', ++used;
    lines.back() += word;
    used += columns;
  }
  return lines;
}

std::string render_text(const Document& document, const TextOptions& options) {
  return TextReport(document, options).render();
}

}  // namespace ddl::reports
