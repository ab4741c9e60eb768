// JSON as a stream of text, for documents too large to be built first.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace ddl::reports {

/// A quoted string in ASCII: everything else, and '<', is escaped; invalid UTF-8 becomes U+FFFD.
std::string json_text(std::string_view text);

/// An object, member by member: {"name": value, ...}.
class JsonObject {
 public:
  JsonObject& text(std::string_view name, std::string_view value) { return raw(name, json_text(value)); }
  JsonObject& integer(std::string_view name, int64_t value) { return raw(name, std::to_string(value)); }
  /// Microseconds with three digits behind the point, which are ns.
  JsonObject& microseconds(std::string_view name, int64_t ns);
  /// `value`: JSON.
  JsonObject& raw(std::string_view name, std::string_view value);
  std::string str() const { return "{" + members_ + "}"; }
  bool empty() const { return members_.empty(); }

 private:
  std::string members_;
};

}  // namespace ddl::reports
