// Copies that nothing hides: from pageable memory, which is copied twice, or slower than the link could, or simply in
// the way. What of it can be won is told by the copies themselves: pinned memory reaches most of the link, and what
// does so already can only be hidden.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "analyzer/findings/findings.h"
#include "analyzer/query.h"

namespace ddl {
namespace {

constexpr double kCopyMinSavingShare = 0.05;  // of the step
constexpr double kPinned = 0.8;               // of the link's line rate that copies of pinned memory reach
constexpr double kOffPeak = 0.6;              // of it: less than that is slow

/// The copies of one kind, from or to one kind of memory of the host.
struct Copies {
  std::string kind, memory;
  double calls = 0, time_ns = 0;
  std::optional<double> bytes, rate, peak_ratio;  ///< unset: not known of all of them

  bool pageable() const { return memory == "pageable"; }
  bool slow() const { return pageable() || peak_ratio.value_or(1) < kOffPeak; }
  /// Share of their time that pinned memory at the link's rate would save.
  double gain() const { return peak_ratio ? std::max(0.0, 1 - *peak_ratio / kPinned) : 0.5; }
};

}  // namespace

DDL_FINDING(memcpy_bound, kSpeed, "where",
            "exposed copies: of pageable memory, below the link's peak, or simply in the way",
            "exposed copies, their bandwidth against the link's line rate") {
  Query row(
      input.db,
      "SELECT total(exposed_copy_ns) / total(windows), total(duration_ns) / total(windows) FROM steady_gpu WHERE world = ?"
      " HAVING total(windows) > 0");
  row.bind(input.world);
  if (!row.next()) return {};
  const double exposed_ns = row.real(0), window_ns = row.real(1);
  if (exposed_ns < kCopyMinSavingShare * window_ns) return {};

  double all_ns = 0, gain_ns = 0;
  std::optional<Copies> worst;
  Query links(
      input.db,
      "SELECT kind, memory, calls, time_ns, bytes, bytes * 1e9 / nullif(time_ns, 0), bytes * 1e9 / nullif(time_ns, 0) / peak FROM"
      " (SELECT kind, coalesce(memory, '') AS memory, sum(calls) AS calls, sum(time_ns) AS time_ns,"
      " iif(count(bytes) = count(*), sum(bytes), NULL) AS bytes, min(peak_bytes_per_second) AS peak"
      " FROM v_link WHERE world = ? GROUP BY 1, 2)");
  links.bind(input.world);
  while (links.next()) {
    Copies copies{links.text(0),       links.text(1),       links.real(2),      links.real(3),
                  links.maybe_real(4), links.maybe_real(5), links.maybe_real(6)};
    all_ns += copies.time_ns;
    if (copies.slow()) gain_ns += copies.time_ns * copies.gain();
    if (!worst || copies.slow() > worst->slow() || (copies.slow() == worst->slow() && copies.time_ns > worst->time_ns))
      worst = copies;
  }
  if (!worst || all_ns <= 0) return {};
  const bool slow = worst->slow() && exposed_ns * gain_ns / all_ns >= kCopyMinSavingShare * window_ns;

  Finding finding;
  finding.saving_ns = static_cast<int64_t>(slow ? exposed_ns * gain_ns / all_ns : exposed_ns);
  finding.confidence = slow && worst->peak_ratio ? "likely" : "maybe";
  finding.sentence = fmt::format("copies take {} of the {} while nothing computes: {}{}{}",
                                 percent_text(exposed_ns / window_ns), input.steps.annotated ? "step" : "run",
                                 worst->kind, worst->memory.empty() ? "" : fmt::format(" of {} memory", worst->memory),
                                 worst->rate ? fmt::format(" at {}", rate_text(*worst->rate)) : "");
  finding.evidence = fmt::format(
      "{:.0f} of them {} {}{}; of all copies {}{} is not hidden.", worst->calls,
      worst->bytes ? fmt::format("carry {} in", bytes_text(*worst->bytes)) : "take", duration_text(worst->time_ns),
      worst->peak_ratio ? fmt::format(", {} of the link's line rate", percent_text(*worst->peak_ratio)) : "",
      duration_text(exposed_ns), input.steps.annotated ? "/step" : "");
  finding.evidence_sql = fmt::format("SELECT * FROM v_link WHERE world = {} ORDER BY time_ns DESC", input.world);
  finding.advice =
      slow && worst->pageable()
          ? "pin the host's memory (pin_memory=True and non_blocking=True, cudaHostAlloc), and copy on a stream of its own"
      : slow
          ? "look why the link is slow: NUMA binding of the process, lanes of the slot (link in ddl report's gpus), small copies"
          : "copy the next batch on a stream of its own while this one computes, and keep on the GPU what is used again";
  return {finding};
}

}  // namespace ddl
