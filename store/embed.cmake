# cmake -DINPUT=schema.sql -DOUTPUT=schema_sql.cpp -P embed.cmake: the file's text as a C++ constant.
file(READ ${INPUT} text)
file(WRITE ${OUTPUT} "// Generated from ${INPUT} by store/embed.cmake.
#include \"store/database.h\"

namespace ddl {
const char* const kSchemaSql = R\"~sql~(${text})~sql~\";
}
")
