#include "reports/value.h"

#include <cmath>

namespace ddl::reports {

Value Value::absent(Unit unit, std::string why) {
  Value value(unit, std::monostate{});
  value.why_ = why.empty() ? "NO_DATA" : std::move(why);
  return value;
}

Value::Bound Value::bound_of(std::string_view name) {
  return name == "lower" ? Bound::kLower : name == "upper" ? Bound::kUpper : Bound::kNone;
}

Value Value::bounded(Bound bound) const {
  Value value = *this;
  if (!is_absent()) value.bound_ = bound;
  return value;
}

double Value::as_double() const {
  if (const int64_t* integer = std::get_if<int64_t>(&data_)) return static_cast<double>(*integer);
  return std::get<double>(data_);
}

Value metric_value(const std::optional<double>& value, const std::string& unit, const std::string& why) {
  if (!value) return Value::absent(Unit::kNumber, why);
  if (unit == "ns") return Value::duration_ns(std::llround(*value));
  if (unit == "bytes") return Value::bytes(std::llround(*value));
  if (unit == "bytes/s") return Value::bandwidth(*value);
  return Value::number(*value);
}

bool is_integer(Unit unit) { return unit == Unit::kCount || unit == Unit::kBytes || unit == Unit::kDuration; }

}  // namespace ddl::reports
