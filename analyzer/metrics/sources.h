// The text of metrics/*.sql, compiled in (metrics/embed.cmake).
#pragma once

#include <span>
#include <string_view>

namespace ddl {

struct MetricSource {
  std::string_view file;  ///< name without folder
  std::string_view text;
};

/// By file name.
std::span<const MetricSource> metric_sources();

}  // namespace ddl
