// How long ranks were ready to run and had no CPU, by the scheduler's account of their main threads
// (specification.md J14).
#pragma once

#include <SQLiteCpp/Database.h>

#include <cstdint>
#include <string>
#include <vector>

namespace ddl {

/// share of the time from which on it is told, as what bounds a job is (verdict.h)
constexpr double kLeastCpuWait = 0.05;

struct CpuWait {
  int64_t rank = 0;
  std::string host;
  double ready_ns = 0, on_cpu_ns = 0;
  double over_ns = 0;  ///< that both are of: from MPI_Init to MPI_Finalize, or the recording

  double share() const { return ready_ns / over_ns; }
};

/// By rank, of those whose account is known: not of ranks that were killed, nor where the kernel keeps none.
std::vector<CpuWait> read_cpu_waits(SQLite::Database& db, int64_t world);

/// A ratio of sums over the ranks; 0: of none it is known.
double share_without_cpu(const std::vector<CpuWait>& waits);

}  // namespace ddl
