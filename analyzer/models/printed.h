// Numbers as somebody printed them: a value and what it may have been before it was rounded. Tables of other people
// carry three digits, and what follows from them is no more certain than those.
#pragma once

#include <string>
#include <string_view>

namespace ddl::models {

/// `value` with so many decimals, halves away from zero in decimal: 3.9 / 4, which a double holds as
/// 0.97499999999999998, is 0.98.
std::string half_up(double value, int decimals);

struct Printed {
  double value = 0, lo = 0, hi = 0;

  static Printed exactly(double value) { return {value, value, value}; }
  /// From "3.9" 3.9, which was 3.85 to 3.95. Throws ddl::Error for what is not a decimal number.
  static Printed parse(std::string_view text);

  /// Some number between `lo` and `hi` is also between those of `other`.
  bool agrees_with(const Printed& other) const;
};

// Both for positive numbers only.
Printed operator*(const Printed& a, const Printed& b);
Printed operator/(const Printed& a, const Printed& b);

enum class Quote { kAgrees, kTruncated, kDisagrees };
/// Whether a printed number follows from `computed`. kTruncated: not rounded but cut off, 16 for 16.6.
Quote check_quote(const Printed& computed, std::string_view printed);

}  // namespace ddl::models
