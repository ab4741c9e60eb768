// Calls that complete what is not blocking, while others have posted it and not come to complete it
// (specification.md W2). A library that moves data only inside its calls moves nothing for a rank that posts, computes
// and completes later: what waits for that rank looks like a transfer. So this part of a call is transfer, or waiting,
// and nothing tells which.
//
//   In the call [a, b) that completes operations, from the end of its known waiting on (for ranks to post) until
//   min(b, the last enter of other members, or of the other end of a message, into the calls that complete theirs).
//
// A process that tests in vain as often as not, and at least half as often as the one that tests most, is in the
// library now and then, though only the last of its tests left a record: nobody has to wait for it. It may wait for
// others, from the post on, in its loop.
#pragma once

#include <SQLiteCpp/Database.h>

#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "analyzer/intervals.h"
#include "analyzer/passes/catalog.h"

namespace ddl {

/// Calls that test for each of them that found something: with fewer nothing loops.
constexpr int64_t kLeastInVain = 2;

/// Processes that test in vain as often as not, and half as often as others.
std::set<int64_t> polling_processes(SQLite::Database& db);

/// Adds the calls that complete collectives to table late_completion, which analyze_messages() has filled with those of
/// messages. Needs `collective` and `call_wait`. Linear in events; runs without such collectives pay one look at the
/// profile.
void find_late_completions(SQLite::Database& db, const Catalog& catalog);

/// By process.
std::map<int64_t, std::vector<Interval>> read_late_completions(SQLite::Database& db);

}  // namespace ddl
