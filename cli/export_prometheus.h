// ddl export prometheus, and otlp: the numbers of a job for a monitoring system, once or repeatedly while it runs.
#pragma once

#include <optional>
#include <string>

namespace ddl::cli {

struct PrometheusRequest {
  std::string run;                           ///< as typed; empty: the newest
  std::optional<std::string> output;         ///< a file; "-": standard output
  std::optional<std::string> textfile = {};  ///< a folder that node_exporter reads
  std::optional<double> watch_s = {};        ///< this often while the job runs; else once
  size_t ranks = 16;                         ///< at most
  bool otlp = false;                         ///< as OpenTelemetry's metrics
};

/// A running job: the newest steps, read from its spools like ddl-top. An ended one, also where --watch saw it end: the
/// whole run, from its store. Throws ddl::Error. A signal that ends --watch removes the file, which would go stale.
void export_prometheus(const PrometheusRequest& request);

}  // namespace ddl::cli
