// What is known about why a rank is slow: what samples of its node's health say, and how the other ranks there do.
#pragma once

#include <SQLiteCpp/Database.h>

#include <cstdint>
#include <string>

#include "analyzer/findings/finding.h"

namespace ddl {

/// Sentences, each with a blank before it; empty if nothing was sampled or all was well. Network counters count only where several hosts
/// talk.
std::string health_evidence(SQLite::Database& db, int64_t world, int64_t rank);

/// Whether the other ranks on its host compute longer than those elsewhere too. Empty if there are no such ranks.
std::string same_host_evidence(const FindingInput& input, int64_t rank);

}  // namespace ddl
