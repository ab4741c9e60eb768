// The report for programs: {"schema":1,"run":{...},"findings":[...],"metrics":[...],...}. Keys end in their unit (_ns, _bytes, _ratio),
// absent is null.
#pragma once

#include <string>

#include "reports/document.h"

namespace ddl::reports {

constexpr int kJsonSchema = 1;

/// Always valid UTF-8 (bytes that are not become U+FFFD), two spaces of indentation, a newline at the end.
std::string render_json(const Document& document);

/// Rows as objects, as in the document's "calls", "layers", ...
std::string render_json(const Table& table);

}  // namespace ddl::reports
