// Events of a trace that ddl does not understand: counted by category, and reported as a loss.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "store/ingest/losses.h"

namespace ddl::store {

class UnreadEvents {
 public:
  void add(std::string_view category, uint64_t events = 1);
  /// Loss `not_understood`: the number of events, and their largest categories. `what`: "events of categories".
  void write(Losses& losses, std::string_view what) const;

 private:
  static constexpr size_t kMostCategories = 64;  // a trace may have one for every event

  std::map<std::string, uint64_t, std::less<>> by_category_;
  uint64_t others_ = 0;  ///< events of categories beyond kMostCategories
};

}  // namespace ddl::store
