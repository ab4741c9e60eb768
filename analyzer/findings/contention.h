// What a lack of CPUs may explain of other findings (specification.md J14): a rank that is ready to run and has no CPU
// computes for longer, and keeps those waiting that exchange data with it. Nobody knows how much of a finding's time
// that is, so its saving stays; but its evidence tells of it, and where the ranks waited long enough to be all of its
// cause, the finding that tells who took the CPUs comes first: whoever tunes the network before that tunes noise.
#pragma once

#include <SQLiteCpp/Database.h>

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/findings/finding.h"

namespace ddl {

class Contention {
 public:
  Contention(SQLite::Database& db, int64_t world);

  /// Is it the one that tells of ranks without a CPU?
  static bool is_told_by(std::string_view id);
  /// Behind the evidence of a finding in whose times such waits are; empty: in none. `share`: its saving's.
  std::string evidence(std::string_view id, const Finding& finding, double share) const;
  /// Did `waiting`, the ranks that a finding of contention is about, wait long enough to be its cause? A message takes
  /// two ranks with a CPU, so those two count that waited longest. For a finding about late ranks it is their own wait,
  /// less the others': half of the saving, for what else makes them late must be more than that to come before it.
  bool may_explain(const std::vector<int64_t>& waiting, std::string_view id, const Finding& finding,
                   double share) const;

 private:
  bool inflates(std::string_view id) const;
  /// Mean share of the run that `ranks`, or all others, waited for a CPU; 0: unknown.
  double mean_share(const std::vector<int64_t>& ranks, bool others) const;

  std::map<int64_t, double> shares_;  ///< of the run without a CPU, by rank
  bool considerable_ = false;         ///< of some rank
  bool on_gpus_ = false;              ///< these carry out collectives
};

}  // namespace ddl
