// Processor time of the replay behind the saving of late GPUs (analyzer/models/replay_gpus.h), and how it grows: jobs
// with a slow rank on data x 2 x 2 GPUs, of more and more replicas or steps.
//
//     bench_late_gpus [ROUNDS]      default: 3, of which the least counts
//
// Prints a table with exponents, the slope of log time over log size: 1 is linear.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <ctime>
#include <stdexcept>
#include <vector>

#include "analyzer/analyze.h"
#include "analyzer/models/replay_gpus.h"
#include "store/database.h"
#include "tests/analyzer/injected/gpu_job.h"
#include "tests/analyzer/injected/gpu_store.h"

namespace ddl::test {
namespace {

struct Measured {
  double size = 0, events = 0, seconds = 0;
};

double processor_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

Measured measure(int replicas, uint64_t steps, int rounds) {
  GpuJob job;
  job.data = replicas;
  job.steps = steps;
  job.tensor_bytes = 1 << 20;
  job.activation_bytes = 1 << 20;
  job.bucket_bytes = {8 << 20, 8 << 20};
  job.optimizer_ns = 300'000;
  job.input_ns = 20'000;
  job.fault = GpuFault::kSlowRank;
  job.size = 0.3;
  SQLite::Database db(":memory:", SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE | SQLite::OPEN_NOMUTEX);
  db.exec(kSchemaSql);
  store_gpu_job(job, db);
  analyze(db);
  const Catalog catalog(db);
  Measured measured;
  measured.events = db.execAndGet("SELECT count(*) FROM gpu_event").getDouble();
  for (int round = 0; round < rounds; ++round) {
    const double begin_s = processor_seconds();
    if (!models::saving_without_late_gpus(db, catalog, 0, {0}, models::LateWork::kAsOthers))
      throw std::logic_error("it cannot be replayed");
    const double seconds = processor_seconds() - begin_s;
    measured.seconds = round == 0 ? seconds : std::min(measured.seconds, seconds);
  }
  return measured;
}

void print(const char* axis, const std::vector<Measured>& points) {
  double x = 0, y = 0, xx = 0, xy = 0;
  for (const Measured& p : points) {
    fmt::print("{} {:.0f}: {:.0f} GPU events, {:.1f} ms\n", axis, p.size, p.events, p.seconds * 1e3);
    const double log_size = std::log(p.size), log_s = std::log(p.seconds);
    x += log_size, y += log_s, xx += log_size * log_size, xy += log_size * log_s;
  }
  const auto n = static_cast<double>(points.size());
  fmt::print("{}: exponent {:.2f}\n", axis, (n * xy - x * y) / (n * xx - x * x));
}

}  // namespace
}  // namespace ddl::test

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 3;
  std::vector<ddl::test::Measured> ranks, steps;
  for (const int replicas : {2, 8, 32}) {
    ranks.push_back(ddl::test::measure(replicas, 25, rounds));
    ranks.back().size = 4 * replicas;
  }
  for (const uint64_t count : {25, 100, 400}) {
    steps.push_back(ddl::test::measure(2, count, rounds));
    steps.back().size = static_cast<double>(count);
  }
  ddl::test::print("ranks", ranks);
  ddl::test::print("steps", steps);
  return 0;
}
