// Sums with codes on the wire: mpirun -np 5 compression_check. For 1 to 5 ranks, every code and sizes that do not
// divide evenly: nothing is lost that a residual does not hold, everybody gets the same, and what is sent is what the
// formula says, counted between program and MPI.
#include <mpi.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <numeric>

#include "tests/workloads/allreduce_counts.h"
#include "workloads/train/compress/compressed_sum.h"
#include "workloads/train/compress/sparse_stream.h"
#include "workloads/train/gradient_sum.h"

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
  if (name == "top16_q4")
    return n / 512 * 44 +
           (rest > 0 ? 4 + 2 * std::min<std::size_t>(rest, 16) + (std::min<std::size_t>(rest, 16) + 1) / 2 : 0);
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
  std::size_t large = 0;  // values of magnitude 0.5 or more, in all steps
  seen = {};
  for (uint64_t step = 0; step < kSteps; ++step) {
    Random draw(step + 1, Draw::kImages, rank);
    std::vector<float> values(n);
    for (std::size_t i = 0; i < n; ++i) {
      values[i] = draw.uniform(-1, 1);
      given[i] += static_cast<double>(values[i]);
      magnitudes[i] += std::fabs(static_cast<double>(values[i]));
      values[i] += residual[i];
      large += std::fabs(values[i]) >= 0.5F ? 1 : 0;
    }
    Random rounding(1, Draw::kRounding, step, rank);
    allreduce::counting = true;
    sum(values, residual, rounding);
    allreduce::counting = false;
    std::vector<float> first = values;
    PMPI_Bcast(first.data(), static_cast<int>(n), MPI_FLOAT, 0, comm);
    check(n == 0 || std::memcmp(first.data(), values.data(), n * sizeof(float)) == 0,
          what + ": not the same on all ranks");
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
  // what is sent depends on the values: 4 bytes a step, and 8 for each large one
  if (p > 1 && name.starts_with("threshold")) {
    check(seen.sent_bytes == (p - 1) * (n > 0 ? kSteps * 4 + 8 * large : 0), what + ": bytes");
    check(seen.sent_messages == (n > 0 ? kSteps * (p - 1) : 0) && sum.traffic().bytes == seen.sent_bytes,
          what + ": counted otherwise");
    return;
  }
  if (p > 1 && name.starts_with("top")) {
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
  check(
      seen.sent_messages == kSteps * messages && seen.sent_bytes == kSteps * bytes,
      what + ": sent " + std::to_string(seen.sent_bytes) + " bytes, by the formula " + std::to_string(kSteps * bytes));
  check(sum.traffic().messages == seen.sent_messages && sum.traffic().bytes == seen.sent_bytes,
        what + ": counted otherwise");
  check(seen.collectives == 0, what + ": makes collectives");
}

/** Sparse streams: sums of all ranks exactly as index and value say, and the bytes of each round from the union of
 * indices so far. */
void check_streams(MPI_Comm comm, double share, std::size_t n) {
  int rank = 0, p = 1;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &p);
  const std::string what =
      "streams of " + std::to_string(share) + ", " + std::to_string(n) + " values, " + std::to_string(p) + " ranks";
  // Small whole numbers: their sums are exact in any order. Every rank knows everybody's.
  std::vector<std::vector<bool>> has(static_cast<std::size_t>(p), std::vector<bool>(n));
  std::vector<float> wanted(n);
  std::vector<uint32_t> indices;
  std::vector<float> values;
  for (int r = 0; r < p; ++r) {
    Random draw(5, Draw::kImages, static_cast<uint64_t>(r), n);
    for (uint32_t i = 0; i < n; ++i) {
      if (draw.uniform() >= static_cast<float>(share)) continue;
      const auto value = static_cast<float>(1 + draw.below(7));
      has[static_cast<std::size_t>(r)][i] = true;
      wanted[i] += value;
      if (r == rank) indices.push_back(i), values.push_back(value);
    }
  }
  SparseStreamSum streams(comm);
  std::vector<float> sum(n);
  seen = {};
  allreduce::counting = true;
  streams(indices, values, sum);
  allreduce::counting = false;
  check(sum == wanted, what + ": another sum");

  int power = 1;
  while (2 * power <= p) power *= 2;
  const auto size = [n](const std::vector<bool>& known) {
    const auto entries = static_cast<std::size_t>(std::count(known.begin(), known.end(), true));
    return 4 + (entries > n / 2 ? 4 * n : 8 * entries);
  };
  const auto join = [n](std::vector<bool>& to, const std::vector<bool>& from) {
    for (std::size_t i = 0; i < n; ++i) to[i] = to[i] || from[i];
  };
  std::size_t bytes = 0;
  std::vector<std::vector<bool>> known = has;
  for (int r = power; r < p; ++r) {
    if (r == rank) bytes += size(known[static_cast<std::size_t>(r)]);
    join(known[static_cast<std::size_t>(r - power)], has[static_cast<std::size_t>(r)]);
  }
  for (int distance = 1; distance < power; distance *= 2) {
    if (rank < power) bytes += size(known[static_cast<std::size_t>(rank)]);
    std::vector<std::vector<bool>> next = known;
    for (int r = 0; r < power; ++r)
      join(next[static_cast<std::size_t>(r)], known[static_cast<std::size_t>(r ^ distance)]);
    known = next;
  }
  if (rank < p - power) bytes += size(known[static_cast<std::size_t>(rank)]);
  check(
      seen.sent_bytes == bytes && streams.traffic().bytes == bytes && streams.traffic().messages == seen.sent_messages,
      what + ": sent " + std::to_string(seen.sent_bytes) + " bytes, by the definition " + std::to_string(bytes));
}

