// Point-to-point calls and requests for hand-made tables, as the recorder leaves them.
#pragma once

#include <string>

#include "tests/analyzer/tables.h"

namespace ddl::test {

/// One rank's calls. Times are ns; a request is added with the moment at which the call that completes it is left.
class RankRows {
 public:
  RankRows(Tables& run, int64_t rank) : run_(run), rank_(rank) {}

  RankRows& on(int64_t comm) {
    comm_ = comm;
    return *this;
  }
  RankRows& in_step(int64_t step) {
    step_ = step;
    return *this;
  }
  RankRows& by_thread(int64_t thread) {
    thread_ = thread;
    return *this;
  }

  /// MPI_Send, MPI_Recv (with its actual source), MPI_Probe, ... `peer` below 0: MPI_PROC_NULL.
  RankRows& call(const std::string& op, int64_t peer, int64_t tag, int64_t enter_ns, int64_t leave_ns) {
    add(op, peer, tag, enter_ns, leave_ns, false);
    return *this;
  }
  /// MPI_Isend, MPI_Irecv: the post takes 1 ns. `done_ns` below 0: never completed.
  RankRows& post(const std::string& op, int64_t peer, int64_t tag, int64_t enter_ns, int64_t done_ns) {
    add(op, peer, tag, enter_ns, enter_ns + 1, false);
    if (done_ns >= 0) add(op, peer, tag, enter_ns, done_ns, true);
    return *this;
  }
  /// MPI_Irecv with MPI_ANY_SOURCE that `peer` answered.
  RankRows& post_any(int64_t peer, int64_t tag, int64_t enter_ns, int64_t done_ns) {
    add("MPI_Irecv", -1, -1, enter_ns, enter_ns + 1, false);
    if (done_ns >= 0) add("MPI_Irecv", peer, tag, enter_ns, done_ns, true);
    return *this;
  }
  /// A persistent request, from MPI_Start to its completion.
  RankRows& started(const std::string& op, int64_t peer, int64_t tag, int64_t enter_ns, int64_t done_ns) {
    add(op, peer, tag, enter_ns, done_ns, true);
    return *this;
  }
  RankRows& exchange(int64_t to, int64_t send_tag, int64_t from, int64_t tag, int64_t enter_ns, int64_t leave_ns) {
    add("MPI_Sendrecv", to, send_tag, enter_ns, leave_ns, false);
    add("MPI_Sendrecv", from, tag, enter_ns, leave_ns, true);
    return *this;
  }
  RankRows& wait(int64_t enter_ns, int64_t leave_ns, const std::string& op = "MPI_Waitall") {
    Row row;
    row.rank = rank_;
    row.op = op;
    row.enter_ns = enter_ns;
    row.leave_ns = leave_ns;
    row.comm = 0;
    row.step = step_;
    row.thread = thread_;
    run_.add(row);
    return *this;
  }

 private:
  void add(const std::string& op, int64_t peer, int64_t tag, int64_t enter_ns, int64_t leave_ns, bool request) {
    Row row;
    row.rank = rank_;
    row.op = op;
    row.enter_ns = enter_ns;
    row.leave_ns = leave_ns;
    row.bytes = 100;
    row.comm = comm_;
    if (peer >= 0) row.peer = peer;
    row.tag = tag;
    row.step = step_;
    row.thread = thread_;
    row.request = request;
    run_.add(row);
  }

  Tables& run_;
  int64_t rank_;
  int64_t comm_ = 1;
  int64_t thread_ = 0;
  std::optional<int64_t> step_;
};

}  // namespace ddl::test
