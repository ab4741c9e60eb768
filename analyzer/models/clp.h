// Clp (COIN-OR), the solver of linear programs, loaded when the first one is solved. It is not linked because it brings
// LAPACK: where that is OpenBLAS, each tool would start with threads that it does not want, and they take signals away
// from `ddl record`.
#pragma once

#include <Clp_C_Interface.h>

namespace ddl {

/// Clp's C interface, as far as it is used.
struct Clp {
#define DDL_CLP_FUNCTIONS(X) \
  X(newModel)                \
  X(deleteModel)             \
  X(getColSolution)          \
  X(columnUpper) X(objective) X(setLogLevel) X(loadProblem) X(dual) X(primal) X(status) X(getRowPrice) X(addColumns)
#define DDL_CLP_MEMBER(name) decltype(&Clp_##name) name = nullptr;
  DDL_CLP_FUNCTIONS(DDL_CLP_MEMBER)
#undef DDL_CLP_MEMBER
};

/// Loads it once. Throws ddl::Error where it is not installed. Any thread.
const Clp& clp();

}  // namespace ddl
