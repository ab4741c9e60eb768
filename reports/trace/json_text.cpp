#include "reports/trace/json_text.h"

#include <fmt/format.h>

#include "reports/safe_text.h"

namespace ddl::reports {

std::string json_text(std::string_view text) {
  std::string out = "\"";
  for (size_t offset = 0; offset < text.size();) {
    char32_t code = next_code_point(text, offset);
    if (code == kNotUtf8) code = 0xfffd;
    if (code == '"' || code == '\\') {
      out += '\\';
      out += static_cast<char>(code);
    } else if (code >= 0x20 && code < 0x7f && code != '<') {
      out += static_cast<char>(code);
    } else if (code < 0x10000) {
      out += fmt::format("\\u{:04x}", static_cast<uint32_t>(code));
    } else {
      const uint32_t rest = static_cast<uint32_t>(code) - 0x10000;
      out += fmt::format("\\u{:04x}\\u{:04x}", 0xd800 + (rest >> 10), 0xdc00 + (rest & 0x3ff));
    }
  }
  return out + "\"";
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
