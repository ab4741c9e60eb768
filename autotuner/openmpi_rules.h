// Open MPI's file of dynamic rules (coll_tuned_dynamic_rules_filename): the algorithm of MPI_Allreduce by communicator
// size and message size. Written without a version line, which 4.x, 5.x and later read alike.
//
// Open MPI silently drops the whole file at the first thing that it rejects, and the job then runs with the defaults.
// So the file is read back here by the library's rules, and the result says what the library would do with it.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "autotuner/tuned.h"

namespace ddl::tune {

struct OpenMpiRules {
  struct Message {
    int64_t from_bytes = 0, algorithm = 0, fan = 0, segment_bytes = 0;
  };
  struct Communicator {
    int64_t ranks = 0;
    std::vector<Message> messages;
  };
  std::vector<Communicator> allreduce;
  std::string dropped;  ///< why the library ignores the whole file; empty: it does not
};

/// The library's decision: an algorithm of its enumeration (coll_tuned_allreduce_algorithm); 0: left to a forced
/// algorithm, else to the built-in table.
struct OpenMpiDecision {
  int64_t algorithm = 0, segment_bytes = 0;
};

/// What another library does, in Open MPI's algorithms: "baidu_ring", a ring; "gloo", Rabenseifner's halving and
/// doubling below 4 MB and a ring beyond (Goyal et al., 1706.02677). Nothing: an unknown name, or this Open MPI
/// lacks the algorithms.
std::vector<AllreduceRule> preset_rules(std::string_view name, const std::map<std::string, int64_t>& ids);

/// Rules for communicators of `ranks`, with guards that leave all smaller and larger ones to the library: without the
/// guard for smaller ones, the first rule would apply to them too. Comments name the built-in table's choice. Throws
/// ddl::Error unless the rules are for at least two ranks and ascend from 0 bytes.
std::string write_openmpi_rules(int64_t ranks, const std::vector<AllreduceRule>& rules);

/// Whether any rule that is not left to the library applies to calls of these sizes
/// (TrialFacts::allreduce_size_classes).
bool serves_any(const std::vector<AllreduceRule>& rules, const std::set<int64_t>& size_classes);

/// As Open MPI 4.1 reads it: numbers by fscanf's %li (010 is 8, 0x10 is 16), anything else skipped by the character,
/// `#` to the end of the line. Collectives other than allreduce are checked and forgotten.
OpenMpiRules read_openmpi_rules(std::string_view text);

/// The communicator's rule is the last one before the first for more ranks, else the first of all; the
/// message's rule likewise.
OpenMpiDecision ruled(const OpenMpiRules& rules, int64_t ranks, int64_t bytes);

}  // namespace ddl::tune
