/* What the programs of collectives send and where they receive it. */
#ifndef CONFORMANCE_COLLECTIVE_DATA_H
#define CONFORMANCE_COLLECTIVE_DATA_H

#include "transcript.h"

#define MAX 4  /* ranks */
#define EACH 3 /* elements to each of them */

static __thread int send[MAX * EACH], recv[MAX * EACH];
static __thread Count counts[MAX], sizes[MAX];
static __thread Displacement displs[MAX], bytes_displs[MAX], places[MAX], bytes_places[MAX];
static __thread MPI_Datatype types[MAX];

static inline void fill(int rank) {
  for (int i = 0; i < MAX * EACH; ++i) send[i] = 1000 * (rank + 1) + i;
  POISON(recv);
}

/* counts, displs: uneven, in reverse order, for collectives in which each rank has one part. sizes, places: rank i
 * sends (i + j) % EACH to rank j and gets as many from it. */
static inline void uneven(int rank, int n) {
  int place = 0;
  for (int i = n - 1; i >= 0; --i) {
    counts[i] = i % EACH + (i == 0);
    displs[i] = place;
    bytes_displs[i] = place * (int)sizeof(int);
    place += (int)counts[i];
    sizes[i] = (rank + i) % EACH;
    places[i] = i * EACH;
    bytes_places[i] = places[i] * (int)sizeof(int);
    types[i] = MPI_INT;
  }
}

/* Composition of x -> a x + b modulo 97, with a and b in one number: associative, not commutative. */
static void compose(void* in, void* inout, int* length, MPI_Datatype* type) {
  (void)type;
  for (int i = 0; i < *length; ++i) {
    const int f = ((int*)in)[i] % 9409, g = ((int*)inout)[i] % 9409;
    ((int*)inout)[i] = f / 97 * (g / 97) % 97 * 97 + (f / 97 * (g % 97) + f % 97) % 97;
  }
}

#endif
