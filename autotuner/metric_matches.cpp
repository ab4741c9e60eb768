#include "autotuner/metric_matches.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <istream>
#include <regex>
#include <string_view>

#include "core/error.h"
#include "core/number.h"

namespace ddl::tune {
namespace {

constexpr size_t kMostCharacters = 4096;  // the library's matcher needs stack for every character

bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }
bool is_exponent(char c) { return c == 'e' || c == 'E'; }
bool is_sign(char c) { return c == '+' || c == '-'; }
bool is_separator(char c) { return c == '.' || c == ',' || c == '\''; }

/// Whether a number that ends before `at` goes on there, or one that begins there has begun before: digits follow one
/// another, and signs only count between digits.
bool is_within_number(std::string_view line, size_t at) {
  if (at == 0 || at >= line.size()) return false;
  const auto digit = [&](size_t i) { return i < line.size() && is_digit(line[i]); };
  const auto mantissa_before = [&](size_t i) { return i > 0 && (digit(i - 1) || line[i - 1] == '.'); };
  const char before = line[at - 1], here = line[at];
  if (is_separator(here)) return is_digit(before) && digit(at + 1);
  if (is_exponent(here))
    return mantissa_before(at) && (digit(at + 1) || (at + 1 < line.size() && is_sign(line[at + 1])));
  if (is_sign(here)) return is_exponent(before) && mantissa_before(at - 1) && digit(at + 1);
  if (!is_digit(here)) return false;
  if (is_separator(before)) return at >= 2 && digit(at - 2);
  if (is_exponent(before)) return mantissa_before(at - 1);
  if (is_sign(before)) return at >= 2 && is_exponent(line[at - 2]) && mantissa_before(at - 2);
  return is_digit(before);
}

/// The characters of a number around [begin, end).
std::string whole_number(std::string_view line, size_t begin, size_t end) {
  while (begin > 0 && is_within_number(line, begin)) --begin;
  while (end < line.size() && is_within_number(line, end)) ++end;
  return std::string(line.substr(begin, end - begin));
}

void add_matches(std::string_view line, const std::regex& pattern, std::vector<MetricMatch>& matches) {
  const bool is_cut = line.size() > kMostCharacters;
  line = line.substr(0, kMostCharacters);
  for (std::cregex_iterator match(line.data(), line.data() + line.size(), pattern), none; match != none; ++match) {
    if (!(*match)[1].matched) continue;
    const auto begin = static_cast<size_t>(match->position(1));
    std::string_view rest = line.substr(begin, static_cast<size_t>(match->length(1)));
    MetricMatch found{std::string(rest)};
    const auto number = take_number<double>(rest);
    const size_t end = begin + found.text.size() - rest.size();
    if (is_cut && end == line.size()) break;  // nobody knows how it goes on
    // A pattern that goes on before or behind its parentheses says itself what stands there.
    const bool begins_early = match->position(1) == match->position(0) && is_within_number(line, begin);
    const bool ends_late = (!rest.empty() || (*match)[1].second == (*match)[0].second) && is_within_number(line, end);
    if (number && (begins_early || ends_late)) found.whole = whole_number(line, begin, end);
    matches.push_back(std::move(found));
  }
}

}  // namespace

std::vector<MetricMatch> matches_in(std::istream& text, const std::string& pattern) {
  std::vector<MetricMatch> matches;
  const std::regex compiled(pattern);
  for (std::string lines; std::getline(text, lines);) {
    for (size_t begin = 0; begin <= lines.size();) {
      const size_t end = std::min(lines.find('\r', begin), lines.size());
      add_matches(std::string_view(lines).substr(begin, end - begin), compiled, matches);
      begin = end + 1;
    }
  }
  return matches;
}

std::vector<double> numbers_of(const std::vector<MetricMatch>& matches) {
  std::vector<double> numbers;
  for (const MetricMatch& match : matches) {
    if (!match.whole.empty())
      throw Error(
          fmt::format("'{}' of '{}' is not the whole number: the number goes on {} the match", match.text, match.whole,
                      match.whole.starts_with(match.text) ? "behind" : "before"),
          "take exponents into the parentheses, such as ([0-9.e+-]+), and let the job print no thousands separators; "
          "in a list write what follows the number behind them: ([0-9.]+),");
    if (const auto number = number_in<double>(match.text)) numbers.push_back(*number);
  }
  return numbers;
}

}  // namespace ddl::tune
