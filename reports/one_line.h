// The report in one line, for the log of a batch job: what it was, where its step goes, and the first thing to fix.
#pragma once

#include <string>

#include "reports/document.h"

namespace ddl::reports {

/// One printable line with its newline: "train, job 4711, 4 ranks on 1 host: step 232 ms, compute 30.0%, exposed transfer 62.2%,
/// waiting 7.8%; 2 findings, first: rank 3 is late". Alerts and missing data come before findings. `document`: build_overview() or any
/// other with a header.
std::string render_one_line(const Document& document);

}  // namespace ddl::reports
