// Lateness to a collective that another collective, on another communicator, caused: booked to the rank with which it
// began (specification.md J8).
//
// A rank that computes longer is last in its data-parallel group; the others of that group are last on their nodes in
// turn, and soon every rank of the job has kept others waiting, all but one without fault. So instances are visited in
// the order of time. As far as the last rank to enter left its previous collective later than its waiters left theirs,
// and that collective was late itself, the wait is passed on: if that is at least half of it, the instance is booked to
// the rank to which the previous collective was booked. All else is the last rank's own. Ranks that come about as late
// as the last one keep the cause of their own lateness. All ranks leave collectives of a whole world together, which
// pass nothing on therefore; but not those with a root: a rank is let go when the root has served it, or has its data,
// and the root of a reduction is held until the last one has come.
// Where all ranks meet in some of the steps only, as in hierarchical averaging, a collective of all waits for what a
// rank was late by in each step since the last one: there its lateness of those steps counts together.
//
// Times of several hosts are compared although waits of single collectives may be too short for that: a wait that is
// passed on must be long against the error of the clocks.
//
// Memory: 32 bytes per member of an instance; nothing where a world has one communicator only and all leave together,
// there as in the collective before. Time: that of sorting the instances.
#pragma once

#include <SQLiteCpp/Database.h>

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "analyzer/flat_map.h"
#include "analyzer/passes/catalog.h"
#include "analyzer/passes/instance.h"

namespace ddl {

class PassedOn {
 public:
  /// `events`: number of members that will be added, at most.
  PassedOn(const Catalog& catalog, int64_t events);

  /// `first_row`: rowid in table `late` of the instance's first late rank; the others follow. To be called for
  /// instances with such rows. `sigma_ns`: of the members' clocks against each other; nothing: not known, and
  /// nothing is passed on.
  void add(const CommunicatorInfo& communicator, const Instance& instance, const Split& split,
           std::optional<double> sigma_ns, int64_t first_row);
  /// Moves rows of `late` to the ranks where the lateness began.
  void move(SQLite::Database& db);

 private:
  struct Visit {
    int64_t enter_ns;
    int64_t leave_ns;
    int64_t wait_ns;
    uint32_t rank : 31;  ///< place in ranks_
    uint32_t late : 1;   ///< kept the others waiting
  };
  struct One {
    int64_t last_enter_ns;
    int64_t first_row;
    int64_t step;  ///< -1: outside steps
    size_t first_visit;
    uint32_t visits;
    double sigma_ns;
    bool together;  ///< all ranks are in it, and leave it together
  };
  struct Behind {
    int64_t ns = 0;
    uint32_t root = 0;
  };
  /// How late a rank left a collective, and because of whom.
  struct Late {
    int64_t leave_ns;
    int64_t late_ns;
    int64_t step;
    uint32_t root;
    Behind earlier;  ///< in earlier steps since all ranks left one together
  };

  const Late* before(uint32_t rank, int64_t enter_ns);
  static Behind behind_of(const Late& late);
  uint32_t root_of(const One& one, const Visit& late);
  void leave(const One& one, uint32_t root);

  size_t events_;
  std::map<int64_t, int> communicators_;    ///< by world: those of several members
  std::map<int64_t, int64_t> world_sizes_;  ///< members of its largest communicator
  std::map<int64_t, bool> after_together_;  ///< by world: all left the collective before together, or there was none
  FlatMap<uint32_t> place_of_;              ///< by process.id, from 1
  std::vector<int64_t> ranks_;
  std::vector<Visit> visits_;
  std::vector<One> instances_;
  /// by place: of each rank those that may still be the last one before an enter
  std::vector<std::vector<Late>> left_;
};

}  // namespace ddl
