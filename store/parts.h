// The store of a run made by several processes, on one machine or many with a common folder:
//
//   plan    who the processes are, the time axis, communicators: what all must agree on. One process, from the head of
//           every spool and, with several hosts, from its collectives
//   part    K of N takes the processes K's by the plan, about an Nth of the bytes, and makes their rows, as the ingest
//           does
//   merge   copies the rows of all parts into the store, in the order of the processes, numbers names anew where parts
//           saw them in another order, makes indices; then the analyzer goes over the whole
//
// The store equals that of ingest() row for row, whatever N (docs/decisions/0053). The files lie in NAME.ddl/parts.
// They are sealed like stores, and usable by the program that wrote them alone: each names its version.
//
// Everything throws Error: kDataMissing, with a hint what to run again, if a file is missing, damaged, or of another
// plan or run, or the run has changed since it was planned; CannotWrite.
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

/// Makes the plan; removes existing parts. Uses progress and threads of `options`. Returns the number of processes.
uint64_t prepare_parts(const RunDirectory& run, const IngestOptions& options = {});

/// Whether there is a usable plan of the run as it is now.
bool is_prepared(const RunDirectory& run);

/// Makes one part by the plan. Uses progress and threads of `options`.
void make_part(const RunDirectory& run, PartNumber part, const IngestOptions& options = {});

/// The parts out of `of` that are missing or unusable.
std::vector<unsigned> missing_parts(const RunDirectory& run, unsigned of);

/// The apparent number of finished parts out of `of`: for progress.
unsigned parts_made(const RunDirectory& run, unsigned of);

/// As ingest(), from a complete set of parts, whatever N. The files stay.
IngestSummary merge_parts(const RunDirectory& run, const IngestOptions& options = {});

/// Removes plan, parts, their logs (*.log) and drafts. Only files of ours; the folder goes if it is then empty.
void remove_parts(const RunDirectory& run);

}  // namespace ddl
