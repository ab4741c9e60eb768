// What allocators of each device held over the run: what tensors were given, and what the allocator had from the
// device.
#include <fmt/format.h>

#include <algorithm>

#include "reports/format.h"
#include "reports/held_memory.h"
#include "reports/html/figure.h"
#include "reports/html/time_panels.h"

namespace ddl::reports::html {
namespace {

std::string device_name(const HeldMemory& held) {
  return fmt::format("rank {}, {}", held.rank, shown_name(held.device));
}

bool is_same_device(const HeldMemory& a, const HeldMemory& b) { return a.process == b.process && a.device == b.device; }

std::string caption_of(const std::vector<HeldMemory>& all) {
  const auto is_less = [](const HeldMemory& a, const HeldMemory& b) {
    const bool a_reserved = a.what == "reserved", b_reserved = b.what == "reserved";
    return a_reserved != b_reserved ? a_reserved : a.most_bytes < b.most_bytes;
  };
  const HeldMemory& most = *std::max_element(all.begin(), all.end(), is_less);
  std::string text = fmt::format("{} holds most: {} ({}) at {}", device_name(most), size_text(most.most_bytes),
                                 most.what, short_duration(most.most_ns));
  text[0] = 'R';
  if (most.most_step) text += fmt::format(", in step {}", *most.most_step);
  for (const HeldMemory& held : all)
    if (is_same_device(held, most) && held.what == "reserved" && most.what == "allocated" && held.most_bytes > 0)
      text += fmt::format("; its allocator reserves {} at most", size_text(held.most_bytes));
  return text + ".";
}

Table data_of(const std::vector<HeldMemory>& all) {
  Table table{.columns = {{"rank", "Rank", Unit::kCount},
                          {"device", "Device", Unit::kText},
                          {"what", "What", Unit::kText},
                          {"most_bytes", "Most", Unit::kBytes},
                          {"time_ns", "At", Unit::kDuration},
                          {"step", "Step", Unit::kCount},
                          {"last_bytes", "At the end", Unit::kBytes},
                          {"changes", "Changes", Unit::kCount}}};
  for (const HeldMemory& held : all)
    table.rows.push_back(
        {Value::count(held.rank), Value::text(held.device), Value::text(held.what), Value::bytes(held.most_bytes),
         Value::duration_ns(held.most_ns),
         held.most_step ? Value::count(*held.most_step) : Value::absent(Unit::kCount, "NOT_APPLICABLE"),
         Value::bytes(held.last_bytes), Value::count(held.changes)});
  return table;
}

}  // namespace

std::vector<Figure> memory_over_time(const RunView& run) {
  std::vector<HeldMemory> all = read_held_memory(run, 2 * kMostTimePanels);
  std::vector<HeldMemory*> largest;
  for (HeldMemory& held : all)
    if (!held.bins.empty() && held.most_bytes > 0) largest.push_back(&held);
  std::stable_sort(largest.begin(), largest.end(),
                   [](const HeldMemory* a, const HeldMemory* b) { return a->most_bytes > b->most_bytes; });
  std::vector<TimePanel> panels;
  std::vector<const HeldMemory*> devices;
  bool has_reserved = false;
  for (HeldMemory* held : largest) {
    const auto same =
        std::find_if(devices.begin(), devices.end(), [&](const HeldMemory* d) { return is_same_device(*d, *held); });
    const auto place = static_cast<size_t>(same - devices.begin());
    if (same == devices.end()) {
      if (panels.size() == kMostTimePanels) continue;
      devices.push_back(held);
      panels.push_back({device_name(*held), {}, {}});
    }
    const bool is_reserved = held->what == "reserved";
    has_reserved = has_reserved || is_reserved;
    std::vector<TimeLayer>& layers = panels[place].layers;
    if (is_reserved) layers.push_back({&held->bins, "line", true});
    if (!is_reserved) layers.insert(layers.begin(), {&held->bins, "c0", true});
  }
  if (panels.empty()) return {};
  Figure figure{.id = "memory", .title = "Memory over time", .caption = caption_of(all), .data = data_of(all)};
  TimePanelStyle style{{{"c0", "given to tensors"}},
                       [](double bytes) { return size_text(static_cast<int64_t>(bytes)); }};
  if (has_reserved) style.legend.push_back({"ink", "reserved by the allocator"});
  TimeDrawing drawing = draw_time_panels(
      figure.id, figure.title,
      "A panel for each device: the memory that its allocator had given to tensors, over the time of the run.", style,
      panels);
  figure.svg = std::move(drawing.svg);
  figure.reading = fmt::format("Each span of {} shows the most.", short_duration(drawing.span_ns));
  const bool since_begin =
      std::any_of(all.begin(), all.end(), [](const HeldMemory& held) { return held.what == "since begin"; });
  if (since_begin)
    figure.reading +=
        " Where only changes are known, from 0 at the begin of the trace: what was held before is not in it.";
  std::vector<const HeldMemory*> known;
  for (const HeldMemory& held : all)
    if (held.most_bytes > 0 &&
        std::none_of(known.begin(), known.end(), [&](const HeldMemory* d) { return is_same_device(*d, held); }))
      known.push_back(&held);
  if (panels.size() < known.size())
    figure.reading += fmt::format(" Drawn are {} devices of {}, of those that hold most.", panels.size(), known.size());
  return {std::move(figure)};
}

}  // namespace ddl::reports::html
