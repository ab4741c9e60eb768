// Numbers of a job in Prometheus' text format (0.0.4), for node_exporter's textfile collector or any scraper: base
// units, counters end in _total, one HELP and TYPE a family, no time stamps. The definitions are those of the metrics
// (analyzer/metrics).
//
// Bounds names and the number of ranks: names are made printable and cut, ranks and collectives beyond the limits are
// left out and counted in ddl_left_out.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "reports/job_numbers.h"

namespace ddl::reports {

struct PrometheusLimits {
  size_t ranks = 16;  ///< the latest ones
  size_t collectives = 16;
};

std::string render_prometheus(const JobNumbers& job, const PrometheusLimits& limits);

struct PrometheusFamily;
using SeriesLabels = std::vector<std::pair<std::string, std::string>>;

/// Takes a job's numbers family by family. Labels are printable and cut; the first is the run.
class SeriesSink {
 public:
  virtual ~SeriesSink() = default;
  virtual void family(const PrometheusFamily& family) = 0;
  /// Belongs to the last family; labels are unique within one.
  virtual void sample(double value, const SeriesLabels& labels) = 0;
};
void tell_job_series(const JobNumbers& job, const PrometheusLimits& limits, SeriesSink& to);

/// The families of render_prometheus().
struct PrometheusFamily {
  std::string name, type, help;
};
std::vector<PrometheusFamily> prometheus_families();

// ---- Numbers of a job as OpenTelemetry's metrics: an ExportMetricsServiceRequest in OTLP's JSON, in one line, as a
// collector takes it at /v1/metrics. The same families, names and values as for Prometheus (reports/prometheus.h).
/// `time_ns`: Unix time of the numbers.
std::string render_otlp(const JobNumbers& job, const PrometheusLimits& limits, int64_t time_ns);

}  // namespace ddl::reports
