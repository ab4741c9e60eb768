// The filter language of the rank table: terms joined by &, each FIELD OPERATOR VALUE.
//
//   late>5  wait<=0.3  step>400      numbers: ms
//   rank=8..15  rank=3,7,8..11       ranks
//   node~nid004  call~Allreduce      text that contains (~), or is (=)
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ddl::tui {

struct RankRow;

class Filter {
 public:
  Filter() = default;
  /// Throws ddl::Error (usage) with the place of the error.
  explicit Filter(std::string_view text);

  const std::string& text() const { return text_; }
  bool empty() const { return terms_.empty(); }
  bool matches(const RankRow& row) const;

 private:
  enum class Field { kRank, kLate, kWait, kStep, kNode, kCall };
  enum class Compare { kEqual, kNotEqual, kLess, kLessOrEqual, kMore, kMoreOrEqual, kContains };
  struct Term {
    Field field;
    Compare compare;
    double number = 0;
    std::string word;
    std::vector<std::pair<double, double>> ranges;
  };
  std::string text_;
  std::vector<Term> terms_;
};

}  // namespace ddl::tui
