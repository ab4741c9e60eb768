// The report for programs: {"schema":1,"run":{...},"findings":[...],"metrics":[...],...}. Keys end in their unit (_ns, _bytes, _ratio),
// absent is null.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "reports/document.h"

namespace ddl::reports {

constexpr int kJsonSchema = 1;

/// Always valid UTF-8 (bytes that are not become U+FFFD), two spaces of indentation, a newline at the end.
std::string render_json(const Document& document);

/// What a model answers: {"schema":1,"model":"fit","given":{...},"fit":[...],"notes":[...]}. `answer`: its lines are what was given.
std::string render_json(std::string_view model, const Document& answer, const std::vector<std::string>& notes);

/// Rows as objects, as in the document's "calls", "layers", ...
std::string render_json(const Table& table);

}  // namespace ddl::reports
