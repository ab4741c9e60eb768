// ddl export prometheus, and otlp: the numbers of a job for a monitoring system, once or again and again while it runs.
#pragma once

#include <optional>
#include <string>

namespace ddl::cli {

struct PrometheusRequest {
  std::string run;                           ///< as typed; empty: the newest
  std::optional<std::string> output;         ///< a file; "-": standard output
  std::optional<std::string> textfile = {};  ///< a folder that node_exporter reads
  std::optional<double> watch_s = {};        ///< as long as the job runs, so often; else once
  size_t ranks = 16;                         ///< at most
  bool otlp = false;                         ///< as OpenTelemetry's metrics
};

/// For a job that runs: the newest steps, read from its spools as ddl-top does. For one that has ended: the whole run, from its store. Throws
/// ddl::Error. A file that is watched is removed when a signal ends the watching: nobody would keep it up to date.
void export_prometheus(const PrometheusRequest& request);

}  // namespace ddl::cli
