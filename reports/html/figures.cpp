#include "reports/html/figure.h"

namespace ddl::reports::html {

std::span<const FigureKind> figure_kinds() {
  static constexpr FigureKind kKinds[] = {
      {"where", where_a_step_goes, " memcpy_bound input_bound batch_size "},
      {"late", lateness_map, " straggler shared_cores "},
      {"collectives", collective_times, " small_collectives exposed_tail "},
      {"busbw", bus_bandwidth, " slow_algorithm slow_link "},
      {"layers", layer_times, " layer_imbalance "},
      {"idle", idle_classes, " host_bound "},
      {"efficiency", efficiency_tree, ""},
      {"steps", step_times, ""},
  };
  return kKinds;
}

}  // namespace ddl::reports::html
