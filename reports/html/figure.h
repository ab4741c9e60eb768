// A figure of the HTML report: a drawing, the sentence that says what it shows of this run, and its numbers as a table.
// To add one: a file with a build function, a row in figures.cpp. Findings say in their heads (analyzer/findings/*.cpp)
// which one shows them.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "reports/document.h"
#include "reports/run_view.h"

namespace ddl::models {
struct ScalingRow;
}

namespace ddl::reports {
struct HistoryView;
}

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

/// `ddl scaling --html`: efficiency over size beside its ideal, and where a step of each run goes. `rows`:
/// at least one; `worker`: what workers are called ("GPU"). The second drawing needs runs of which the
/// parts of a step are known.
std::vector<Figure> scaling_figures(const std::vector<models::ScalingRow>& rows, const std::string& worker);

/// One trial of a tuning. Costs are time per sample, or to the target loss: lower is better.
struct TrialMark {
  std::string stage;              ///< of the search; trials of one stage follow each other
  std::string point;              ///< in words: "batch=32 bucket_mb=4"
  std::optional<double> cost_ns;  ///< unset: it failed
  std::optional<double> predicted_ns;
  bool is_default = false, is_winner = false;
};

/// For a tuning's report: what every trial measured, and how near the prediction was. In the order in which trials were
/// made. Nothing is drawn of fewer than two that succeeded.
std::vector<Figure> tuning_figures(const std::vector<TrialMark>& trials, const std::string& cost_name);

constexpr size_t kHistoryFigures = 12;  ///< jobs that are drawn

/// `ddl history html`: for each job, the newest first, step times of its runs with their changes; what a step consists
/// of between these.
std::vector<Figure> history_figures(const HistoryView& view);

}  // namespace ddl::reports::html
