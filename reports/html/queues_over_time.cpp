// How much each stream of the GPUs had been given and had not begun, over the run: where it touches 0 the GPU ran dry,
// where it is full the host waited.
#include <fmt/format.h>

#include <algorithm>

#include "reports/format.h"
#include "reports/html/figure.h"
#include "reports/html/time_panels.h"
#include "reports/stream_queues.h"

namespace ddl::reports::html {
namespace {

std::string stream_name(const StreamQueue& queue) {
  std::string name = fmt::format("rank {}", queue.rank);
  if (queue.device) name += fmt::format(", GPU {}", *queue.device);
  if (queue.stream) name += fmt::format(", stream {}", *queue.stream);
  return name;
}

double share_of(int64_t part_ns, const StreamQueue& queue) {
  return queue.time_ns == 0 ? 0 : static_cast<double>(part_ns) / static_cast<double>(queue.time_ns);
}

std::string caption_of(const std::vector<StreamQueue>& queues) {
  const auto busiest = std::max_element(
      queues.begin(), queues.end(), [](const StreamQueue& a, const StreamQueue& b) { return a.changes < b.changes; });
  std::string text =
      fmt::format("The busiest stream ({}) has {} queued in the mean and {} at most, and is empty {} of its time.",
                  stream_name(*busiest), number_text(busiest->mean().value_or(0)), count_text(busiest->most),
                  percent_text(share_of(busiest->empty_ns, *busiest)));
  const auto fullest = std::max_element(
      queues.begin(), queues.end(), [](const StreamQueue& a, const StreamQueue& b) { return a.full_ns < b.full_ns; });
  if (fullest->full_ns > 0)
    text += fmt::format(" {} of {} more are queued for {}: the host may have waited for room.", count_text(kFullQueue),
                        fullest == busiest ? "its operations or" : "operations or", short_duration(fullest->full_ns));
  return text;
}

}  // namespace

std::vector<Figure> queues_over_time(const RunView& run) {
  std::vector<StreamQueue> queues = read_queues(run, kMostTimePanels);
  std::vector<TimePanel> panels;
  for (StreamQueue& queue : queues)
    if (!queue.bins.empty()) panels.push_back({stream_name(queue), most_and_mean(queue.bins), {}});
  if (panels.empty()) return {};
  Figure figure{.id = "queue",
                .title = "What streams of GPUs have queued",
                .caption = caption_of(queues),
                .data = table_of_queues(run, queues)};
  figure.data.note.clear();
  const TimePanelStyle style{legend_of_most_and_mean(),
                             [](double length) { return count_text(static_cast<int64_t>(length)); }};
  TimeDrawing drawing = draw_time_panels(
      figure.id, figure.title,
      "A panel for each stream: how many kernels, copies and memsets were launched and had not begun, over the time of the run.",
      style, panels);
  figure.svg = std::move(drawing.svg);
  figure.reading = fmt::format(
      "Kernels, copies and memsets that were launched and had not begun; each span of {} shows its mean and its most. An empty queue is a GPU that may have to wait"
      " for its host.",
      short_duration(drawing.span_ns));
  if (panels.size() < queues.size())
    figure.reading +=
        fmt::format(" Drawn are the {} streams that were given most, of {}.", panels.size(), queues.size());
  return {std::move(figure)};
}

}  // namespace ddl::reports::html
