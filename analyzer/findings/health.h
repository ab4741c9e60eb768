// What samples of a node's health say about why a rank there is slow.
#pragma once

#include <SQLiteCpp/Database.h>

#include <cstdint>
#include <string>

namespace ddl {

/// Sentences, each with a blank before it; empty if nothing was sampled or all was well. Network counters count only where several hosts
/// talk.
std::string health_evidence(SQLite::Database& db, int64_t world, int64_t rank);

}  // namespace ddl
