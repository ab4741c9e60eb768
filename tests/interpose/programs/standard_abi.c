/* A job of the standard ABI of MPI 5.0, and (with -DLIBRARY) a stand-in for its library that says of itself what
 * MPICH's says. Handles are pointers, and those of predefined objects small numbers: MPI_COMM_WORLD is 0x101, MPI_INT
 * 0x209, MPI_SUM 0x21. */
#include <stdio.h>
#include <string.h>

typedef struct Comm* Comm;
typedef struct Datatype* Datatype;
typedef struct Op* Op;

#ifdef LIBRARY
#define EXPORT(NAME, PARAMETERS, ...) int MPI_##NAME PARAMETERS __VA_ARGS__ int PMPI_##NAME PARAMETERS __VA_ARGS__
EXPORT(Init, (int* argc, char*** argv), { return !argc || !argv; })
EXPORT(Finalize, (void), { return 0; })
EXPORT(Initialized, (int* flag), { return *flag = 1, 0; })
EXPORT(Finalized, (int* flag), { return *flag = 0, 0; })
EXPORT(Get_library_version, (char* version, int* length),
       { return *length = (int)strlen(strcpy(version, "MPICH Version: 5.0")), 0; })
EXPORT(Allreduce, (const void* own, void* sum, int count, Datatype type, Op op, Comm comm), {
  if (count != 2 || (size_t)type != 0x209 || (size_t)op != 0x21 || (size_t)comm >> 32 != 0x7fff) return 1;
  return memcpy(sum, own, 2 * sizeof(int)), 0;
})
#else
int MPI_Init(int*, char***);
int MPI_Finalize(void);
int MPI_Allreduce(const void*, void*, int, Datatype, Op, Comm);

int main(int argc, char** argv) {
  const int own[2] = {3, 4};
  int sum[2] = {0, 0};
  if (MPI_Init(&argc, &argv)) return 2;
  if (MPI_Allreduce(own, sum, 2, (Datatype)0x209, (Op)0x21, (Comm)0x7fff00000101))
    return 3; /* a communicator of its own: a pointer */
  if (MPI_Finalize()) return 4;
  printf("%d %d\n", sum[0], sum[1]);
  return 0;
}
#endif
