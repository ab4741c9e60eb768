#include "reports/html/figure.h"

namespace ddl::reports::html {

std::span<const FigureKind> figure_kinds() {
  static constexpr FigureKind kKinds[] = {
      {"where", where_a_step_goes, " straggler host_bound memcpy_bound input_bound "},
  };
  return kKinds;
}

}  // namespace ddl::reports::html
