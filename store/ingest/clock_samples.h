// The collectives that join hosts, read from the spools before anything is placed in time: for each instance and host,
// when the last of its members entered and when the first one left. That is all that align_clocks.h needs, however many
// ranks a host has.
//
// Which operations. Those after which a member has data, or knows of the arrival, of others:
//
//   Barrier, Allreduce, Allgather(v), Alltoall, Reduce_scatter_block    everybody's entering comes before everybody's leaving
//   Bcast, Scatter                                                      the root's entering comes before the others' leaving
//   Reduce, Gather(v)                                                   the others' entering comes before the root's leaving
//
// and their non-blocking forms, from post to completion. Only members that contribute bytes are waited for (but for
// barriers). Left out: Alltoallv and w, Scatterv, Reduce_scatter (a member may have nothing to receive, which its
// record does not show), scans and neighbourhoods (each depends on some only), intercommunicators, communicators that
// were found rather than seen being made (their numbers may differ), what makes communicators, MPI_Init and
// MPI_Finalize (MPI does not promise that they synchronise).
//
// No instance needs all its members: what holds for those that were recorded holds.
//
// Memory: kMaxInstances per communicator and kind of operation, fewer when there are many communicators. Which ones is
// a function of the number alone (every 2^level-th, scattered), the same on all members, and can be coarsened on the
// way. Time: one pass over the log, a few ns per record, and only in runs with several hosts.
#pragma once

#include <cstdint>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/reader.h"
#include "store/ingest/clock_band.h"
#include "store/ingest/clocks.h"
#include "store/ingest/scan.h"
#include "store/ingest/worlds.h"

namespace ddl::store {

/// What is known of two clocks against each other: of `b` against `a`, both relative to their base.
struct ClockLink {
  size_t a, b;
  ClockBounds bounds;
  bool synced = false;  ///< by messages of our own too
};

class ClockSamples {
 public:
  /// `hosts`: by scan, numbered from 0. Domains of `clocks` consist of whole hosts.
  ClockSamples(const std::vector<Scan>& scans, const Worlds& worlds, const std::vector<size_t>& hosts,
               const Clocks& clocks);

  class Log;
  /// What the log of one spool says, read chunk by chunk. All of a small one is there at once. On any thread, also
  /// while others are added.
  Log read(const Scan& scan, size_t number) const;
  void add(Log log);

  /// Two hosts of one domain: with a clock in common no bound can be broken.
  struct Shared {
    size_t host;  ///< against the first one
    size_t instances = 0, broken = 0;
  };
  std::vector<Shared> shared() const;

  /// Between domains that instances join; with many domains on a communicator not every pair, but each with the first
  /// few.
  std::vector<ClockLink> links() const;

  /// What messages of our own say (interpose/clock_sync.h), on top of `links`.
  void add_syncs(const std::vector<Scan>& scans, std::vector<ClockLink>& links) const;

  /// Where a domain's moments are counted from (its own CLOCK_MONOTONIC), and between which of them it communicates
  /// with other hosts.
  struct Span {
    int64_t base_ns = INT64_MAX;
    int64_t first_ns = INT64_MAX, last_ns = INT64_MIN;
  };
  const std::vector<Span>& spans() const { return spans_; }  ///< by domain

 private:
  static constexpr size_t kKinds = 8;
  struct Part {
    int64_t last_enter_ns = INT64_MIN;   ///< of members that others wait for; least: none
    int64_t first_leave_ns = INT64_MAX;  ///< of members that wait; most: none
  };
  struct Stratum {  ///< instances of one kind of operation on one communicator
    uint32_t level = 0;
    std::unordered_map<uint32_t, uint32_t> row_of;  ///< by number of the collective
    std::vector<Part> parts;                        ///< row by row, a part per host
  };
  struct Communicator {
    std::vector<size_t> hosts;  ///< ascending
    Stratum strata[kKinds];
  };
  struct Membership {
    Communicator* communicator = nullptr;
    size_t column = 0;
    int32_t rank = -1;
  };

  std::vector<Membership> memberships(const Scan& scan, size_t number) const;
  Part* part_of(Communicator& communicator, size_t kind, size_t column, uint32_t sequence);
  template <class Function>
  void each_instance(const Communicator& communicator, Function function) const;
  std::vector<size_t> distances() const;

  /// A call of one process.
  struct Sample {
    Communicator* communicator;
    size_t column;
    uint32_t sequence;
    uint32_t kind;
    Part part;
  };
  void add(const std::vector<Sample>& samples);

  const Worlds& worlds_;
  const std::vector<size_t>& hosts_;
  const Clocks& clocks_;
  std::vector<size_t> domain_of_host_;
  std::vector<Span> spans_;
  /// by world and uid; only those that join hosts
  std::map<std::pair<int64_t, uint64_t>, Communicator> communicators_;
  size_t max_instances_;
};

class ClockSamples::Log {
 private:
  friend class ClockSamples;
  void read(const SpoolChunk& chunk);

  std::vector<Membership> by_index_;  ///< by the process's number of the communicator; empty: it joins no hosts
  const Scan* scan_ = nullptr;
  const ClockLine* line_ = nullptr;
  size_t domain_ = 0;
  Span span_;
  std::vector<Sample> samples_;
  bool held_ = false;  ///< all is read
};

}  // namespace ddl::store
