// Overlap that ends too early: transfer that goes on after the last non-blocking collective of the step was posted,
// when nothing is left to compute behind. The last bucket's own share cannot be hidden and is not counted as a saving.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "analyzer/findings/findings.h"
#include "analyzer/findings/missing_member.h"
#include "analyzer/query.h"
#include "analyzer/statistics.h"

namespace ddl {
namespace {

constexpr double kTailMinSavingShare = 0.03;  // of the step

}  // namespace

DDL_FINDING(exposed_tail, kSpeed, "timeline", "the last non-blocking collectives are not hidden",
            "transfers that complete after the last one was posted") {
  if (!input.steps.annotated) return {};
  struct Step {
    double xfer_ns = 0, least_ns = 0;
    double ranks = 0;
    bool split = true;

    /// Where waiting is not told apart, the rank that posted last has waited least: what it has left is all transfer,
    /// as by specification.md W3.
    double tail_ns() const { return split ? xfer_ns / ranks : least_ns; }
  };
  std::map<int64_t, Step> steps;
  double buckets = 0, bytes = 0, all_buckets = 0, all_bytes = 0, last_bytes = 0, rows_seen = 0;
  Query rows(
      input.db,
      "SELECT t.step, t.xfer_ns, t.buckets, t.bytes, t.all_buckets, t.all_bytes, t.last_bytes, t.split FROM tail t"
      " JOIN process p ON p.id = t.process JOIN steady_number n ON n.world = p.world AND n.step = t.step WHERE p.world = ?");
  rows.bind(input.world);
  while (rows.next()) {
    Step& step = steps[rows.integer(0)];
    step.xfer_ns += rows.real(1);
    step.least_ns = step.ranks == 0 ? rows.real(1) : std::min(step.least_ns, rows.real(1));
    step.ranks += 1;
    step.split = step.split && rows.integer(7) != 0;
    buckets += rows.real(2);
    bytes += rows.real(3);
    all_buckets += rows.real(4);
    all_bytes += rows.real(5);
    last_bytes += rows.real(6);
    rows_seen += 1;
  }
  if (steps.empty() || bytes <= 0) return {};
  std::vector<double> tails;
  for (const auto& [number, step] : steps) tails.push_back(step.tail_ns());
  const double tail_ns = median_of(tails);
  // One bucket only: how much of it smaller ones would hide is not known; half is a guess, and said to be one.
  const bool one_bucket = all_buckets < 1.5 * rows_seen;
  const double saving_ns = tail_ns * (one_bucket ? 0.5 : 1 - last_bytes / bytes);
  // Their transfers are upper bounds where ranks left no record: one that posts late keeps the others waiting in them.
  const std::string missing = missing_text(input);
  const double least_ns =
      kTailMinSavingShare * static_cast<double>(input.step_ns) * (missing.empty() ? 1 : kClearBound);
  if (saving_ns < least_ns) return {};

  Finding finding;
  finding.saving_ns = static_cast<int64_t>(saving_ns);
  finding.at_most = !missing.empty();
  finding.confidence = one_bucket || finding.at_most ? "maybe" : "likely";
  finding.sentence = fmt::format(
      "the last non-blocking collectives are not hidden{}: {}{}/step of transfer when nothing is left to compute",
      finding.at_most ? fmt::format(", or {}, posts late", missing) : "", finding.at_most ? "at most " : "",
      duration_text(tail_ns));
  finding.evidence = fmt::format(
      "{} of the {} per step, {:.1f} of {:.1f} collectives, complete after the last one was posted; the last one carries {}.",
      percent_text(bytes / all_bytes), bytes_text(all_bytes / rows_seen), buckets / rows_seen, all_buckets / rows_seen,
      bytes_text(last_bytes / rows_seen));
  finding.evidence_sql = fmt::format(
      "SELECT rank, step, seq, op, bytes, enter_ns, leave_ns, wait_ns, xfer_ns FROM v_collective WHERE world = {}"
      " AND op LIKE 'MPI_I%' ORDER BY step, rank, seq LIMIT 100",
      input.world);
  finding.advice =
      "let the library progress during backward (MPI_Test between layers, an asynchronous progress thread), and make the last buckets "
      "smaller";
  return {finding};
}

}  // namespace ddl
