// Sums with codes on the wire: mpirun -np 5 compression_check. For 1 to 5 ranks, every code and sizes that do not divide evenly: nothing is
// lost that a residual does not hold, everybody gets the same, and what is sent is what the formula says, counted between program and MPI.
#include <mpi.h>

#include <cmath>
#include <cstdio>
#include <cstring>
#include <numeric>

#include "tests/workloads/allreduce_counts.h"
#include "workloads/train/compress/compressed_sum.h"

namespace ddl::train {
namespace {

using allreduce::seen;

int world_rank = 0;
int failures = 0;

void check(bool good, const std::string& what) {
  if (good) return;
  if (++failures <= 20) std::fprintf(stderr, "FAILED: rank %d: %s\n", world_rank, what.c_str());
}

/** The README's table, written a second time. */
std::size_t wire_bytes(const std::string& name, std::size_t n) {
  const std::size_t groups = (n + 511) / 512;
  const std::size_t rest = n % 512;
  const auto packed = [&](std::size_t values_per_byte) {
    return n / 512 * (512 / values_per_byte) + (rest + values_per_byte - 1) / values_per_byte;
  };
  if (name == "fp16" || name == "bf16") return 2 * n;
  if (name == "q8") return 4 * groups + n;
  if (name == "q4") return 4 * groups + packed(2);
  if (name == "ternary") return 4 * groups + packed(4);
  if (name == "onebit") return 8 * groups + packed(8);
  return 8 * static_cast<std::size_t>(std::ceil(0.05 * static_cast<double>(n)));  // topk:0.05
}

void check_code(MPI_Comm comm, const std::string& name, std::size_t n) {
  constexpr int kSteps = 30;
  int rank_number = 0;
  int rank_count = 1;
  MPI_Comm_rank(comm, &rank_number);
  MPI_Comm_size(comm, &rank_count);
  const auto rank = static_cast<std::size_t>(rank_number);
  const auto p = static_cast<std::size_t>(rank_count);
  const std::string what = name + ", " + std::to_string(n) + " values, " + std::to_string(p) + " ranks";

  CompressedSum sum(comm, make_codec(name));
  std::vector<float> residual(n);
  std::vector<double> given(n);
  std::vector<double> received(n);
  std::vector<double> magnitudes(n);
  seen = {};
  for (uint64_t step = 0; step < kSteps; ++step) {
    Random draw(step + 1, Draw::kImages, rank);
    std::vector<float> values(n);
    for (std::size_t i = 0; i < n; ++i) {
      values[i] = draw.uniform(-1, 1);
      given[i] += static_cast<double>(values[i]);
      magnitudes[i] += std::fabs(static_cast<double>(values[i]));
      values[i] += residual[i];
    }
    Random rounding(1, Draw::kRounding, step, rank);
    allreduce::counting = true;
    sum(values, residual, rounding);
    allreduce::counting = false;
    std::vector<float> first = values;
    PMPI_Bcast(first.data(), static_cast<int>(n), MPI_FLOAT, 0, comm);
    check(n == 0 || std::memcmp(first.data(), values.data(), n * sizeof(float)) == 0, what + ": not the same on all ranks");
    for (std::size_t i = 0; i < n; ++i) received[i] += static_cast<double>(values[i]);
  }

  for (std::size_t i = 0; i < n; ++i) given[i] -= static_cast<double>(residual[i]);
  PMPI_Allreduce(MPI_IN_PLACE, given.data(), static_cast<int>(n), MPI_DOUBLE, MPI_SUM, comm);
  PMPI_Allreduce(MPI_IN_PLACE, magnitudes.data(), static_cast<int>(n), MPI_DOUBLE, MPI_SUM, comm);
  for (std::size_t i = 0; i < n; ++i) {
    // Rounding of float additions: of values, residuals and sums, a few in each step and rank.
    check(std::fabs(received[i] - given[i]) <= 2e-6 * (magnitudes[i] + 1), what + ": the sum is not conserved");
  }

  std::size_t messages = 0;
  std::size_t bytes = 0;
  if (p > 1 && name.starts_with("topk")) {
    messages = n > 0 ? p - 1 : 0;
    bytes = (p - 1) * wire_bytes(name, n);
  } else if (p > 1) {
    for (std::size_t shard = 0; shard < p; ++shard) {
      const std::size_t values = n * (shard + 1) / p - n * shard / p;
      const std::size_t times = shard == rank ? p - 1 : 1;
      messages += values > 0 ? times : 0;
      bytes += times * wire_bytes(name, values);
    }
  }
  check(seen.sent_messages == kSteps * messages && seen.sent_bytes == kSteps * bytes,
        what + ": sent " + std::to_string(seen.sent_bytes) + " bytes, by the formula " + std::to_string(kSteps * bytes));
  check(sum.traffic().messages == seen.sent_messages && sum.traffic().bytes == seen.sent_bytes, what + ": counted otherwise");
  check(seen.collectives == 0, what + ": makes collectives");
}

}  // namespace
}  // namespace ddl::train

int main(int argc, char** argv) {
  using namespace ddl::train;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
  int ranks = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  for (int p = 1; p <= ranks; ++p) {
    MPI_Comm comm = MPI_COMM_NULL;
    MPI_Comm_split(MPI_COMM_WORLD, world_rank < p ? 0 : MPI_UNDEFINED, 0, &comm);
    if (comm == MPI_COMM_NULL) continue;
    for (const char* name : {"fp16", "bf16", "q8", "q4", "onebit", "ternary", "topk:0.05"}) {
      for (const std::size_t n : {0, 1, 3, 511, 1030, 5000}) check_code(comm, name, n);
    }
    MPI_Comm_free(&comm);
  }
  PMPI_Allreduce(MPI_IN_PLACE, &failures, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  if (world_rank == 0) std::printf("%d ranks, most failures on one: %d\n", ranks, failures);
  MPI_Finalize();
  return failures > 0 ? 1 : 0;
}
