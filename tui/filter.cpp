#include "tui/filter.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "core/error.h"
#include "tui/snapshot.h"

namespace ddl::tui {
namespace {

[[noreturn]] void fail(std::string_view text, size_t at, std::string_view why) {
  throw Error(fmt::format("filter '{}': {} at column {}", text, why, at + 1),
              "for example: late>5 & node~nid004, rank=8..15", ExitCode::kUsage);
}

size_t skip_blanks(std::string_view text, size_t at) {
  while (at < text.size() && text[at] == ' ') ++at;
  return at;
}

bool number_at(std::string_view text, size_t& at, double& value) {
  const auto is_digit = [&](size_t i) { return i < text.size() && text[i] >= '0' && text[i] <= '9'; };
  size_t end = at < text.size() && text[at] == '-' ? at + 1 : at;
  if (!is_digit(end)) return false;
  while (is_digit(end)) ++end;
  if (end < text.size() && text[end] == '.' && is_digit(end + 1)) {  // not the dots of a range
    for (++end; is_digit(end);) ++end;
  }
  const auto [parsed, error] = std::from_chars(text.data() + at, text.data() + end, value);
  if (error != std::errc() || parsed != text.data() + end) return false;
  at = end;
  return true;
}

}  // namespace

Filter::Filter(std::string_view text) : text_(text) {
  constexpr std::pair<std::string_view, Field> kFields[] = {{"rank", Field::kRank}, {"late", Field::kLate},
                                                            {"wait", Field::kWait}, {"step", Field::kStep},
                                                            {"node", Field::kNode}, {"call", Field::kCall}};
  constexpr std::pair<std::string_view, Compare> kCompares[] = {
      {">=", Compare::kMoreOrEqual}, {"<=", Compare::kLessOrEqual}, {"!=", Compare::kNotEqual},
      {"~", Compare::kContains},     {">", Compare::kMore},         {"<", Compare::kLess},
      {"=", Compare::kEqual}};
  for (size_t at = skip_blanks(text, 0); at < text.size();) {
    Term term{};
    const size_t begin = at;
    while (at < text.size() && text[at] >= 'a' && text[at] <= 'z') ++at;
    const auto field = std::find_if(std::begin(kFields), std::end(kFields),
                                    [&](const auto& f) { return f.first == text.substr(begin, at - begin); });
    if (field == std::end(kFields)) fail(text, begin, "expected rank, late, wait, step, node or call");
    term.field = field->second;
    at = skip_blanks(text, at);
    const auto compare = std::find_if(std::begin(kCompares), std::end(kCompares),
                                      [&](const auto& c) { return text.substr(at).starts_with(c.first); });
    if (compare == std::end(kCompares)) fail(text, at, "expected = != < <= > >= or ~");
    term.compare = compare->second;
    const bool is_text = term.field == Field::kNode || term.field == Field::kCall;
    const bool fits = term.compare == Compare::kEqual || term.compare == Compare::kNotEqual ||
                      (term.compare == Compare::kContains) == is_text;
    if (!fits) fail(text, at, is_text ? "expected = != or ~" : "~ is for node and call");
    at = skip_blanks(text, at + compare->first.size());
    const size_t value = at;
    if (is_text) {
      while (at < text.size() && text[at] != '&') ++at;
      term.word = text.substr(value, at - value);
      while (term.word.ends_with(' ')) term.word.pop_back();
      if (term.word.empty()) fail(text, value, "expected a text");
    } else if (term.compare == Compare::kEqual || term.compare == Compare::kNotEqual) {
      for (;;) {
        double first = 0;
        if (!number_at(text, at, first)) fail(text, at, "expected a number");
        double last = first;
        if (text.substr(at).starts_with("..")) {
          at += 2;
          if (!number_at(text, at, last)) fail(text, at, "expected a number");
        }
        term.ranges.emplace_back(first, last);
        if (at >= text.size() || text[at] != ',') break;
        ++at;
      }
    } else if (!number_at(text, at, term.number)) {
      fail(text, at, "expected a number");
    }
    terms_.push_back(std::move(term));
    at = skip_blanks(text, at);
    if (at == text.size()) break;
    if (text[at] != '&') fail(text, at, "expected &");
    at = skip_blanks(text, at + 1);
    if (at == text.size()) fail(text, at, "expected rank, late, wait, step, node or call");
  }
}

bool Filter::matches(const RankRow& row) const {
  return std::all_of(terms_.begin(), terms_.end(), [&](const Term& t) {
    if (t.field == Field::kNode || t.field == Field::kCall) {
      const std::string& text = t.field == Field::kNode ? row.node : row.call;
      const bool hit = t.compare == Compare::kContains ? text.find(t.word) != std::string::npos : text == t.word;
      return hit != (t.compare == Compare::kNotEqual);
    }
    const auto in_ms = [](const std::optional<double>& ns) { return ns ? std::optional(*ns * 1e-6) : std::nullopt; };
    const std::optional<double> value = t.field == Field::kRank   ? std::optional(static_cast<double>(row.rank))
                                        : t.field == Field::kLate ? in_ms(row.late_ns)
                                        : t.field == Field::kWait ? in_ms(row.wait_ns)
                                                                  : in_ms(row.step_ns);
    if (!value) return false;
    const bool inside = std::any_of(t.ranges.begin(), t.ranges.end(),
                                    [&](const auto& r) { return *value >= r.first && *value <= r.second; });
    switch (t.compare) {
      case Compare::kEqual:
        return inside;
      case Compare::kNotEqual:
        return !inside;
      case Compare::kLess:
        return *value < t.number;
      case Compare::kLessOrEqual:
        return *value <= t.number;
      case Compare::kMore:
        return *value > t.number;
      case Compare::kMoreOrEqual:
        return *value >= t.number;
      case Compare::kContains:
        break;
    }
    return false;
  });
}

}  // namespace ddl::tui
