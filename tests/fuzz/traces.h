// Targets of ddl import: one for each format.
#pragma once

#include <string>
#include <vector>

namespace ddl::fuzz {

enum class Format {
  kChakra,
  kChrome,
  kKineto,
  kHorovod,
  kNsys,
  kNvprof,
  kNcclInspector,
  kNcclRas,
  kFlightRecorder,
  kPipedream,
  kRocm
};

std::vector<std::string> traces_of(Format format);
bool take_trace_of(Format format, const std::string& input);

template <Format F>
std::vector<std::string> traces() {
  return traces_of(F);
}
template <Format F>
bool take_trace(const std::string& input) {
  return take_trace_of(F, input);
}

}  // namespace ddl::fuzz
