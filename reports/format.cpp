#include "reports/format.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "analyzer/models/printed.h"

namespace ddl::reports {
namespace {

// `digits` significant ones, without an exponent.
std::string significant(double number, int digits) {
  if (number == 0) return "0";
  const auto decimals = [&](double x) {
    return std::max(0, digits - 1 - static_cast<int>(std::floor(std::log10(std::abs(x)))));
  };
  const int first = decimals(number);
  // Rounding may carry into one more digit before the point: 9.9996 -> 10.000.
  const double scale = std::pow(10.0, first);
  const double rounded = std::round(number * scale) / scale;
  return fmt::format("{:.{}f}", number, rounded == 0 ? first : std::min(first, decimals(rounded)));
}

struct TimeUnit {
  const char* name;
  double ns;
};
constexpr TimeUnit kTimeUnits[] = {{"us", 1e3}, {"ms", 1e6}, {"s", 1e9}};

std::string scaled_duration(int64_t duration_ns, int digits, std::string_view space) {
  const double ns = static_cast<double>(duration_ns);
  if (std::abs(ns) < 1e3) return fmt::format("{}{}ns", duration_ns, space);
  const TimeUnit* unit = kTimeUnits;
  // The next unit as soon as this one would round to 1000.
  const double limit = 1000 - 0.5 * std::pow(10.0, 3 - digits);
  while (unit->ns < 1e9 && std::abs(ns) / unit->ns >= limit) ++unit;
  return fmt::format("{}{}{}", significant(ns / unit->ns, digits), space, unit->name);
}

std::string absent_text(const Value& value) {
  if (value.why().empty()) return "";
  return value.why() == "NOT_APPLICABLE" ? "-" : fmt::format("n/a({})", value.why());
}

}  // namespace

std::string table_duration(int64_t duration_ns) { return scaled_duration(duration_ns, 5, ""); }

std::string short_duration(int64_t duration_ns) {
  const int64_t seconds = (duration_ns + 500'000'000) / 1'000'000'000;
  if (duration_ns < 59'950'000'000) return scaled_duration(duration_ns, 3, " ");
  if (seconds < 3600) return fmt::format("{}m {:02}s", seconds / 60, seconds % 60);
  return fmt::format("{}h {:02}m", seconds / 3600, seconds % 3600 / 60);
}

std::string size_text(int64_t bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double size = static_cast<double>(bytes);
  size_t unit = 0;
  while (std::abs(size) >= 999.5 && unit + 1 < std::size(kUnits) && bytes >= 1024) size /= 1024, ++unit;
  if (unit == 0) return fmt::format("{}B", bytes);
  std::string digits = significant(size, 3);
  if (digits.find('.') != std::string::npos) {  // 1.50 -> 1.5, 104.0 -> 104
    digits.erase(digits.find_last_not_of('0') + 1);
    if (digits.back() == '.') digits.pop_back();
  }
  return digits + kUnits[unit];
}

std::string bandwidth_text(double bytes_per_second) {
  constexpr const char* kUnits[] = {"B/s", "kB/s", "MB/s", "GB/s", "TB/s"};
  size_t unit = 0;
  while (std::abs(bytes_per_second) >= 999.5 && unit + 1 < std::size(kUnits)) bytes_per_second /= 1000, ++unit;
  return significant(bytes_per_second, 3) + kUnits[unit];
}

std::string percent_text(double ratio) { return models::half_up(ratio * 100, 1) + "%"; }

std::string number_text(double number) {
  if (!std::isfinite(number)) return "n/a(ZERO_DENOM)";
  if (number != 0 && (std::abs(number) < 1e-4 || std::abs(number) >= 1e9)) return fmt::format("{:.2e}", number);
  return significant(number, 3);
}

std::string count_text(int64_t count) {
  const std::string digits = std::to_string(count);
  std::string grouped;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > (count < 0 ? 1u : 0u) && (digits.size() - i) % 3 == 0) grouped += ',';
    grouped += digits[i];
  }
  return grouped;
}

namespace {

std::string plain_text(const Value& value) {
  switch (value.unit()) {
    case Unit::kText:
      return value.as_text();
    case Unit::kCount:
      return std::to_string(value.as_integer());
    case Unit::kNumber:
      return number_text(value.as_double());
    case Unit::kBytes:
      return size_text(value.as_integer());
    case Unit::kDuration:
      return table_duration(value.as_integer());
    case Unit::kRatio:
      return percent_text(value.as_double());
    case Unit::kShare:
      return fmt::format("{:.2f}%", value.as_double() * 100);
    case Unit::kReal:
      return fmt::format("{}", value.as_double());
    case Unit::kBandwidth:
      return bandwidth_text(value.as_double());
    case Unit::kEfficiency:
      return models::half_up(value.as_double(), 2);
    case Unit::kFactor:
      return models::half_up(value.as_double(), 3);
  }
  return {};
}

}  // namespace

const char* sign_of(Value::Bound bound) {
  constexpr const char* kSigns[] = {"", ">=", "<="};
  return kSigns[static_cast<size_t>(bound)];
}

const char* words_of(Value::Bound bound) {
  constexpr const char* kWords[] = {"", "at least ", "at most "};
  return kWords[static_cast<size_t>(bound)];
}

std::string table_text(const Value& value) {
  if (value.is_absent()) return absent_text(value);
  return sign_of(value.bound()) + plain_text(value);
}

std::string line_text(const Value& value) {
  if (value.is_absent()) return fmt::format("n/a({})", value.why());
  return words_of(value.bound()) + (value.unit() == Unit::kDuration ? short_duration(value.as_integer())
                                    : value.unit() == Unit::kCount  ? count_text(value.as_integer())
                                                                    : plain_text(value));
}

std::string plural(int64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count_text(count), noun, count == 1 ? "" : noun.ends_with('s') ? "es" : "s");
}

std::string rank_list(std::vector<int64_t> ranks, size_t most) {
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  std::string list;
  size_t groups = 0;
  for (size_t i = 0; i < ranks.size(); ++groups) {
    if (groups == most) return list + fmt::format(", ... ({} in all)", ranks.size());
    size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    if (!list.empty()) list += ", ";
    list +=
        last == i ? std::to_string(ranks[i]) : fmt::format("{}{}{}", ranks[i], last == i + 1 ? ", " : "-", ranks[last]);
    i = last + 1;
  }
  return list;
}

}  // namespace ddl::reports
