// Numbers of a job as OpenTelemetry's metrics: an ExportMetricsServiceRequest in OTLP's JSON, in one line, as a collector takes it at /v1/metrics.
// The same families, names and values as for Prometheus (reports/prometheus.h).
#pragma once

#include <cstdint>
#include <string>

#include "reports/prometheus.h"

namespace ddl::reports {

/// `time_ns`: Unix time of the numbers.
std::string render_otlp(const JobNumbers& job, const PrometheusLimits& limits, int64_t time_ns);

}  // namespace ddl::reports
