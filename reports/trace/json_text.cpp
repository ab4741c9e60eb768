#include "reports/trace/json_text.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace ddl::reports {

std::string json_text(std::string_view text) {
  using nlohmann::json;
  std::string out;
  for (const char c : json(text).dump(-1, ' ', true, json::error_handler_t::replace))
    out += c == '<' ? std::string("\\u003c") : std::string(1, c);
  return out;
}

JsonObject& JsonObject::microseconds(std::string_view name, int64_t ns) {
  constexpr uint64_t kNsPerUs = 1000;
  const uint64_t magnitude = ns < 0 ? 0 - static_cast<uint64_t>(ns) : static_cast<uint64_t>(ns);
  return raw(name, fmt::format("{}{}.{:03}", ns < 0 ? "-" : "", magnitude / kNsPerUs, magnitude % kNsPerUs));
}

JsonObject& JsonObject::raw(std::string_view name, std::string_view value) {
  if (!members_.empty()) members_ += ", ";
  members_ += json_text(name);
  members_ += ": ";
  members_ += value;
  return *this;
}

}  // namespace ddl::reports
