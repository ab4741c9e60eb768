// The rank, host or few ranks, for whose GPUs everybody waits (passes/waited_for.h), in the words that findings share.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/findings/finding.h"

namespace ddl {

struct WaitedFor {
  std::vector<int64_t> ranks;  ///< one, all of a host, or a few
  std::optional<int64_t> since_step;
  int64_t steps = 0, late_steps = 0;
  double lead_ns = 0;
  std::string cause;
  double own_ns = 0, others_ns = 0;        ///< of the cause
  double comm_ns = 0, others_comm_ns = 0;  ///< in collectives while nothing computes
  std::optional<std::string> axis;
  double axis_ratio = 0;
  std::optional<double> own_bytes, others_bytes;
};

/// Nothing: there is nobody, or another cause.
std::optional<WaitedFor> waited_for(const FindingInput& input, std::string_view cause);
/// Whether to ask for whom everybody waits and not who entered last, in as many steps as that takes: collectives of
/// GPUs serve several axes, so that who entered last may only have handed on what made it late; or who did is not
/// known of all of them.
bool asks_whom_gpus_wait_for(const FindingInput& input);

/// "the others wait for rank 3 (node0) in 90% of steps: its GPU idles 4.9 ms for data, the others' 0.1 ms";
/// `what`: "for data".
std::string idling_sentence(const FindingInput& input, const WaitedFor& found, std::string_view what);
/// Rank, saving and how sure; rows behind it; the observation in one sentence, with the axis.
Finding describe(const FindingInput& input, const WaitedFor& found);

}  // namespace ddl
