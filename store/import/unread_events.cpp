#include "store/import/unread_events.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace ddl::store {

void UnreadEvents::add(std::string_view category, uint64_t events) {
  const auto known = by_category_.find(category);
  if (known != by_category_.end()) {
    known->second += events;
  } else if (by_category_.size() < kMostCategories) {
    by_category_.emplace(category, events);
  } else {
    others_ += events;
  }
}

void UnreadEvents::write(Losses& losses, std::string_view what) const {
  constexpr size_t kMostNamed = 4;
  std::vector<std::pair<uint64_t, std::string>> most;
  uint64_t all = others_;
  for (const auto& [category, events] : by_category_) {
    most.emplace_back(events, category.empty() ? "(none)" : category);
    all += events;
  }
  std::stable_sort(most.begin(), most.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  std::string named;
  for (size_t i = 0; i < std::min(kMostNamed, most.size()); ++i)
    named += fmt::format("{}{} ({})", i == 0 ? "" : ", ", most[i].second, most[i].first);
  losses.add({}, "not_understood", all,
             fmt::format("{} that ddl does not understand: {}{}: left out", what, named,
                         most.size() > kMostNamed || others_ > 0 ? ", ..." : ""));
}

}  // namespace ddl::store
