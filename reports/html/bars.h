// Horizontal bars of times with names, each cut into the same parts: ranks, collectives, layers, GPUs.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ddl::reports::html {

struct BarPart {
  std::string name;
  std::string_view css;  ///< class in style.css
};

struct Bar {
  std::string name;
  std::vector<double> parts_ns = {};  ///< one per BarPart
};

struct Bars {
  std::string id, title, description;  ///< as of Chart
  std::string heading = {};            ///< above the names; "" = none
  std::vector<BarPart> parts = {};     ///< those that no bar has are left out of the legend
  std::vector<Bar> bars = {};
  bool share_rows = false;  ///< many bars, whose names are numbers in a row: thinner rows, not all named
};

/// The drawing; names are shortened to what fits left of the bars. Bars have a tip with the parts' times.
std::string draw_bars(const Bars& bars);

}  // namespace ddl::reports::html
