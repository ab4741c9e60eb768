// Values of the ingest as bytes, for another process of the same program (store/parts.h): written and read by the same
// list of members. No format for people or other versions: readers must know that this program wrote it, undamaged.
#pragma once

#include <cstdint>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/error.h"

namespace ddl::store {

/// archive(a, b, c) writes the values, or reads them in the same order. Classes have `void archive(Archive&)`, structs
/// a function `void fields(Archive&, Struct&)`, which both pass their members on.
class Archive {
 public:
  /// Writes.
  Archive() = default;
  /// Reads; `bytes` must outlive it. Throws Error (kDataMissing) if there are too few.
  explicit Archive(std::string_view bytes) : reading_(true), rest_(bytes) {}

  template <class... T>
  void operator()(T&... values) {
    (one(values), ...);
  }
  const std::string& bytes() const { return written_; }

 private:
  void raw(void* value, size_t bytes) {
    if (!reading_) {
      written_.append(static_cast<const char*>(value), bytes);
      return;
    }
    if (rest_.size() < bytes) throw Error("the stored plan is truncated", "", ExitCode::kDataMissing);
    std::memcpy(value, rest_.data(), bytes);
    rest_.remove_prefix(bytes);
  }

  template <class T>
  void one(T& value) {
    if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T>)
      raw(&value, sizeof value);
    else if constexpr (requires { value.archive(*this); })
      value.archive(*this);
    else
      fields(*this, value);
  }
  void one(std::string& text) {
    uint64_t size = text.size();
    one(size);
    if (reading_) {
      if (rest_.size() < size) throw Error("the stored plan is truncated", "", ExitCode::kDataMissing);
      text.assign(rest_.substr(0, size));
      rest_.remove_prefix(size);
    } else {
      written_ += text;
    }
  }
  template <class T>
  void one(std::optional<T>& value) {
    uint8_t is_set = value.has_value();
    one(is_set);
    if (reading_) value.reset();
    if (is_set == 0) return;
    if (reading_) value.emplace();
    one(*value);
  }
  template <class A, class B>
  void one(std::pair<A, B>& values) {
    (*this)(values.first, values.second);
  }
  template <class... T>
  void one(std::tuple<T...>& values) {
    std::apply([this](T&... each) { (*this)(each...); }, values);
  }
  template <class T>
  void one(std::vector<T>& values) {
    uint64_t count = values.size();
    one(count);
    if (!reading_) {
      for (T& value : values) one(value);
      return;
    }
    values.clear();
    for (uint64_t i = 0; i < count; ++i) one(values.emplace_back());
  }
  template <class Key, class Value>
  void one(std::map<Key, Value>& values) {
    uint64_t count = values.size();
    one(count);
    if (!reading_) {
      for (auto& [key, value] : values) {
        Key copy = key;
        (*this)(copy, value);
      }
      return;
    }
    values.clear();
    for (uint64_t i = 0; i < count; ++i) {
      Key key{};
      one(key);
      one(values[key]);
    }
  }

  bool reading_ = false;
  std::string written_;
  std::string_view rest_;
};

}  // namespace ddl::store
