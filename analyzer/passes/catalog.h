// The small tables of a run in memory: operations, processes and communicators that events refer to. Grows with ranks
// and communicators, never with events.
#pragma once

#include <SQLiteCpp/Database.h>

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "analyzer/passes/operation.h"

namespace ddl {

/// The clock error of a host.
struct HostClock {
  int64_t clock = 0;               ///< hosts of the same number share their clock
  std::optional<double> sigma_ns;  ///< against the reference's clock; nothing: unknown
};

struct ProcessInfo {
  int64_t id = 0;
  int64_t world = 0;
  int64_t rank = -1;       ///< -1: MPI_Init was never left
  int64_t world_size = 0;  ///< 0: unknown
  int64_t host = 0;
  std::string host_name;
  int64_t start_ns = 0;
  int64_t end_ns = 0;
  std::optional<int64_t> init_ns;
  std::optional<int64_t> finalize_ns;
  /// of its whole run: init_ns, or, of a rank that uses Gloo and not MPI, start_ns; nothing: neither
  std::optional<int64_t> run_begin_ns;
  std::string ended;  ///< finalized, aborted, exited, exec, lost
  std::optional<int64_t> abort_code;
  int64_t threads = 0;                    ///< that recorded something
  bool thinned = false;                   ///< some of its events were not kept
  int64_t complete_until_ns = INT64_MAX;  ///< every call and request that began earlier is among its events
  bool lost_requests = false;             ///< some of its requests were never seen to complete
  bool calls_overlap = false;             ///< several threads may be in MPI at a time
  bool damaged = false;                   ///< parts of its spool are lost, and nobody knows of what
  /// damaged, while others of its host are whole: its times prove nothing against their clock
  bool doubtful = false;
  HostClock clock;  ///< of its host
  /// damaged, or some of its threads recorded nothing: its activity between the calls of the others is unknown
  bool blind = false;
};

struct CommunicatorInfo {
  int64_t id = 0;
  int64_t world = 0;
  int64_t size = 0;  ///< 0: not known
  std::string label;
  std::string kind;  ///< world, self, intra, inter
  /// by comm rank, of an intercommunicator group after group; -1: not of this world
  std::vector<int64_t> ranks;
  size_t first_group = 0;                          ///< members of an intercommunicator's first group; of others: all
  std::unordered_map<int64_t, int64_t> comm_rank;  ///< world rank -> comm rank, of an intercommunicator in its group

  /// Where in `ranks` the member is that `rank`, of the world, calls `peer`; past the end where that is not known.
  size_t index_of(int64_t rank, int64_t peer) const;
};

/// The worst error between any two of several clocks. Their errors against the reference are independent:
/// variances add up.
class ClockSpread {
 public:
  void add(const HostClock& host);
  /// 0 if all share one clock; nothing: unknown.
  std::optional<double> sigma_ns() const;

 private:
  bool known_ = true;
  std::optional<HostClock> worst_, second_;
};

struct Catalog {
  explicit Catalog(SQLite::Database& db);
  Catalog(const Catalog&) = delete;
  Catalog& operator=(const Catalog&) = delete;

  const Operation& operation(int64_t id) const;
  /// Asked for each member of each collective. Throws std::out_of_range.
  const ProcessInfo& process(int64_t id) const {
    const auto place = static_cast<size_t>(id);
    return place < process_at_.size() && process_at_[place] != nullptr ? *process_at_[place] : processes.at(id);
  }
  /// The process of a rank; null if it left nothing.
  const ProcessInfo* process_of(int64_t world, int64_t rank) const;
  static const HostClock& clock_of(const ProcessInfo& process) { return process.clock; }
  /// Ranks of whose record all or the end is missing (specification.md J7), where the others can bound what they did:
  /// they are fewer than half of the world. Else nothing.
  const std::set<int64_t>& unrecorded_ranks(int64_t world) const;
  bool is_unrecorded(int64_t world, int64_t rank) const { return unrecorded_ranks(world).contains(rank); }

  std::map<int64_t, ProcessInfo> processes;  ///< by process.id
  std::map<int64_t, CommunicatorInfo> communicators;
  std::map<int64_t, Operation> operations;
  std::map<int64_t, HostClock> host_clocks;                    ///< by host.id
  std::map<std::pair<int64_t, int64_t>, int64_t> process_ids;  ///< by world and rank
  std::map<int64_t, std::set<int64_t>> unrecorded;             ///< by world; see unrecorded_ranks()

 private:
  /// in `processes`, by process.id, which begin with 1; null: none of that number
  std::vector<const ProcessInfo*> process_at_;
};

}  // namespace ddl
