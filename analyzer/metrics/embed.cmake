# Writes the C++ source that holds metrics/*.sql:  cmake -DOUTPUT=FILE -DINPUTS=NAME.sql,NAME.sql -P embed.cmake
string(REPLACE "," ";" inputs "${INPUTS}")
set(rows "")
foreach(input IN LISTS inputs)
  get_filename_component(name "${input}" NAME)
  file(READ "${input}" text)
  string(APPEND rows "    {\"${name}\", R\"sql(${text})sql\"},\n")
endforeach()
file(WRITE "${OUTPUT}" "// Generated from analyzer/metrics/*.sql by embed.cmake.
#include \"analyzer/metrics/metrics.h\"

namespace ddl {

std::span<const MetricSource> metric_sources() {
  static constexpr MetricSource kSources[] = {
${rows}  };
  return kSources;
}

}  // namespace ddl
")
