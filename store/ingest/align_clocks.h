// Puts the clocks of several hosts on one axis, without a message: by what collectives say about them (clock_samples.h)
// and how far that determines the offset (clock_band.h).
//
// Hosts are the nodes of a graph, pairs that a communicator joins and for which a band was found its edges. The
// reference is the first host of the largest connected part; its clock is the axis. Every other host takes the path to
// it along which the variances add up to the least, and that sum is its own. A host that nothing connects stays where
// its date puts it: sigma is unknown, and a row of `loss` says why.
//
// sigma covers the interval in which the host communicates. The fit of ticks to CLOCK_MONOTONIC adds nothing to it:
// one line places all stamps of a host, whatever it is off cancels in offsets that were found with the same line.
// Only where processes on one host read different clocks (TSC and CLOCK_MONOTONIC) its residual stands between
// them, and is added.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "store/ingest/clocks.h"
#include "store/ingest/losses.h"
#include "store/ingest/scan.h"
#include "store/ingest/worlds.h"

namespace ddl::store {

/// Numbers the hosts (name and boot id) of all scans from 0, in the order of `order`.
std::vector<size_t> number_hosts(const std::vector<Scan>& scans, const std::vector<size_t>& order);

/// `clocks`: of all scans, by date. `threads` read spools. `step_done` is told the bytes of spools read, on
/// the calling thread.
Clocks align_clocks(const std::vector<Scan>& scans, const Worlds& worlds, Clocks clocks, Losses& losses,
                    unsigned threads, const std::function<void(uint64_t bytes)>& step_done);

}  // namespace ddl::store
