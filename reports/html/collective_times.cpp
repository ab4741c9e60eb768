// Collectives by operation, size and communicator: how much of their time was waiting and how much moving data.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "analyzer/query.h"
#include "reports/format.h"
#include "reports/html/bars.h"
#include "reports/html/columns_of.h"
#include "reports/html/figure.h"
#include "reports/html/markup.h"
#include "reports/overview.h"

namespace ddl::reports::html {
namespace {

constexpr size_t kCollectiveTimesMostBars = 16;

struct Group {
  std::string name;
  int64_t time_ns = 0, wait_ns = 0, xfer_ns = 0;
  int64_t rest_ns() const { return time_ns - wait_ns - xfer_ns; }  // not split
};

/// What all ranks' run took, in ns; nothing: it is not known, or the window kept a part of it.
std::optional<double> ranks_run_ns(const RunView& run) {
  Query row(
      run.db,
      "SELECT total(duration_ns) FROM v_rank_part WHERE world = ?1 AND NOT EXISTS (SELECT 1 FROM loss WHERE world = ?1 AND kind = 'not_kept')");
  row.bind(run.world);
  return row.next() && row.real(0) > 0 ? std::optional(row.real(0)) : std::nullopt;
}

std::string caption_of(const RunView& run, const std::vector<Group>& groups) {
  Group all;
  for (const Group& group : groups)
    all.time_ns += group.time_ns, all.wait_ns += group.wait_ns, all.xfer_ns += group.xfer_ns;
  const auto ratio = [](int64_t part, int64_t whole) {
    return percent_text(static_cast<double>(part) / static_cast<double>(whole));
  };
  std::string text = fmt::format("{} takes {} of the time inside collectives.", shown_name(groups.front().name),
                                 ratio(groups.front().time_ns, all.time_ns));
  if (const auto run_ns = ranks_run_ns(run); run_ns && static_cast<double>(all.time_ns) <= *run_ns)
    text += fmt::format(" All collectives together are {} of the run.",
                        percent_text(static_cast<double>(all.time_ns) / *run_ns));
  if (all.rest_ns() < all.time_ns)
    text += fmt::format(
        " {} of all that could be split is waiting for ranks that came later, which no faster network would shorten.",
        ratio(all.wait_ns, all.wait_ns + all.xfer_ns));
  if (all.rest_ns() > 0) text += fmt::format(" {} could not be split.", ratio(all.rest_ns(), all.time_ns));
  return text;
}

}  // namespace

std::vector<Figure> collective_times(const RunView& run) {
  const Table table = collectives_table(run);
  const size_t name = column_of(table, "name"), time = column_of(table, "time_ns"), wait = column_of(table, "wait_ns"),
               xfer = column_of(table, "xfer_ns");
  std::vector<Group> groups;
  for (const auto& cells : table.rows) {
    const auto wait_ns = maybe_integer(cells[wait]), xfer_ns = maybe_integer(cells[xfer]);
    const bool split = wait_ns && xfer_ns;
    groups.push_back({cells[name].as_text(), cells[time].as_integer(), split ? *wait_ns : 0, split ? *xfer_ns : 0});
  }
  if (groups.empty() || groups.front().time_ns <= 0) return {};

  Bars bars{
      .id = "collectives",
      .title = "Waiting and transfer in collectives",
      .description = "A bar for each operation, size and communicator, the longest first: transfer, then waiting.",
      .parts = {{"transfer", "c2"}, {"waiting for others", "c3"}, {"not split", "c4"}}};
  for (size_t i = 0; i < std::min(groups.size(), kCollectiveTimesMostBars); ++i)
    bars.bars.push_back({groups[i].name,
                         {static_cast<double>(groups[i].xfer_ns), static_cast<double>(groups[i].wait_ns),
                          static_cast<double>(groups[i].rest_ns())}});
  Figure figure{.id = bars.id,
                .title = bars.title,
                .caption = caption_of(run, groups),
                .svg = draw_bars(bars),
                .reading = "Sums over ranks, of all that the window kept.",
                .data = columns_of(table, {"name", "time_ns", "wait_ns", "xfer_ns", "calls"})};
  if (groups.size() > kCollectiveTimesMostBars)
    figure.reading += fmt::format(" The longest {}; the table has all {}.", kCollectiveTimesMostBars, groups.size());
  if (!table.note.empty()) figure.reading += fmt::format(" {}.", table.note);
  return {std::move(figure)};
}

}  // namespace ddl::reports::html
