// What the ranks of a recorded run sent one another, in messages and in collectives, and what each tier of
// links took for it.
#pragma once

#include <SQLiteCpp/Database.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analyzer/models/collective_traffic.h"
#include "analyzer/models/link_fit.h"

namespace ddl::models {

struct RunTraffic {
  Traffic bytes;                      ///< over the events that the window kept
  double message_bytes = 0;           ///< of which messages of the program
  double collective_bytes = 0;        ///< of which collectives, as the plan carries them out
  std::vector<std::string> left_out;  ///< operations whose messages no plan tells
};
/// `ranks`: of the world. Throws ddl::Error (kDataMissing) if no rank sent anything to another.
RunTraffic run_traffic(SQLite::Database& db, int64_t world, const TrafficPlan& plan);

/// By rank of the world: its host; empty for ranks that left no record.
std::vector<std::string> hosts_of_ranks(SQLite::Database& db, int64_t world);

struct TierFit {
  std::optional<LinkFit> fit;
  std::string why;  ///< why there is none
  int64_t collectives = 0, messages = 0;
};
/// By tier: a fit to the blocking collectives that need it and no wider one, and to the messages between its places
/// that their receivers waited for. `tier_of`: which tier ranks need among one another. All steps of a collective pay
/// for the widest tier in it.
std::vector<TierFit> fit_tiers(SQLite::Database& db, int64_t world, size_t tiers,
                               const std::vector<std::vector<size_t>>& groups_of_rank, Algorithm algorithm,
                               std::optional<double> gamma_s_per_byte);

}  // namespace ddl::models
