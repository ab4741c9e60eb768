// A metric in words.
#pragma once

#include <string>

#include "analyzer/metrics/metrics.h"

namespace ddl::cli {

/// Id, name, unit, which way is better, scope and source in a line, then its sentence.
std::string describe_metric(const Metric& metric);

}  // namespace ddl::cli
