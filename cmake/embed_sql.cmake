# An SQL file's text as a C++ constant, which HEADER declares in namespace ddl:
#   cmake -DINPUT=schema.sql -DHEADER=store/database.h -DCONSTANT=kSchemaSql -DOUTPUT=FILE.cpp -P embed_sql.cmake
file(READ ${INPUT} text)
file(WRITE ${OUTPUT} "// Generated from ${INPUT} by cmake/embed_sql.cmake.
#include \"${HEADER}\"

namespace ddl {
const char* const ${CONSTANT} = R\"~sql~(${text})~sql~\";
}
")
