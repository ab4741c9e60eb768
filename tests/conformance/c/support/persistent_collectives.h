/* Programs of collectives that include this make persistent operations of them. */
#ifndef CONFORMANCE_PERSISTENT_COLLECTIVES_H
#define CONFORMANCE_PERSISTENT_COLLECTIVES_H

#include "transcript.h"

#ifdef OPEN_MPI
#include <mpi-ext.h>
#endif
#ifdef OMPI_HAVE_MPI_EXT_PCOLLREQ /* Open MPI 4 */
#define PERSISTENT(CALL_IT, INIT, ...) CALL_IT(MPIX_##INIT, __VA_ARGS__)
#else
#define PERSISTENT(CALL_IT, INIT, ...) CALL_IT(MPI_##INIT, __VA_ARGS__)
#endif

#endif
