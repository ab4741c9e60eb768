// The drawings of `ddl scaling --html`: efficiency over size beside its ideal, and where a step of each run goes.
#pragma once

#include <string>
#include <vector>

#include "analyzer/models/scaling.h"
#include "reports/html/figure.h"

namespace ddl::reports::html {

/// `rows`: at least one; `worker`: what workers are called ("GPU"). The second drawing needs runs of which the parts of a step are known.
std::vector<Figure> scaling_figures(const std::vector<models::ScalingRow>& rows, const std::string& worker);

}  // namespace ddl::reports::html
