#include "tests/tui/example.h"

#include "tests/support/synthetic_run.h"

namespace ddl::test {

using namespace tui;

Snapshot example_snapshot() {
  Snapshot s;
  s.name = "gpt-1.3b";
  s.job_id = "481516";
  s.run = "run.ddl";
  s.world_size = 16;
  s.nodes = 2;
  s.feed = Feed::kLive;
  s.clock = "12:04:31";
  s.window = kWindow;
  s.step = 1842;
  s.first_step = 1813;
  s.now_ns = 412.7e6;
  s.p50_ns = 375.2e6;
  s.p99_ns = 485.9e6;
  s.samples_per_s = 388;
  s.exposed_ratio = 0.167;
  s.overlap_ratio = 0.59;
  s.waiting_known = true;
  s.shares = Shares{0.69, 0.12, 0.084, 0.083, 0, 0.023};
  s.overhead_ratio = 0.006;
  s.own_cpu_ratio = 0.004;
  s.headline = {"rank 11 (nid0042) enters last in 87.0% of collectives since step 1795: the others wait 34.1 ms/step",
                "rank 11 last, others wait 34.1 ms", "Enter on its row: why", true, 11};
  const double late_ms[16] = {-0.6, 1.2, -1.4, -1.2, -0.2, -0.4, 4.1, 0.8, 0.2, 1.3, 0.8, 38.2, -0.2, 1.3, -0.6, 0.7};
  for (int r = 0; r < 16; ++r) {
    RankRow row;
    row.rank = r;
    row.node = r < 8 ? "nid0041" : "nid0042";
    row.slot = r % 8;
    row.late_ns = late_ms[r] * 1e6;
    row.wait_ns = r == 11 ? 0.3e6 : (36.5 - late_ms[r]) * 1e6;
    row.step_ns = 412.7e6;
    row.compute_ns = (r == 11 ? 372.0 : 334.0) * 1e6;
    row.exposed_ns = *row.step_ns - *row.compute_ns;
    row.shares = r == 11 ? Shares{0.77, 0.13, 0.08, 0.0, 0, 0.02} : Shares{0.68, 0.12, 0.085, 0.09, 0, 0.025};
    row.alarm = r == 11;
    for (int step = 0; step < 30; ++step)
      row.trend.push_back(r == 11 && step >= 8 ? 38e6 + step * 1e4 : late_ms[r] * 1e5 * (step % 3));
    row.layers = {{0, 26.7e6}, {1, r == 11 ? 98e6 : 61.2e6}};
    s.ranks.push_back(row);
  }
  s.axes = {{"data", "name", 1, 16, 26, 120.0e6, 34.5e6, 85.5e6}, {"all ranks", "shape", 1, 16, 1, 0.2e6, 0.2e6, 0.0}};
  s.collectives = {
      {"MPI_Allreduce", "dp", 16, 104 << 20, 24, 118.4e6, 34.1e6, 84.3e6, 31.0e9, 58.2e9, 0.72, false},
      {"MPI_Allgather", "dp", 16, 8 << 20, 2, 1.6e6, 0.4e6, 1.2e6, 14.0e9, 13.1e9, 0.16, false},
      {"MPI_Bcast", "MPI_COMM_WORLD", 16, 4, 1, 0.2e6, 0.2e6, 0.0, std::nullopt, std::nullopt, std::nullopt, false}};
  s.layers = {{"head", 8.9e6, 17.8e6, std::nullopt, std::nullopt},
              {"block 16-23 mlp", 20.4e6, 40.8e6, std::nullopt, 17.3e6},
              {"block 16-23 attn", 12.6e6, 25.2e6, std::nullopt, 8.6e6},
              {"optimizer", std::nullopt, std::nullopt, 7.6e6, std::nullopt}};
  for (uint64_t step = 1642; step <= 1842; ++step) {
    const bool slow = step >= 1795;
    s.history.push_back(
        {step, (slow ? 412.0 : 375.0) * 1e6 + static_cast<double>(step * 7919 % 13) * 1e5 + (step == 1789 ? 74e6 : 0),
         slow ? 0.17 : 0.09, slow ? 0.083 : 0.01, 58e9});
  }
  for (int r = 0; r < 16; ++r) {
    if (r != 11) s.blame[{11, r}] = 34.1e6;
  }
  s.blame[{6, 0}] = 1.1e6;
  return s;
}

Snapshot hung_snapshot() {
  Snapshot s = example_snapshot();
  s.ranks.resize(4);
  s.world_size = 4;
  s.nodes = 1;
  s.feed = Feed::kHung;
  s.silent_ns = 12e9;
  s.stall = Stall{"MPI_Allreduce number 57 on MPI_COMM_WORLD", {0, 2, 3}, {1}, false, 12e9};
  s.headline = {"rank 1 never entered MPI_Allreduce number 57 on MPI_COMM_WORLD: ranks 0, 2, 3 sit in it for 12.0 s",
                "rank 1 missing in MPI_Allreduce number 57 on MPI_COMM_WORLD",
                "gdb -p PID or py-spy dump on the missing rank shows what blocks it", true, 1};
  for (RankRow& row : s.ranks) {
    row.alarm = row.rank == 1;
    row.silent_ns = 12e9;
    if (row.rank != 1) row.call = "MPI_Allreduce", row.call_ns = 12e9;
    row.stack =
        row.rank == 1
            ? "next_batch loader.py:19 <- train train.py:81 <- <module> train.py:120; in C: clock_nanosleep <- time_sleep"
            : "reduce train.py:88 <- train train.py:83 <- <module> train.py:120";
  }
  s.blame.clear();
  return s;
}

Snapshot map_snapshot() {
  Snapshot s = example_snapshot();
  s.world_size = 1024;
  s.nodes = 128;
  s.ranks.clear();
  for (int r = 0; r < 1024; ++r) {
    RankRow row = example_snapshot().ranks[0];
    row.rank = r;
    row.node = "nid" + std::to_string(1000 + r / 8);
    row.slot = r % 8;
    row.alarm = r == 715;
    row.late_ns = r == 715 ? 38.2e6 : r / 8 == 40 ? 14e6 : 0.4e6 * (r * 7919 % 5);
    if (r == 300) row.life = Life::kExited;
    s.ranks.push_back(row);
  }
  s.headline = {"rank 715 (nid1089) enters last in 87.0% of collectives since step 1795: the others wait 34.1 ms/step",
                "rank 715 last, others wait 34.1 ms", "Enter on its row: why", true, 715};
  return s;
}

Snapshot large_snapshot(int ranks) {
  Snapshot s = example_snapshot();
  s.world_size = ranks;
  s.nodes = (ranks + 7) / 8;
  s.ranks.clear();
  for (int r = 0; r < ranks; ++r) {
    RankRow row = example_snapshot().ranks[static_cast<size_t>(r % 16)];
    row.rank = r;
    row.node = "very-long-node-name-" + std::to_string(r / 8) + ".cluster.example";
    row.alarm = r == 11;
    if (r % 5 == 0) row.late_ns = 12345.678e6;
    if (r % 7 == 0) row.wait_ns.reset();
    s.ranks.push_back(row);
  }
  return s;
}

Snapshot hostile_snapshot() {
  Snapshot s = example_snapshot();
  std::string all;
  for (const std::string& name : hostile_names()) all += name;
  s.name = s.job_id = s.run = s.headline.text = s.headline.brief = s.headline.next = all;
  const auto& names = hostile_names();
  for (size_t i = 0; i < s.ranks.size(); ++i) s.ranks[i].node = s.ranks[i].call = names[i % names.size()];
  for (size_t i = 0; i < s.collectives.size(); ++i)
    s.collectives[i].op = s.collectives[i].comm = names[(i + 3) % names.size()];
  for (const std::string& name : names) s.layers.push_back({name, 1e6, std::nullopt, std::nullopt, std::nullopt});
  return s;
}

}  // namespace ddl::test
