// When the host loaded data: ranges whose names say so.
#pragma once

#include <SQLiteCpp/Database.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "analyzer/intervals.h"
#include "analyzer/query.h"

namespace ddl {

/// SQL over table `region`: names that PyTorch, TensorFlow and people use, in any case. A layer called "input" may be
/// one of the network.
inline constexpr std::string_view kInputRanges =
    "kind <> 'step' AND (lower(name) LIKE '%dataload%' OR lower(name) LIKE '%load_data%' OR lower(name) LIKE '%data_load%' OR lower(name) LIKE '%load_batch%'"
    " OR lower(name) LIKE '%next_batch%' OR lower(name) = 'input_pipeline' OR (kind <> 'layer' AND lower(name) IN ('data', 'input', 'load')))";

struct InputRange {
  int64_t thread = 0;
  Interval interval;
};

class InputRanges {
 public:
  explicit InputRanges(SQLite::Database& db);

  /// Whether the run names any, also where none was kept.
  bool any() const { return !regions_.empty(); }
  /// One process's ranges in the order of their begins, as far as the window kept them. The first call reads the ranges
  /// of all processes: range_event has no index. After it several threads may ask.
  const std::vector<InputRange>& of(int64_t process);

 private:
  SQLite::Database& db_;
  const std::string regions_;  ///< region.id, as id_list()
  bool read_ = false;
  std::unordered_map<int64_t, std::vector<InputRange>> ranges_;  ///< by process
};

}  // namespace ddl
