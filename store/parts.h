// The store of a run made by several processes, on one machine or many that see the same folder:
//
//   plan    who the processes are, the time axis, communicators: what all must agree on. One process, from the head of every spool and, with
//           several hosts, from its collectives
//   part    K of N takes the processes K's by the plan, about an Nth of the bytes, and makes their rows, as the ingest does
//   merge   copies the rows of all parts into the store, in the order of the processes, numbers names anew where parts saw them in another
//           order, makes indices; then the analyzer goes over the whole
//
// The store is the same row for row as that of ingest(), whatever N (docs/decisions/0053). The files lie in NAME.ddl/parts. They are sealed as
// stores are, and are good for the program that wrote them alone: each names its version.
//
// Everything throws Error: kDataMissing with the hint what to run again where a file is missing, damaged, of another plan or run, or the run has
// changed since it was planned; CannotWrite.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "store/ingest.h"
#include "store/run_directory.h"

namespace ddl {

struct PartNumber {
  unsigned number = 1;  ///< from 1
  unsigned of = 1;
};
constexpr unsigned kMostParts = 10'000;

std::filesystem::path parts_folder(const RunDirectory& run);
std::filesystem::path plan_file(const RunDirectory& run);
std::filesystem::path part_file(const RunDirectory& run, PartNumber part);

/// Makes the plan; parts that are there are removed. Of `options` progress and threads count. Returns how many processes there are.
uint64_t prepare_parts(const RunDirectory& run, const IngestOptions& options = {});

/// Is there a plan of the run as it is now? False also where what is there cannot be used.
bool is_prepared(const RunDirectory& run);

/// Makes one part by the plan. Of `options` progress and threads count.
void make_part(const RunDirectory& run, PartNumber part, const IngestOptions& options = {});

/// Those of `of` parts that are still to be made, or cannot be used.
std::vector<unsigned> missing_parts(const RunDirectory& run, unsigned of);

/// How many of `of` parts there seem to be: for progress.
unsigned parts_made(const RunDirectory& run, unsigned of);

/// As ingest(), from the parts: of whatever N all are there. The files stay.
IngestSummary merge_parts(const RunDirectory& run, const IngestOptions& options = {});

/// Plan, parts, their logs (*.log) and drafts. Only files of ours; the folder goes if nothing else is in it.
void remove_parts(const RunDirectory& run);

}  // namespace ddl
