// Two runs compared, number by number: which changed, by how much, and whether the steps suffice to tell.
#pragma once

#include <SQLiteCpp/Database.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analyzer/metrics/metrics.h"
#include "analyzer/statistics.h"

namespace ddl {

/// A metric of a run as table `metric` holds it.
struct MetricValue {
  std::optional<double> value = {};
  std::string why;                        ///< of no value
  std::optional<Range> interval = {};     ///< 95 %, of the median over steps
  std::optional<MetricBound> bound = {};  ///< the value is one, since ranks left no record
};

enum class Change {
  kBetter,
  kWorse,
  kChanged,     ///< seen, and neither is better
  kNotSeen,     ///< the interval of the difference holds 0
  kNoInterval,  ///< of a job as a whole, with too few steps to tell, or of bounds that leave it open
  kAppeared,    ///< was n/a
  kGone,        ///< is n/a
  kAbsent       ///< n/a in both
};
const char* name_of(Change change);

struct MetricChange {
  std::string id = {}, name = {}, unit = {};
  MetricValue before, after;
  Change change = Change::kAbsent;
  // Relative to the value before; nothing if that is 0 or n/a, if one of the values is a bound, or of sums over runs of
  // other lengths or sizes.
  std::optional<double> ratio = {};
  std::optional<Range> interval = {};  ///< its end may be infinite, where the value before may be 0
};

/// The interval of the difference b - a of two independent medians from the interval of each (MOVER: Zou and Donner,
/// 2008): the square roots of the summed squares of the arms that reach in the same direction.
Range difference_interval(double a, const Range& of_a, double b, const Range& of_b);

/// The interval of the ratio b / a, of a > 0 and b >= 0: those ratios r for which that of the difference b - r a, as
/// above, holds 0 (MOVER-R: Donner and Zou, 2012). So it holds 1 if that of b - a holds 0. Never negative; without an
/// upper end, which is infinite then, if a may be 0.
Range ratio_interval(double a, const Range& of_a, double b, const Range& of_b);

/// `better`: higher, lower or none, as in the metric's file.
MetricChange compare_metric(const MetricValue& before, const MetricValue& after, const std::string& better);

/// Every metric that there is; worse ones first, then better ones, other changes, and the rest; each by the size of
/// the relative change.
std::vector<MetricChange> compare_metrics(SQLite::Database& before, int64_t world_before, SQLite::Database& after,
                                          int64_t world_after);

struct FindingChange {
  enum class State { kNew, kGone, kStill };
  State state = State::kNew;
  std::string id, sentence;  ///< as it is after; of a gone one as it was
  std::optional<int64_t> rank;
  std::optional<int64_t> saving_before_ns, saving_after_ns;
  std::string bound_before, bound_after;  ///< of these, as finding.saving_bound; empty: none
};

/// New ones first, then gone ones, then those that are still there. The same finding is one of the same id, rank and
/// finding_about.subject.
std::vector<FindingChange> compare_findings(SQLite::Database& before, int64_t world_before, SQLite::Database& after,
                                            int64_t world_after);

/// How much slower the run is after: throughput before / after - 1 where both tell theirs, else step time after /
/// before - 1. By the means over the steps if a change of these is seen: a run takes as long as all its steps, and a
/// median does not see what happens in few of them, however long it takes. Else by the medians, which long steps that
/// come and go by chance do not hide.
struct SlowdownGate {
  std::optional<MetricChange> by;  ///< of throughput or step_time
  bool mean = false;               ///< `by` is of the means; else of the medians
  std::optional<double> other;     ///< relative change of the other one
  std::optional<double> slower;    ///< relative: 0.05 is 5 % slower; negative: faster
  bool seen = false;               ///< the interval says so
  bool known = false;              ///< there is an interval
};
/// `metrics` are those of compare_metrics().
SlowdownGate slowdown_gate(const std::vector<MetricChange>& metrics, SQLite::Database& before, int64_t world_before,
                           SQLite::Database& after, int64_t world_after);

}  // namespace ddl
