// Writes the run directory of a virtual job of a given size, for bench/growth.py.
//   bench_sized_run FOLDER RANKS STEPS LAYERS CALLS [KERNELS]
//   bench_sized_run FOLDER RANKS
// CALLS: reductions of a step; events grow with RANKS * STEPS * (CALLS + LAYERS). KERNELS: that each layer launches on
// the rank's GPU, forward and backward; the job then reduces as it likes. With RANKS alone, a multiple of 8: nodes with
// clocks of their own, communicators of the world, the node and the data-parallel group, 20 steps of ten collectives,
// and one rank that is late (many_ranks_job() in tests/support/training_job.h).
#include <cstdlib>
#include <iostream>
#include <string>

#include "tests/support/synthetic_run.h"
#include "tests/support/training_job.h"

int main(int argc, char** argv) {
  using namespace ddl::test;
  const auto number = [&](int i) { return std::atoi(argv[i]); };
  if (argc == 3 && number(2) > 0 && number(2) % 8 == 0) {
    write_training_job(many_ranks_job(number(2)), argv[1]);
    return 0;
  }
  if (argc != 6 && argc != 7) {
    std::cerr << "usage: bench_sized_run FOLDER RANKS [STEPS LAYERS CALLS [KERNELS]]\n";
    return 2;
  }
  if (argc == 7) {
    TrainingJob job = draw_training_job(1, {Fault::kHostBound});
    job.nodes = 1;
    job.ranks_per_node = number(2);
    job.steps = static_cast<uint64_t>(number(3));
    job.forward_ns.assign(static_cast<size_t>(number(4)), 1'000'000);
    job.backward_ns = job.forward_ns;
    job.buckets = {{0, 1 << 20}};
    job.gpu.kernels_per_layer = number(6);
    job.clock_offset_ns = {0};
    job.clock_drift_ppm = {0};
    job.faults.clear();
    write_training_job(job, argv[1]);
    return 0;
  }
  const int ranks = number(2), layers = number(4), calls = number(5);
  SyntheticRun job = run()
                         .ranks(ranks)
                         .hosts((ranks + 63) / 64)
                         .steps(static_cast<uint64_t>(number(3)))
                         .jitter(20_us)
                         .slow(ranks / 2, 50_us);
  for (int i = 0; i < layers; ++i) job.forward("layer" + std::to_string(i), 100_us);
  for (int i = 0; i < calls; ++i) job.allreduce(1_MiB, 200_us);
  job.value("samples", 32).job_json().write(argv[1]);
  return 0;
}
