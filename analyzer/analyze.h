// The analyzer: turns the recorded tables of a store into waiting, partitions, metrics, a verdict and findings.
//
// Order: collectives (wait, blame, bandwidth) -> messages (wait, blame) -> steps (partition) -> steady steps ->
// metrics -> findings -> verdict. Later passes read what earlier ones wrote. The store is not touched by
// anybody else meanwhile.
#pragma once

#include <SQLiteCpp/Database.h>

#include <functional>
#include <string_view>

namespace ddl {

/// Told what is being done and how far the whole is, 0 to 1; called from the thread that analyzes, every 50 000 events.
using AnalyzeProgress = std::function<void(std::string_view what, double done)>;

/// A hash of the sources of the analyzer and of the schema (version.cmake): another one may write other numbers.
std::string_view analysis_version();

/// Whether `db` holds the results of this version of the analyzer.
bool is_analyzed(SQLite::Database& db);

/// Fills all tables that schema.sql lists under "filled by the analyzer", makes and fills those of tables.sql, and
/// writes the analyzer's rows of `loss` (partial_collectives, mismatched_collectives, unmatched_messages,
/// clock_violations, bad_intervals, repeated_steps) and of `meta` (verdict*, analysis.*). What is there already is
/// replaced. One transaction: on an exception (ddl::Error) the store is as it was. Memory grows with ranks,
/// communicators, steps and messages under way at a time, not with events. With several `threads` what has been filled
/// is committed before metrics and findings read it, which is for drafts: on an exception part of it is there. The
/// results are the same for any number of them.
void analyze(SQLite::Database& db, const AnalyzeProgress& progress = {}, unsigned threads = 1);

}  // namespace ddl
