# Writes the C++ source that holds the style sheet and its hash:  cmake -DINPUT=style.css -DOUTPUT=FILE -P embed.cmake
file(READ "${INPUT}" text)
file(SHA256 "${INPUT}" hex)

# Base64 of the 32 bytes: three bytes are four letters; one byte of padding is appended, whose letter becomes "=".
set(alphabet "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
set(letters "")
foreach(start RANGE 0 63 6)
  string(SUBSTRING "${hex}00" ${start} 6 three)
  math(EXPR bits "0x${three}")
  foreach(shift 18 12 6 0)
    math(EXPR index "(${bits} >> ${shift}) & 63")
    string(SUBSTRING "${alphabet}" ${index} 1 letter)
    string(APPEND letters "${letter}")
  endforeach()
endforeach()
string(SUBSTRING "${letters}" 0 43 letters)

file(WRITE "${OUTPUT}" "// Generated from ${INPUT} by embed.cmake.
#include \"reports/html/page.h\"

namespace ddl::reports::html {
const std::string_view kStyle = R\"~css~(${text})~css~\";
const std::string_view kStyleHash = \"sha256-${letters}=\";
}  // namespace ddl::reports::html
")
