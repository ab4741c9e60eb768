// The wire format of protocol buffers for a writer: a message is its fields one behind the other, a field is its number
// and wire type as a varint, and the value. Writing a trace needs no more, and so no library.
#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>

namespace ddl::reports {

class Message {
 public:
  Message& number(uint32_t field, uint64_t value) {
    varint(uint64_t{field} << 3 | kVarint);
    varint(value);
    return *this;
  }
  /// int64, int32, enums: two's complement.
  Message& integer(uint32_t field, int64_t value) { return number(field, static_cast<uint64_t>(value)); }
  Message& fixed64(uint32_t field, uint64_t value) {
    varint(uint64_t{field} << 3 | kFixed64);
    for (int byte = 0; byte < 8; ++byte) bytes_ += static_cast<char>(value >> (8 * byte) & 0xff);
    return *this;
  }
  Message& real(uint32_t field, double value) { return fixed64(field, std::bit_cast<uint64_t>(value)); }
  /// Text must be UTF-8.
  Message& bytes(uint32_t field, std::string_view value) {
    varint(uint64_t{field} << 3 | kBytes);
    varint(value.size());
    bytes_ += value;
    return *this;
  }
  Message& message(uint32_t field, const Message& value) { return bytes(field, value.bytes_); }

  void clear() { bytes_.clear(); }
  bool empty() const { return bytes_.empty(); }
  const std::string& encoded() const { return bytes_; }

 private:
  enum WireType : uint64_t { kVarint = 0, kFixed64 = 1, kBytes = 2 };

  void varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>(value | 0x80);
    bytes_ += static_cast<char>(value);
  }

  std::string bytes_;
};

}  // namespace ddl::reports
