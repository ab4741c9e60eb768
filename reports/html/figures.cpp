#include "reports/html/figure.h"

namespace ddl::reports::html {

std::span<const FigureKind> figure_kinds() {
  static constexpr FigureKind kKinds[] = {
      {"where", where_a_step_goes, " memcpy_bound input_bound batch_size "},
      {"late", lateness_map, " straggler shared_cores "},
      {"gpu-timeline", gpu_timeline, ""},
      {"timeline", step_timeline, " exposed_tail "},
      {"pipeline", pipeline_schedule, " pipeline_bubble "},
      {"collectives", collective_times, " small_collectives "},
      {"busbw", bus_bandwidth, " slow_algorithm slow_link "},
      {"layers", layer_times, " layer_imbalance "},
      {"idle", idle_classes, " host_bound "},
      {"efficiency", efficiency_tree, ""},
      {"steps", step_times, ""},
  };
  return kKinds;
}

}  // namespace ddl::reports::html
