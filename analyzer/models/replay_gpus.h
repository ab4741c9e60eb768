// A job that waits inside kernels of collectives as a replay: its GPUs' activities, their hosts' launches, and the
// dependencies between them.
//
//   streams       an operation begins when what its stream was given before is over
//   other streams when the last operation of theirs that was launched before it is over, if in no step, and on no
//   rank with the same
//                 sequence of launches, it began sooner: then it waits for it, or it might. Traces seldom tell which
//                 (table stream_wait)
//   launches      and no sooner than its launch reaches the GPU. Hosts launch at the pace at which they did,
//                 whatever the GPU does; but where, step after step, all that was launched was over before the next
//                 launch, and that follows the end of it more evenly than the launch before, or as evenly, the host
//                 waited for the GPU
//                 where, step after step, all that was launched was over before the next launch, and that follows the
//                 end of it more evenly than the launch before, or as evenly, the host waited for the GPU
//   collectives   and messages begin on all members together, when the last has come, and take their transfer time
// Steps follow one another without what lies between them.
#pragma once

#include <SQLiteCpp/Database.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "analyzer/passes/catalog.h"

namespace ddl::models {

/// Share of a transfer's time on the communicator, had its network been as others are; `seq`: its number.
using TransferFactor = std::function<double(int64_t seq)>;

/// Seconds by which a step would be shorter if transfers on the communicator took that share of their time; mean over
/// the steady steps from `since` on, of long runs the last ones, as many as a million operations hold. Nothing: they
/// cannot be replayed (waiting that is not known in more than a hundredth of the time in collectives), or come out
/// otherwise than they were.
std::optional<double> saving_of_transfers(SQLite::Database& db, const Catalog& catalog, int64_t world, int64_t comm,
                                          const TransferFactor& factor, std::optional<int64_t> since = {});

/// The fate of the extra work of late ranks.
enum class LateWork {
  kAsOthers,  ///< it is not there: they are slowed down
  kEvenly,    ///< all share it: they got more data
};

/// The same if the hosts of these ranks launched as those of the others do, and their GPUs took as long, in the same
/// place of the same sequence of launches (healthy_computing.h); collectives and messages take what they took. Nothing:
/// as above, or nobody else has their sequence.
std::optional<double> saving_without_late_gpus(SQLite::Database& db, const Catalog& catalog, int64_t world,
                                               const std::vector<int64_t>& ranks, LateWork work,
                                               std::optional<int64_t> since = {});

}  // namespace ddl::models
