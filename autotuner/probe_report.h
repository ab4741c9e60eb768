// Compares what ran, from the files of libddl-probe-openmpi.so, with the rules: the proof that emitted
// rules are in force.
//
// A probe file is text: `ddl-probe-openmpi 1`, `library WORDS`, `rank N of N` (-1: not known), `symbols 0|1` (whether
// the library has the functions that are counted), `lost N` (calls that were not counted), then a row per kind of call,
// `RANKS ELEMENTS BYTES ASKED RAN SEGMENT COMMUTES CALLS` (algorithms by their id), and `end`.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace ddl::tune {

/// Equal calls of MPI_Allreduce in one process.
struct ProbeRow {
  int64_t ranks = 0, elements = 0, bytes = 0;
  int64_t asked = 0, ran = 0;  ///< the algorithm that coll_tuned called, and its fallback, else the same
  int64_t segment_bytes = 0;
  bool commutative = true;
  int64_t calls = 0;
};

struct ProbeFile {
  std::string name;
  std::string library;  ///< MPI_Get_library_version, first line
  int64_t rank = -1, size = -1;
  bool symbols = false;
  int64_t lost = 0;
  std::vector<ProbeRow> rows;
};

/// All *.probe files of a directory. Throws ddl::Error with file and line if one is torn or of another kind.
std::vector<ProbeFile> read_probe_files(const std::filesystem::path& directory);

/// Equal calls of all processes beside the rule for them.
struct ProofRow {
  enum class Match {
    kAsRuled,        ///< the rule's algorithm was requested, and the built-in table would have requested another
    kSameAsDefault,  ///< the rule's algorithm was requested, as the built-in table would have
    kNotRuled,       ///< the file leaves the call to Open MPI
    kOtherwise       ///< another algorithm or segment than the rule's was requested
  };
  ProbeRow calls;  ///< of all processes
  Match match = Match::kNotRuled;
  /// in words: "segmented_ring in segments of 131072 bytes", "ring, gave way to recursive_doubling"
  std::string expected, ran;
};

struct Proof {
  enum class Verdict { kInForce, kNotInForce, kCannotTell };
  Verdict verdict = Verdict::kCannotTell;
  std::string sentence;  ///< the verdict and its reason
  std::vector<ProofRow> rows;
  bool wrong_results = false;      ///< a ring ran with an operation that does not commute
  std::vector<std::string> notes;  ///< further remarks; wrong results first
};

/// `rules_text` is the file as it is now, `ranks` the communicator size it was made for. In force: every ruled call
/// requested the rule's algorithm, and at least one on a communicator of `ranks` where the built-in table would not
/// have. Cannot tell: no such call was seen, or this library hides its algorithms.
Proof prove_openmpi(const std::vector<ProbeFile>& files, std::string_view rules_text, int64_t ranks);

}  // namespace ddl::tune
