// Not compiled: preprocessed for the names of all rows (WriteEntries.cmake).
#include "interpose/mpi_abi.h"
#define DDL_MPI_ROW(name, op_class, nonblocking) DDL_ENTRY_ROW name
#include "interpose/mpi_calls.def"
