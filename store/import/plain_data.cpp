#include "store/import/plain_data.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>

#include "core/number.h"

namespace ddl::store {

namespace {

constexpr size_t kMostValues = 8 << 20, kMostMembers = 32 << 20;

}  // namespace

PlainData::Id PlainData::add(Node node) {
  if (nodes_.size() >= kMostValues) throw BadData{here_, fmt::format("more than {} values", kMostValues)};
  nodes_.push_back(node);
  offsets_.push_back(static_cast<uint32_t>(here_));
  return static_cast<Id>(nodes_.size() - 1);
}

PlainData::Id PlainData::real(double value) { return add({PlainKind::kReal, 0, std::bit_cast<int64_t>(value)}); }

PlainData::Id PlainData::text_of(std::string value) {
  texts_.push_back(std::move(value));
  return add({PlainKind::kText, static_cast<uint32_t>(texts_.size() - 1), 0});
}

PlainData::Id PlainData::container(PlainKind kind) {
  members_.emplace_back();
  return add({kind, static_cast<uint32_t>(members_.size() - 1), 0});
}

void PlainData::append(Id container, Id member) {
  if (++member_count_ > kMostMembers)
    throw BadData{here_, fmt::format("more than {} members of lists and dictionaries", kMostMembers)};
  members_[nodes_[container].index].push_back(member);
}

std::optional<PlainData::Id> PlainData::find(Id dict, std::string_view key) const {
  if (!is_dict(dict)) return std::nullopt;
  const std::vector<Id>& all = members(dict);
  for (size_t i = all.size(); i >= 2; i -= 2)
    if (kind(all[i - 2]) == PlainKind::kText && text(all[i - 2]) == key) return all[i - 1];
  return std::nullopt;
}

std::optional<int64_t> PlainData::integer(Id id) const {
  const Node& node = nodes_[id];
  switch (node.kind) {
    case PlainKind::kBool:
    case PlainKind::kInteger:
      return node.value;
    case PlainKind::kReal: {
      const auto value = std::bit_cast<double>(node.value);
      constexpr double kExact = 9007199254740992.0;
      if (std::trunc(value) != value || std::abs(value) > kExact) return std::nullopt;
      return static_cast<int64_t>(value);
    }
    case PlainKind::kText:
      return number_in<int64_t>(texts_[node.index]);
    default:
      return std::nullopt;
  }
}

}  // namespace ddl::store
