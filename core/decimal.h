// Numbers in text, in injected code: strtod() asks the job's locale, where "0.5" may end before its point.
#pragma once

#include <locale.h>
#include <stdlib.h>

namespace ddl {

/// As strtod() in the C locale, which glibc has at hand: nothing is allocated.
inline double decimal(const char* text, char** end = nullptr) {
  return strtod_l(text, end, newlocale(LC_ALL_MASK, "C", nullptr));
}

}  // namespace ddl
