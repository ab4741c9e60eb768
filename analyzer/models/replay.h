// Replays a job from the durations of its operations: when would every step have ended, had some of them taken
// longer or shorter?
//
// An operation begins when those that it comes after have ended. Operations of a group (the members of a collective,
// the two ends of a message) begin together, when all of them could; then each takes its own duration, which is
// therefore the transfer without the waiting: the replay computes the waiting. Time between operations of a rank
// (launch delays) is left out. Seconds. Not thread-safe while it is built; const afterwards.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace ddl::models {

/// A kind of operation: in an ideal job all operations of one kind take equally long.
struct ReplayKind {
  std::string type;  ///< name under which its share of a slowdown is reported; several kinds may share one
  bool transfer = false;
  bool upper_bound = false;  ///< transfers that nobody saw end: their durations say "at most"
};

struct ReplayOp {
  int64_t rank = 0, step = 0;
  size_t kind = 0;
  double seconds = 0;
  int64_t group = -1;  ///< the same number, counted from 0: begin together; -1: alone
};

class Replay {
 public:
  using Op = uint32_t;  ///< index into ops()

  size_t add_kind(std::string type, bool transfer, bool upper_bound = false);
  /// About so many operations, and as many edges, will come.
  void reserve(size_t ops);
  Op add(const ReplayOp& op);
  void after(Op later, Op earlier);
  /// `op` becomes a member of `group`, and takes `seconds` from when all of it have come.
  void meet(Op op, int64_t group, double seconds);

  void lengthen(Op op, double seconds) { ops_[op].seconds += seconds; }
  void relabel(Op op, size_t kind) { ops_[op].kind = kind; }

  /// To be called once, after everything was added. `chained`: steps follow one another, each begins where the
  /// operations say; else each begins at 0. Throws ddl::Error if operations wait for one another in a circle.
  void finish(bool chained);

  const std::vector<ReplayKind>& kinds() const { return kinds_; }
  const std::vector<ReplayOp>& ops() const { return ops_; }
  const std::vector<int64_t>& ranks() const { return ranks_; }  ///< ascending
  const std::vector<int64_t>& steps() const { return steps_; }  ///< ascending
  std::vector<double> recorded() const;                         ///< the duration of each operation

  /// By step, as steps(): until its last operation ends, from the begin of the step, or (chained) from the end
  /// of the one before.
  std::vector<double> step_seconds(std::span<const double> durations) const;
  double mean_step_seconds(std::span<const double> durations) const;

 private:
  void order();

  std::vector<ReplayKind> kinds_;
  std::vector<ReplayOp> ops_;
  std::vector<std::pair<Op, Op>> edges_;  ///< (later, earlier), by finish() in the order of the first
  std::vector<uint32_t> first_edge_;      ///< of each operation, one more at the end
  std::vector<int64_t> ranks_, steps_;
  std::vector<uint32_t> step_of_;  ///< index into steps_
  /// groups whole, one after the other, each after all that its members wait for
  std::vector<Op> order_;
  std::vector<uint32_t> order_of_group_;  ///< where in order_ each group begins, one more at the end
  bool chained_ = false;
};

}  // namespace ddl::models
