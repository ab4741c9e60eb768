// A figure of the HTML report: a drawing, the sentence that says what it shows of this run, and its numbers as a table. To add one: a
// file with a build function, a row in figures.cpp. Findings say in their heads (analyzer/findings/*.cpp) which one shows them.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "reports/document.h"
#include "reports/run_view.h"

namespace ddl::reports::html {

struct Figure {
  std::string id;            ///< of its element in the page, for links
  std::string title;         ///< what it is
  std::string caption = {};  ///< the result: "rank 11 enters 38 ms late from step 1795"
  std::string svg = {};
  std::string reading = {};  ///< how to read the drawing
  Table data = {};           ///< its numbers
};

struct FigureKind {
  const char* id;                                    ///< of its figures: this, or this and a suffix
  std::vector<Figure> (*build)(const RunView& run);  ///< none if the run has nothing to draw
};
std::span<const FigureKind> figure_kinds();

std::vector<Figure> hang_calls(const RunView& run);
std::vector<Figure> where_a_step_goes(const RunView& run);
std::vector<Figure> lateness_map(const RunView& run);
std::vector<Figure> step_times(const RunView& run);
std::vector<Figure> collective_times(const RunView& run);
std::vector<Figure> bus_bandwidth(const RunView& run);
std::vector<Figure> layer_times(const RunView& run);
std::vector<Figure> idle_classes(const RunView& run);
std::vector<Figure> efficiency_tree(const RunView& run);
std::vector<Figure> step_timeline(const RunView& run);
std::vector<Figure> gpu_timeline(const RunView& run);
std::vector<Figure> pipeline_schedule(const RunView& run);
std::vector<Figure> queues_over_time(const RunView& run);
std::vector<Figure> copies_over_time(const RunView& run);
std::vector<Figure> memory_over_time(const RunView& run);

}  // namespace ddl::reports::html
