# Writes the C++ source that lists the finders of findings/*.cpp:  cmake -DOUTPUT=FILE -DINPUTS=NAME.cpp,NAME.cpp -P rows.cmake
string(REPLACE "," ";" inputs "${INPUTS}")
set(declarations "")
set(rows "")
foreach(input IN LISTS inputs)
  file(READ "${input}" text)
  string(REGEX MATCHALL "\nDDL_FINDING\\([^,]*, " heads "${text}")
  foreach(head IN LISTS heads)
    if(NOT head MATCHES "DDL_FINDING\\([ \n]*([a-z_]+), ")
      message(FATAL_ERROR "${input}: cannot read ${head}: DDL_FINDING(id, kind, \"figure\", ...)")
    endif()
    string(APPEND declarations "extern const FindingRow kFinding_${CMAKE_MATCH_1};\n")
    string(APPEND rows "      kFinding_${CMAKE_MATCH_1},\n")
  endforeach()
endforeach()
file(WRITE "${OUTPUT}" "// Generated from analyzer/findings/*.cpp by rows.cmake.
#include <algorithm>
#include <vector>

#include \"analyzer/findings/finding.h\"

namespace ddl {

${declarations}
std::span<const FindingRow> finding_rows() {
  static const std::vector<FindingRow> kRows = [] {
    std::vector<FindingRow> rows{
${rows}    };
    std::stable_sort(rows.begin(), rows.end(), [](const FindingRow& a, const FindingRow& b) { return a.kind < b.kind; });
    return rows;
  }();
  return kRows;
}

}  // namespace ddl
")
