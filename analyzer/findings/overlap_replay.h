// What a step would take if its collectives went on beside computing: blocking ones that could be non-blocking, and
// non-blocking ones that are waited for at once.
//
// A replay of each rank's step: computing between collectives stays, collectives follow each other on the network as
// before and take the time of their transfer, and no rank waits for one before the last was posted, since the optimizer
// needs the gradients behind all of them. Computing behind the last one starts when the network is done. Waiting for
// other ranks stays. ns.
//
// Only reductions of gradients can be put off so: allreduces and reduce-scatters of at least 64 KiB, outside of
// forward and evaluation phases, on communicators that serve no axis but data parallelism. One of them in a step
// has nothing to hide behind.
#pragma once

#include <optional>
#include <string>

#include "analyzer/findings/finding.h"

namespace ddl {

struct OverlapReplay {
  double saving_ns = 0;    ///< per step: mean over steps of the least over ranks
  double transfer_ns = 0;  ///< per step and rank: of those collectives, mean
  double between_ns = 0;   ///< per step and rank: computed between the first and the last of them, mean
  double calls = 0;        ///< per step and rank
  double bytes = 0;        ///< per step and rank
  bool phases = false;     ///< the job marks phases: that none of them belongs to forward is known
  std::string op;          ///< most of them
};

/// `nonblocking`: of collectives that were posted and waited for at once, else of blocking ones. Nothing: there are
/// none; it saves less than `least_share` of the step; or of the non-blocking ones most are computed behind.
std::optional<OverlapReplay> replay_overlap(const FindingInput& input, bool nonblocking, double least_share);

}  // namespace ddl
