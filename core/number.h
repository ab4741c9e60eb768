// Numbers in text, for all but the code in jobs.
#pragma once

#include <charconv>
#include <optional>
#include <string_view>

namespace ddl {

/// The number that `text` begins with, which is taken off it; nothing, and nothing taken, where there is none
/// or it does not fit.
template <class Number, class... Format>
std::optional<Number> take_number(std::string_view& text, Format... format) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, format...);
  if (error != std::errc()) return std::nullopt;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return number;
}

/// The number that is all of `text`.
template <class Number, class... Format>
std::optional<Number> number_in(std::string_view text, Format... format) {
  const auto number = take_number<Number>(text, format...);
  return text.empty() ? number : std::nullopt;
}

}  // namespace ddl
