// Hosts that were slow again and again (specification.md "Slow hosts over runs").
//
// In a run on n hosts, of which findings name k as what the others waited for, chance names each with probability
// k/n: the null model is that the slow hosts of a run are drawn at random among its hosts, run by run. How often a
// host is named is then a sum of Bernoulli variables with different probabilities (Poisson-binomial), whose tail is
// computed exactly, run by run (Wang, Statistica Sinica 3, 1993). It is multiplied by the number of hosts that were
// looked at (Bonferroni).
//
// Runs on one host, of which no host or every host is named tell nothing of hosts, and are left out. Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "history/row.h"

namespace ddl::history {

constexpr double kSlowHostP = 0.01;  ///< a host whose corrected p-value is below is drained

struct SlowHost {
  std::string host;
  int64_t runs = 0, slow = 0;   ///< that could name it; that did
  double expected = 0;          ///< by chance
  double p = 1, corrected = 1;  ///< of being named so often by chance; times the number of hosts
  int64_t jobs = 0;             ///< job names among the runs that named it
  /// all of these blame this rank of one job: it may be the program that is slow there
  std::optional<int64_t> one_rank;
  std::vector<const RunRow*> named_by;  ///< those runs, by start
  bool to_drain() const { return corrected < kSlowHostP && !one_rank; }
};

struct SlowHosts {
  std::vector<SlowHost> hosts;  ///< that were named at least once, by p
  int64_t looked_at = 0;        ///< hosts that could be named
  int64_t runs = 0;             ///< that tell
};

/// `rows` must outlive the answer.
SlowHosts slow_hosts(const std::vector<RunRow>& rows);

/// P(at least `least` of independent events with these probabilities).
double poisson_binomial_tail(const std::vector<double>& probabilities, int64_t least);

}  // namespace ddl::history
