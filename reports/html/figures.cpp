#include "reports/html/figure.h"

namespace ddl::reports::html {

std::span<const FigureKind> figure_kinds() {
  // clang-format off
  static constexpr FigureKind kKinds[] = {
      {"hang", hang_calls},
      {"where", where_a_step_goes},
      {"late", lateness_map},
      {"gpu-timeline", gpu_timeline},
      {"timeline", step_timeline},
      {"pipeline", pipeline_schedule},
      {"collectives", collective_times},
      {"busbw", bus_bandwidth},
      {"layers", layer_times},
      {"idle", idle_classes},
      {"queue", queues_over_time},
      {"copies", copies_over_time},
      {"memory", memory_over_time},
      {"efficiency", efficiency_tree},
      {"steps", step_times},
  };
  // clang-format on
  return kKinds;
}

}  // namespace ddl::reports::html
