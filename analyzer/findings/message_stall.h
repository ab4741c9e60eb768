// Ranks that wait in vain for a message, of a run that is over: see message_case.h.
#pragma once

#include <optional>

#include "analyzer/findings/behind.h"
#include "analyzer/findings/message_case.h"

namespace ddl {

/// The one that most ranks wait for; nothing if no message keeps anybody.
std::optional<MessageStall> find_message_stall(const FindingInput& input);

}  // namespace ddl
