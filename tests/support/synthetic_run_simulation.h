// Runs a plan on the virtual clock (the time model is described in synthetic_run.h).
//
// All ranks do the same items in the same order, so the simulation goes item by item over all of them: when a
// collective is reached, everybody's moment of entering it is known. There is no queue of events. A rank that stops is
// skipped from then on.
#pragma once

#include <deque>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/synthetic_run.h"
#include "tests/support/synthetic_run_ledger.h"
#include "tests/support/synthetic_run_ops.h"
#include "tests/support/synthetic_run_process.h"

namespace ddl::test::synthetic {

struct Comm {
  std::string label;
  uint64_t uid = 0;
  uint32_t index = 0;  ///< in every member
  std::vector<int> members;
  uint32_t sequence = 0;
};

struct Pending {
  SyntheticProcess::Call post;
  std::optional<size_t> instance;  ///< collectives
  std::optional<int64_t> done;     ///< messages: known when posted. Nothing: never
  uint64_t payload = 0;
  bool receive = false;
  uint64_t order = 0;
  std::optional<size_t> message = {};  ///< the ledger's number, when it is known that it will be over
};

struct Rank {
  int64_t now = 0;
  bool stopped = false;
  bool doomed = false;  ///< dies in the call that it enters next
  std::optional<uint64_t> step;
  std::vector<std::string> path;  ///< of regions
  std::vector<Pending> pending;
  int64_t link_free = 0;  ///< when its transfers in the background are over
  std::unique_ptr<SyntheticProcess> process;
};

class Simulation {
 public:
  Simulation(const Plan& plan, Ledger& ledger) : plan_(plan), ledger_(ledger) { make_ranks(); }

  void run();
  std::vector<Rank>& ranks() { return ranks_; }

 private:
  using Call = SyntheticProcess::Call;

  void make_ranks();
  void initialize();
  void make_communicators();
  void sync_clocks(int64_t t);
  void finalize();
  void play(const std::vector<Item>& items, uint32_t first_site, std::optional<uint64_t> step);
  void begin_step(uint64_t step);
  void end_step(uint64_t step);
  void meet_fate(uint64_t step);

  void compute(const Item& item, size_t place, uint64_t step);
  void collective(const Item& item, uint32_t site, Comm& comm);
  void blocking(const Item& item, const Op& op, uint32_t site, Comm& comm, InstanceTruth& instance);
  void post(const Item& item, const Op& op, uint32_t site, Comm& comm, size_t instance);
  void schedule(size_t instance, const Comm& comm, int64_t transfer_ns);
  void complete(uint32_t site, bool all);
  void ring(const Item& item, uint32_t site);
  /// Irecv and Isend in these directions of the ring.
  void post_ring(const Item& item, uint32_t site, std::span<const int> directions);
  void message(const Item& item, uint32_t site);
  void isend(const Item& item, uint32_t site);
  void receive(const Item& item, uint32_t site);
  void collect(const Item& item, uint32_t site);
  size_t add_message(int from, int to, const Comm& comm, uint32_t tag, int64_t bytes, int64_t send_ns,
                     int64_t receive_ns);
  void polls(const Item& item, uint32_t site);
  void range(const Item& item);

  Call enter(int r, const Op& op, uint32_t site, const Comm* comm, uint32_t sequence, int32_t peer, uint64_t payload);
  void leave(int r, Call& call, const Op& op, const Comm* comm, int64_t t, uint64_t payload);
  void stay(int r, const Call& call, const Op& op, const Comm* comm);
  std::string region(int r) const;
  std::vector<Comm*> groups(const std::string& name);
  bool alive(int r) const { return !ranks_[static_cast<size_t>(r)].stopped; }
  Rank& at(int r) { return ranks_[static_cast<size_t>(r)]; }

  const Plan& plan_;
  Ledger& ledger_;
  std::vector<Rank> ranks_;
  std::vector<std::vector<Comm>> comms_;  ///< [0]: the world; then one entry per split
  uint64_t posts_ = 0;
  struct Sent {
    int64_t send_ns, bytes, time_ns;
  };
  std::map<std::pair<int, int>, std::deque<Sent>> sent_;  ///< by both ranks: isend() that was not received yet
};

/// `folder` NULL: nothing is written.
Truth simulate(const Plan& plan, const std::filesystem::path* folder);

}  // namespace ddl::test::synthetic
