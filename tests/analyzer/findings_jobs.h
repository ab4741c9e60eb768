// Jobs and words that the tests of findings share.
#pragma once

#include <functional>
#include <random>

#include "tests/analyzer/analyzed.h"
#include "tests/analyzer/tables.h"

namespace ddl::test {

/// A blocking data-parallel job: every step, rank r computes compute_ns(step, r), then all reduce for `xfer_ns`.
inline Tables training(int64_t ranks, int64_t steps, int64_t xfer_ns,
                       const std::function<int64_t(int64_t, int64_t)>& compute_ns) {
  Tables run(ranks);
  run.exec("BEGIN");
  int64_t now_ns = 1_s;
  for (int64_t s = 0; s < steps; ++s) {
    std::vector<int64_t> enter_ns;
    for (int64_t r = 0; r < ranks; ++r) enter_ns.push_back(now_ns + compute_ns(s, r));
    run.allreduce(s + 1, enter_ns, xfer_ns, 1_MB, s);
    const int64_t end_ns = *std::max_element(enter_ns.begin(), enter_ns.end()) + xfer_ns;
    for (int64_t r = 0; r < ranks; ++r) run.step(r, s, now_ns, end_ns, end_ns - enter_ns[static_cast<size_t>(r)]);
    now_ns = end_ns;
  }
  run.exec("COMMIT");
  return run;
}

/// Three buckets per step posted at 20, 40 and 60 of a 60 ms backward; Waitall from 60 until `end_ns`.
inline Tables overlapped(int64_t end_ns) {
  Tables run(2);
  run.exec("BEGIN");
  int64_t seq = 0;
  for (int64_t s = 0; s < 20; ++s) {
    const int64_t begin_ns = s * 200_ms;
    for (int64_t rank : {0, 1}) {
      for (int64_t bucket = 0; bucket < 3; ++bucket) {
        Row row;
        row.rank = rank;
        row.op = "MPI_Iallreduce";
        row.bytes = 1_MB;
        row.step = s;
        row.enter_ns = begin_ns + (bucket + 1) * 20_ms;
        row.leave_ns = row.enter_ns + 10_us;
        run.add(row);
        row.request = true;
        row.seq = seq + bucket + 1;
        row.leave_ns = begin_ns + end_ns;
        run.add(row);
      }
      Row wait;
      wait.rank = rank;
      wait.op = "MPI_Waitall";
      wait.step = s;
      wait.enter_ns = begin_ns + 60_ms + 10_us;
      wait.leave_ns = begin_ns + end_ns;
      run.add(wait);
      run.step(rank, s, begin_ns, begin_ns + end_ns, end_ns - 60_ms + 20_us);
    }
    seq += 3;
  }
  run.exec("COMMIT");
  return run;
}

inline int64_t jitter(int64_t step, int64_t rank, int64_t most_ns) {
  std::mt19937_64 random(static_cast<uint64_t>(step * 1'000 + rank));
  random.discard(3);
  return static_cast<int64_t>(random() % static_cast<uint64_t>(most_ns));
}

}  // namespace ddl::test
