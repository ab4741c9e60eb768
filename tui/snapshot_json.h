// One line of `ddl-top --json`: docs/reference/ddl-top.schema.json says what is in it.
#pragma once

#include <string>

#include "tui/snapshot.h"

namespace ddl::tui {

/// A JSON object on one line, without a newline. Keys carry their unit; what is not known is null. Always valid UTF-8.
std::string to_json(const Snapshot& snapshot);

}  // namespace ddl::tui
