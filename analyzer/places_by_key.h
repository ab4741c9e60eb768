// The places of things in the order of a number that each has; those of the same number stay in their order. Digit by
// digit from the least one: ten times as fast as comparing millions.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace ddl {

class PlacesByKey {
 public:
  void reserve(size_t count) { items_.reserve(count); }
  /// That of the next thing.
  void add(uint64_t key) {
    items_.push_back({key, static_cast<uint32_t>(items_.size())});
    most_ = std::max(most_, key);
  }

  std::vector<uint32_t> sorted() {
    constexpr int kDigitBits = 11;
    std::vector<Item> other(items_.size());
    for (int shift = 0; shift < 64 && most_ >> shift != 0; shift += kDigitBits) {
      std::array<size_t, size_t{1} << kDigitBits> at = {};
      const auto digit = [shift](const Item& item) { return item.key >> shift & ((uint64_t{1} << kDigitBits) - 1); };
      for (const Item& item : items_) ++at[digit(item)];
      size_t before = 0;
      for (size_t& place : at) before += std::exchange(place, before);
      for (const Item& item : items_) other[at[digit(item)]++] = item;
      items_.swap(other);
    }
    std::vector<uint32_t> places;
    places.reserve(items_.size());
    for (const Item& item : items_) places.push_back(item.place);
    return places;
  }

 private:
  struct Item {
    uint64_t key;
    uint32_t place;
  };
  std::vector<Item> items_;
  uint64_t most_ = 0;
};

}  // namespace ddl
