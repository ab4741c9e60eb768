// One number or name of a report, independent of its printed form: JSON wants integer nanoseconds, the text "4.9333ms".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace ddl::reports {

enum class Unit { kText, kCount, kNumber, kBytes, kDuration, kRatio, kShare, kBandwidth, kReal, kEfficiency, kFactor };

/// Absent is not zero: a value without data carries the reason instead (NO_DATA, ZERO_DENOM, CLOCK_UNTRUSTED,
/// PARTIAL_RANKS, NOT_APPLICABLE).
class Value {
 public:
  static Value text(std::string text) { return Value(Unit::kText, std::move(text)); }
  static Value count(int64_t count) { return Value(Unit::kCount, count); }
  static Value number(double number) { return Value(Unit::kNumber, number); }
  static Value bytes(int64_t bytes) { return Value(Unit::kBytes, bytes); }
  static Value duration_ns(int64_t duration_ns) { return Value(Unit::kDuration, duration_ns); }
  static Value ratio(double ratio) { return Value(Unit::kRatio, ratio); }
  /// a ratio of which two decimals of the percentage are shown
  static Value share(double ratio) { return Value(Unit::kShare, ratio); }
  static Value bandwidth(double bytes_per_second) { return Value(Unit::kBandwidth, bytes_per_second); }
  static Value real(double number) { return Value(Unit::kReal, number); }            ///< printed in full
  static Value efficiency(double ratio) { return Value(Unit::kEfficiency, ratio); }  ///< 0.98: two decimals, halves up
  /// 1.179: three decimals, halves up
  static Value factor(double factor) { return Value(Unit::kFactor, factor); }
  static Value of(Unit unit, int64_t number) { return Value(unit, number); }  ///< of a unit that is_integer()
  static Value of(Unit unit, double number) { return Value(unit, number); }   ///< of one that is not
  static Value absent(Unit unit, std::string why = "NO_DATA");

  /// An unknown number with a lower or upper bound (specification.md J7).
  enum class Bound { kNone, kLower, kUpper };
  Value bounded(Bound bound) const;
  /// "lower", "upper"; else kNone.
  static Bound bound_of(std::string_view name);

  static Value null(Unit unit) { return Value(unit, std::monostate{}); }  ///< absent, reason unknown

  Unit unit() const { return unit_; }
  bool is_absent() const { return std::holds_alternative<std::monostate>(data_); }
  const std::string& why() const { return why_; }
  Bound bound() const { return bound_; }
  /// The text of a kText value.
  const std::string& as_text() const { return std::get<std::string>(data_); }
  /// kCount, kBytes, kDuration. The unit says which of the three accessors is right.
  int64_t as_integer() const { return std::get<int64_t>(data_); }
  /// Any numeric unit.
  double as_double() const;

 private:
  using Data = std::variant<std::monostate, std::string, int64_t, double>;
  Value(Unit unit, Data data) : unit_(unit), data_(std::move(data)) {}

  Unit unit_;
  Data data_;
  std::string why_;
  Bound bound_ = Bound::kNone;
};

/// A metric's value, in the unit that its file names: "ns", "bytes", "bytes/s", else a plain number.
Value metric_value(const std::optional<double>& value, const std::string& unit, const std::string& why);

/// kCount, kBytes and kDuration are integers, the others are not.
bool is_integer(Unit unit);

}  // namespace ddl::reports
