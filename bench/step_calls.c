// A job in shape only: steps of a hundred collectives on MPI_COMM_WORLD in four layers, and no computing. What the
// analyzer and the report take for a run of a given number of events.
#include <mpi.h>
#include <stdlib.h>

#include "ddl/annotate.h"

enum { kLayers = 4, kCallsPerLayer = 25 };

int main(int argc, char** argv) {
  const long calls = argc > 1 ? atol(argv[1]) : 1000000;
  MPI_Init(&argc, &argv);
  float in = 1, out;
  static const char* const layers[kLayers] = {"embedding", "attention", "mlp", "head"};
  for (long step = 0; step < calls / (kLayers * kCallsPerLayer); ++step) {
    ddl_step_begin((uint64_t)step);
    for (int layer = 0; layer < kLayers; ++layer) {
      ddl_layer_begin(layers[layer]);
      for (int i = 0; i < kCallsPerLayer; ++i) MPI_Allreduce(&in, &out, 1, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
      ddl_layer_end();
    }
    ddl_step_end();
  }
  MPI_Finalize();
  return 0;
}
