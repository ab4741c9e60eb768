// A finding: something to fix, with what it costs, how sure we are, and what to try.
//
// One file each, findings/NAME.cpp, with DDL_FINDING(NAME, ...). A finder looks at one world and returns what it found,
// nothing on a healthy run. It may read the whole store and the tables of the passes (analyzer/tables.sql); several run
// at a time, each on a connection of its own.
#pragma once

#include <SQLiteCpp/Database.h>

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/passes/catalog.h"
#include "analyzer/passes/input_ranges.h"
#include "analyzer/passes/layer_spreads.h"
#include "analyzer/passes/steady_steps.h"

namespace ddl {

struct Finding {
  std::string sentence;  ///< one line; names ranks as "rank N"
  std::optional<int64_t> rank;
  std::vector<int64_t> ranks;  ///< several that it is about, as ranks and not as members of something
  /// what it is about besides, where that may differ from run to run: operation, communicator, layer, ranks
  std::string subject;
  std::optional<int64_t> saving_ns;  ///< per step; per run when there are no steps. Nothing: not a matter of speed
  std::optional<int64_t> since;      ///< first of the steps that saving_ns is over; nothing: all steady steps
  /// per step, what it waits for before it begins, of which saving_ns may be a part: loading between steps
  double before_ns = 0;
  bool at_most = false;  ///< saving_ns is an upper bound (specification.md J7, J8)
  bool mostly = false;   ///< of an upper bound: at least half of it is saved
  /// saving_ns is a lower bound; nothing: it is where waiting is known from below
  std::optional<bool> at_least;
  std::string confidence;    ///< sure, likely, maybe
  std::string evidence;      ///< observations, with numbers
  std::string evidence_sql;  ///< for `ddl query`; may be empty
  std::string advice;        ///< next things to try
};

struct SharedAnswers;

struct FindingInput {
  SQLite::Database& db;
  const Catalog& catalog;
  int64_t world;
  SteadySteps steps;
  int64_t step_ns;  ///< median step; duration of the run when there are no steps; 0: not known
  /// ranks left no record: waiting is a lower bound, transfer an upper one (specification.md J7)
  bool bounded;
  SharedAnswers& shared;  ///< findings/shared.h
  InputRanges& inputs;    ///< already read
};

/// Findings are shown in this order, and findings about speed by their saving. Upper bounds that may be far too high
/// come last, and among those the ones that may have another cause. CPU contention comes before the findings that it
/// may explain (contention.h). Where the numbers are doubtful, nothing is said of speed and no verdict is given: it
/// would be right by luck.
enum class FindingKind {
  kStuck,       ///< the run went wrong: ranks wait for one that did not come
  kMismatched,  ///< it went wrong: ranks called different operations
  kEnded,       ///< it went wrong: a rank died
  kTrust,       ///< the numbers are doubtful
  kSpeed,
};

constexpr size_t kMaxFindings = 5;  ///< of a world

struct FindingRow {
  std::string_view id;
  FindingKind kind;
  std::string_view figure;  ///< of the HTML report, an id of reports/html/figures.cpp; empty: none
  std::vector<Finding> (*find)(const FindingInput&);
};

/// By kind; of one kind by name.
std::span<const FindingRow> finding_rows();

/// Head of a finder, in column 1 of findings/NAME.cpp; its body sees `input`. CMake lists the finders (rows.cmake), and
/// tools/findings_doc writes the sentences `what` and `from` (from what it is concluded) into docs/findings.md.
#define DDL_FINDING(id, kind, figure, what, from)                               \
  static std::vector<Finding> find_##id(const FindingInput& input);             \
  extern const FindingRow kFinding_##id;                                        \
  const FindingRow kFinding_##id = {#id, FindingKind::kind, figure, find_##id}; \
  static std::vector<Finding> find_##id(const FindingInput& input)

/// Runs all finders and fills table `finding`. `inputs`: as analyze_steps() left them. `layers`: of score_sections().
/// Returns why the numbers of a world are doubtful, of those where they are. `threads` as read_in_parallel() takes them
/// (analyzer/parallel_reads.h).
std::map<int64_t, std::string> store_findings(SQLite::Database& db, const Catalog& catalog,
                                              const std::map<int64_t, SteadySteps>& steady, InputRanges& inputs,
                                              std::map<int64_t, LayerSpreads> layers, unsigned threads = 1);

}  // namespace ddl
