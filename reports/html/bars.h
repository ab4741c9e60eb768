// Horizontal bars of times, all cut into the same parts: ranks, collectives, layers, GPUs.
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
  std::string id, title, description;  ///< as in Chart
  std::string heading = {};            ///< above the names; "" = none
  std::vector<BarPart> parts = {};     ///< parts that no bar has are left out of the legend
  std::vector<Bar> bars = {};
  bool share_rows = false;  ///< many bars, whose names are numbers in a row: thinner rows, not all named
};

/// The drawing; names are shortened to fit left of the bars. A bar's tooltip has its parts' times.
std::string draw_bars(const Bars& bars);

}  // namespace ddl::reports::html
