// Keeps the books of a simulated run: every call, range and step, and from them the Truth.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "tests/support/synthetic_run_truth.h"

namespace ddl::test::synthetic {

class Ledger {
 public:
  explicit Ledger(int ranks) : ranks_(static_cast<size_t>(ranks)) {}

  void begin_step(int rank, uint64_t step, int64_t t);
  void end_step(int rank, uint64_t step, int64_t t);
  void open_range(int rank, int64_t t);
  /// For the innermost open range; steps are opened by begin_step().
  void close_range(int rank, const std::string& kind, const std::string& region, int64_t t);
  void call(int rank, const std::string& op, const std::string& comm, const std::string& region, int64_t bytes,
            int64_t enter_ns, int64_t leave_ns);
  void polls(int rank, const std::string& op, const std::string& region, int64_t count, int64_t each_ns);
  void open_call(const OpenCallTruth& call) { truth_.open_calls.push_back(call); }

  /// Bytes of a receive are known when it is over and belong to the row of its post.
  void remember_receive(uint64_t post, int rank, const std::string& op, const std::string& comm,
                        const std::string& region);
  void add_bytes(uint64_t post, int64_t bytes) { row(receives_.at(post)).bytes += bytes; }

  size_t add_instance();
  InstanceTruth& instance(size_t number) { return instances_[number]; }
  void leave_instance(size_t number, int rank, int64_t t);

  size_t add_message(const MessageTruth& message) {
    truth_.messages.push_back(message);
    return truth_.messages.size() - 1;
  }
  /// One end of it is over, in this call of `rank`.
  void end_message(size_t number, bool received, int rank, int64_t enter_ns, int64_t leave_ns) {
    message_calls_[{rank, enter_ns, leave_ns}].emplace_back(number, received);
  }

  /// Splits the instances into waiting and transfer, cuts the steps, and gives everything away.
  Truth close();

 private:
  struct Interval {
    int64_t begin, end;
  };
  struct Range {
    int64_t start;
    int64_t in_calls;  ///< BookRank::in_calls at the begin
  };
  struct BookRank {
    std::vector<Range> ranges;
    std::optional<Range> step;
    int64_t in_calls = 0;
    std::vector<Interval> calls;    ///< in order, disjoint
    std::vector<Interval> waiting;  ///< may overlap
  };
  using Key = std::tuple<int, std::string, std::string, std::string>;  ///< rank, op, comm, region

  void split_messages();
  ProfileTruth& row(const Key& key);
  static int64_t overlap(const std::vector<Interval>& calls, const std::vector<Interval>& waiting, Interval window);

  std::vector<BookRank> ranks_;
  std::deque<InstanceTruth> instances_;  ///< references stay valid
  std::map<Key, ProfileTruth> profile_;
  std::map<uint64_t, Key> receives_;
  /// by rank, enter, leave
  std::map<std::tuple<int, int64_t, int64_t>, std::vector<std::pair<size_t, bool>>> message_calls_;
  Truth truth_;
};

}  // namespace ddl::test::synthetic
