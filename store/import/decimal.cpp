#include "store/import/decimal.h"

#include <algorithm>
#include <charconv>

namespace ddl::store {

namespace {

constexpr int64_t kLargest = 4'000'000'000'000'000'000;
constexpr int kMaxExponent = 40;  // beyond, no digits make a number that fits

struct Decimal {
  bool negative = false;
  std::string_view digits, fraction;
  int exponent = 0;
};

bool is_decimal_digit(char c) { return c >= '0' && c <= '9'; }

std::string_view take_digits(std::string_view& text) {
  const size_t count = static_cast<size_t>(std::find_if_not(text.begin(), text.end(), is_decimal_digit) - text.begin());
  const std::string_view digits = text.substr(0, count);
  text.remove_prefix(count);
  return digits;
}

std::optional<Decimal> parse(std::string_view text) {
  Decimal d;
  if (text.starts_with('-') || text.starts_with('+')) {
    d.negative = text[0] == '-';
    text.remove_prefix(1);
  }
  d.digits = take_digits(text);
  if (text.starts_with('.')) {
    text.remove_prefix(1);
    d.fraction = take_digits(text);
  }
  if (d.digits.empty() && d.fraction.empty()) return std::nullopt;
  if (text.starts_with('e') || text.starts_with('E')) {
    text.remove_prefix(1);
    if (text.starts_with('+')) text.remove_prefix(1);
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), d.exponent);
    if (error == std::errc::result_out_of_range) {
      d.exponent = text.starts_with('-') ? -kMaxExponent : kMaxExponent;
    } else if (error != std::errc()) {
      return std::nullopt;
    }
    text.remove_prefix(static_cast<size_t>(end - text.data()));
  }
  if (!text.empty()) return std::nullopt;
  return d;
}

/// The digit at 10^place.
int digit_at(const Decimal& d, int64_t place) {
  const auto at = [](std::string_view digits, int64_t i) {
    return i >= 0 && i < static_cast<int64_t>(digits.size()) ? digits[static_cast<size_t>(i)] - '0' : 0;
  };
  return place >= 0 ? at(d.digits, static_cast<int64_t>(d.digits.size()) - 1 - place) : at(d.fraction, -place - 1);
}

/// As nearly all are: digits, perhaps a point and no more digits behind it than count. Nothing: it takes more to tell.
std::optional<int64_t> plain(std::string_view text, int places) {
  constexpr size_t kMostDigits = 19;  // of an unsigned number of 64 bits
  uint64_t value = 0;
  size_t i = 0, digits = 0;
  for (; i < text.size() && i < kMostDigits && is_decimal_digit(text[i]); ++i, ++digits)
    value = value * 10 + static_cast<uint64_t>(text[i] - '0');
  if (i == 0 || digits + static_cast<size_t>(places) > kMostDigits) return std::nullopt;
  if (i < text.size() && text[i] == '.')
    for (++i; i < text.size() && places > 0 && is_decimal_digit(text[i]); ++i, --places)
      value = value * 10 + static_cast<uint64_t>(text[i] - '0');
  if (i < text.size()) return std::nullopt;
  for (; places > 0; --places) value *= 10;
  return value <= static_cast<uint64_t>(kLargest) ? std::optional(static_cast<int64_t>(value)) : std::nullopt;
}

}  // namespace

std::optional<int64_t> scaled(std::string_view text, int places) {
  if (const std::optional<int64_t> value = plain(text, places)) return value;
  const std::optional<Decimal> d = parse(text);
  if (!d) return std::nullopt;
  const bool zero = std::all_of(d->digits.begin(), d->digits.end(), [](char c) { return c == '0'; }) &&
                    std::all_of(d->fraction.begin(), d->fraction.end(), [](char c) { return c == '0'; });
  if (zero) return 0;
  const int64_t shift = std::clamp(d->exponent, -kMaxExponent, kMaxExponent) + places;
  int64_t value = 0;
  for (int64_t place = static_cast<int64_t>(d->digits.size()) - 1 + shift; place >= 0; --place) {
    value = value * 10 + digit_at(*d, place - shift);
    if (value > kLargest / 10 && place > 0) return std::nullopt;
    if (value > kLargest) return std::nullopt;
  }
  if (digit_at(*d, -1 - shift) >= 5) ++value;
  return d->negative ? -value : value;
}

std::optional<int64_t> whole(std::string_view text) {
  if (const std::optional<int64_t> value = plain(text, 0)) return value;
  const std::optional<int64_t> value = scaled(text, 0);
  const std::optional<Decimal> d = parse(text);
  if (!value || d->exponent < 0) return std::nullopt;
  for (int64_t place = -1 - d->exponent; - place <= static_cast<int64_t>(d->fraction.size()); --place)
    if (digit_at(*d, place) != 0) return std::nullopt;
  return value;
}

}  // namespace ddl::store
