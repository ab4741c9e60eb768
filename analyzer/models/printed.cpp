#include "analyzer/models/printed.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/error.h"
#include "core/number.h"

namespace ddl::models {
namespace {

// What the quotient of two decimals may be off by as a double, and more than enough.
constexpr double kPrintedRounding = 1e-14;
/// Intervals of printed digits touch: 0.975 is the end of both.
constexpr double kTouch = 1e-12;

/// One unit of the last printed digit; not finite if the exponent is beyond reason.
double last_digit(std::string_view text) {
  const size_t exponent_at = std::min(text.find_first_of("eE"), text.size());
  const std::string_view digits = text.substr(0, exponent_at);
  const size_t point = digits.find('.');
  double unit = point == std::string_view::npos ? 1 : std::pow(10.0, -static_cast<double>(digits.size() - point - 1));
  if (exponent_at == text.size()) return unit;
  std::string_view exponent = text.substr(exponent_at + 1);
  if (exponent.starts_with('+')) exponent.remove_prefix(1);
  const auto value = take_number<int>(exponent);
  return value ? unit * std::pow(10.0, *value) : std::numeric_limits<double>::infinity();
}

}  // namespace

std::string half_up(double value, int decimals) {
  const double scale = std::pow(10.0, decimals);
  const double digits = std::floor(std::abs(value) * scale * (1 + kPrintedRounding) + 0.5) / scale;
  return fmt::format("{:.{}f}", value < 0 && digits > 0 ? -digits : digits, decimals);
}

Printed Printed::parse(std::string_view text) {
  const auto value = number_in<double>(text);
  const double half = value ? last_digit(text) / 2 : 0;
  if (!value || !std::isfinite(*value) || !std::isfinite(half))
    throw Error(fmt::format("invalid decimal number '{}'", text), "such as 12.5", ExitCode::kDataMissing);
  return {*value, *value - half, *value + half};
}

bool Printed::agrees_with(const Printed& other) const {
  const double slack = kTouch * std::max(std::abs(value), std::abs(other.value));
  return lo <= other.hi + slack && other.lo <= hi + slack;
}

Printed operator*(const Printed& a, const Printed& b) { return {a.value * b.value, a.lo * b.lo, a.hi * b.hi}; }

Printed operator/(const Printed& a, const Printed& b) { return {a.value / b.value, a.lo / b.hi, a.hi / b.lo}; }

Quote check_quote(const Printed& computed, std::string_view printed) {
  const Printed quoted = Printed::parse(printed);
  if (computed.agrees_with(quoted)) return Quote::kAgrees;
  const Printed cut = {quoted.value, quoted.value, quoted.value + last_digit(printed)};
  return computed.agrees_with(cut) ? Quote::kTruncated : Quote::kDisagrees;
}

}  // namespace ddl::models
