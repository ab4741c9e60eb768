# Options and the libraries behind them. AUTO never fails: what is missing is left out and the summary says so.
option(DDL_TESTS "Build the tests" ON)
option(DDL_WERROR "Treat warnings as errors" OFF)
set(DDL_SANITIZE "" CACHE STRING "Sanitizers for the tools and the static core, e.g. address,undefined")

find_package(MPI REQUIRED COMPONENTS C)  # mpi.h for the wrappers; libddl.so itself never links libmpi
find_package(SQLite3 REQUIRED)
find_package(SQLiteCpp REQUIRED)
find_package(Boost REQUIRED COMPONENTS program_options)
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(Threads REQUIRED)
if(DDL_TESTS)
  find_package(GTest REQUIRED)
endif()
find_package(PkgConfig REQUIRED)
pkg_check_modules(OPENBLAS REQUIRED IMPORTED_TARGET openblas)  # arithmetic of workloads/train

function(ddl_print_summary)
  message(STATUS "ddl ${PROJECT_VERSION}")
  message(STATUS "  MPI wrappers   ${MPI_C_VERSION} from ${MPI_C_INCLUDE_DIRS}")
  message(STATUS "  SQLite         ${SQLite3_VERSION}   store")
  message(STATUS "  OpenBLAS       ${OPENBLAS_VERSION}   arithmetic of the training workloads")
  message(STATUS "  tests          ${DDL_TESTS}   sanitizers: ${DDL_SANITIZE}")
endfunction()
