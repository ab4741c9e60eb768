// Values by number in one block of memory: for sums that every event adds to, where a tree or a list for each key would
// cost a jump and an allocation. Open addressing, at most seven eighths full; nothing is ever removed.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace ddl {

/// Two numbers of 32 bits, such as ids of the store, as one key.
inline uint64_t key_of_pair(int64_t a, int64_t b) {
  return static_cast<uint64_t>(a) << 32 | static_cast<uint64_t>(static_cast<uint32_t>(b));
}

template <class Value>
class FlatMap {
 public:
  struct Entry {
    uint64_t key = UINT64_MAX;
    Value value = {};
  };

  /// The value of `key`, any number but UINT64_MAX; a new one is Value(). Valid until the next call.
  Value& operator[](uint64_t key) {
    if (8 * (size_ + 1) > 7 * entries_.size()) grow();
    Entry& entry = entries_[place_of(key)];
    if (entry.key == kNobody) {
      entry.key = key;
      ++size_;
    }
    return entry.value;
  }
  /// Fetches what operator[] will ask for soon: of many keys each lies somewhere else.
  void fetch(uint64_t key) const {
    if (!entries_.empty()) __builtin_prefetch(&entries_[first_place_of(key)]);
  }
  size_t size() const { return size_; }
  /// Null: there is nothing. Valid until the next operator[].
  const Value* find(uint64_t key) const {
    if (entries_.empty()) return nullptr;
    const Entry& entry = entries_[place_of(key)];
    return entry.key == key ? &entry.value : nullptr;
  }

  /// Calls `use(key, value)` for each, in no order.
  template <class Use>
  void each(const Use& use) const {
    for (const Entry& entry : entries_)
      if (entry.key != kNobody) use(entry.key, entry.value);
  }

  /// All of them by key, in the map's own memory. Leaves it empty.
  std::vector<Entry> take_sorted() {
    std::vector<Entry> entries = std::exchange(entries_, {});
    size_ = 0;
    std::erase_if(entries, [](const Entry& entry) { return entry.key == kNobody; });
    std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.key < b.key; });
    return entries;
  }

 private:
  static constexpr uint64_t kNobody = UINT64_MAX;

  /// Neighbouring numbers, which nearly always come one after the other, lie side by side in blocks of eight. The
  /// block's place is in the product's highest bits, in which all bits of the key have a part.
  size_t first_place_of(uint64_t key) const {
    const int blocks_bits = std::countr_zero(entries_.size()) - 3;
    return static_cast<size_t>((key >> 3) * 0x9e3779b97f4a7c15u >> (64 - blocks_bits) << 3 | (key & 7));
  }
  size_t place_of(uint64_t key) const {
    const size_t mask = entries_.size() - 1;
    size_t place = first_place_of(key);
    while (entries_[place].key != kNobody && entries_[place].key != key) place = (place + 1) & mask;
    return place;
  }

  void grow() {
    const std::vector<Entry> old =
        std::exchange(entries_, std::vector<Entry>(entries_.empty() ? 64 : 2 * entries_.size()));
    for (const Entry& entry : old)
      if (entry.key != kNobody) entries_[place_of(entry.key)] = entry;
  }

  std::vector<Entry> entries_;
  size_t size_ = 0;
};

}  // namespace ddl