/** Deep gradient compression of all ranks against the publication's lines in one process, warm-up included. */
void check_dgc() {
  constexpr std::size_t kValues = 700;
  constexpr float kMomentum = 0.9F;
  int rank = 0, p = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &p);
  Options options;
  options.compress = "dgc:0.01:8";
  options.momentum = kMomentum;
  const std::unique_ptr<GradientSum> sum = make_gradient_sum(options, kValues);
  std::vector<std::vector<float>> u(static_cast<std::size_t>(p), std::vector<float>(kValues)), v = u;
  std::size_t bytes = 0;
  for (uint64_t step = 0; step < 12; ++step) {
    const double share = step < 8 ? std::max(0.01, std::pow(0.25, 1 + static_cast<double>(step / 2))) : 0.01;
    const auto entries = static_cast<std::size_t>(std::ceil(share * kValues));
    std::vector<float> own(kValues), wanted(kValues);
    for (std::size_t r = 0; r < static_cast<std::size_t>(p); ++r) {
      Random draw(step + 1, Draw::kImages, r);
      for (std::size_t i = 0; i < kValues; ++i) {
        const float gradient = draw.uniform(-1, 1);
        if (r == static_cast<std::size_t>(rank)) own[i] = gradient;
        u[r][i] = kMomentum * u[r][i] + gradient;
        v[r][i] += u[r][i];
      }
      for (std::size_t n = 0; n < entries; ++n) {
        std::size_t largest = 0;
        for (std::size_t i = 1; i < kValues; ++i)
          if (std::fabs(v[r][i]) > std::fabs(v[r][largest])) largest = i;
        wanted[largest] += v[r][largest];
        u[r][largest] = v[r][largest] = 0;
      }
    }
    sum->add_up({own, {}, 0, 0, step});
    bytes += static_cast<std::size_t>(p - 1) * 8 * entries;
    for (std::size_t i = 0; i < kValues; ++i)
      check(std::fabs(own[i] - wanted[i]) <= 1e-5F * (1 + std::fabs(wanted[i])),
            "dgc, step " + std::to_string(step) + ": another sum");
  }
  check(sum->sent().bytes == bytes,
        "dgc: sent " + std::to_string(sum->sent().bytes) + " bytes, by the formula " + std::to_string(bytes));
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
    for (const char* name :
         {"fp16", "bf16", "q8", "q4", "onebit", "ternary", "topk:0.05", "top16_q4", "threshold:0.5"}) {
      for (const std::size_t n : {0, 1, 3, 511, 1030, 5000}) check_code(comm, name, n);
    }
    for (const double share : {0.01, 0.2, 0.45, 0.9})
      for (const std::size_t n : {1, 7, 1000}) check_streams(comm, share, n);
    MPI_Comm_free(&comm);
  }
  check_dgc();
  PMPI_Allreduce(MPI_IN_PLACE, &failures, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  if (world_rank == 0) std::printf("%d ranks, most failures on one: %d\n", ranks, failures);
  MPI_Finalize();
  return failures > 0 ? 1 : 0;
}
