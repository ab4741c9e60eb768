/* The same as persistent operations, which Open MPI 4 has as an extension.
 * conformance: ranks=4 threads=yes/no */
#include "support/persistent_collectives.h"

#include "neighbourhood.c"
