/* The same as persistent operations, which Open MPI 4 has as an extension.
 * conformance: ranks=3/2 threads=yes */
#include "support/persistent_collectives.h"

#include "nonblocking_collectives.c"
