// Plain data as Python writes it: dictionaries, lists, texts and numbers from a pickle or from JSON, in one arena.
//
// A pickle is a program. Only opcodes that build plain data are executed (protocols 2 to 5); opcodes that import, call
// or build objects, and unknown ones, are refused by name and place. The result is never walked recursively, since it
// may contain itself. Bounded: bytes, values, members, marks, nesting of JSON. Tuples and sets become lists.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddl::store {

/// An error at a byte of a text; the reader of the file adds its name.
struct BadData {
  uint64_t offset;
  std::string what;
};

enum class PlainKind : uint8_t { kNone, kBool, kInteger, kReal, kText, kList, kDict };

class PlainData {
 public:
  using Id = uint32_t;

  PlainKind kind(Id id) const { return nodes_[id].kind; }
  bool is_dict(Id id) const { return kind(id) == PlainKind::kDict; }
  bool is_list(Id id) const { return kind(id) == PlainKind::kList; }
  /// The members of a list; for a dictionary, keys and values in turn.
  const std::vector<Id>& members(Id id) const { return members_[nodes_[id].index]; }
  /// The last value of a key; nothing: `dict` is not a dictionary, or lacks the key.
  std::optional<Id> find(Id dict, std::string_view key) const;

  /// Empty unless it is text.
  std::string_view text(Id id) const {
    return kind(id) == PlainKind::kText ? std::string_view(texts_[nodes_[id].index]) : "";
  }
  /// For a number without a fraction, a boolean, or a text that is such a number.
  std::optional<int64_t> integer(Id id) const;

  Id none() { return add({PlainKind::kNone, 0, 0}); }
  Id boolean(bool value) { return add({PlainKind::kBool, 0, value}); }
  Id integer_of(int64_t value) { return add({PlainKind::kInteger, 0, value}); }
  Id real(double value);
  Id text_of(std::string value);
  Id list() { return container(PlainKind::kList); }
  Id dict() { return container(PlainKind::kDict); }
  void append(Id container, Id member);

  /// The byte position of the next value.
  void at(uint64_t offset) { here_ = offset; }
  uint64_t offset(Id id) const { return offsets_[id]; }

 private:
  struct Node {
    PlainKind kind;
    uint32_t index;  ///< of texts and containers
    int64_t value;   ///< of numbers; of a real one its bits
  };
  Id add(Node node);
  Id container(PlainKind kind);

  std::vector<Node> nodes_;
  std::vector<uint32_t> offsets_;  ///< of nodes_; texts are shorter than 4 GiB
  uint64_t here_ = 0;
  std::deque<std::string> texts_;
  std::deque<std::vector<Id>> members_;
  uint64_t member_count_ = 0;
};

/// The pickle's final stack value. Throws BadData.
PlainData::Id read_pickle(std::string_view bytes, PlainData& data);
/// One document. `commas_may_lack`: between the members of a dictionary. Throws BadData.
PlainData::Id read_json_document(std::string_view text, PlainData& data, bool commas_may_lack = false);

}  // namespace ddl::store
