/* Four ranks on three axes: all of them, pairs of neighbours that share a tensor, and every second rank, of which only
 * those with rank 0 say
 * what they are for. RANK, WORLD_SIZE and an id in a file, as PyTorch does. usage: nccl_axes [old | small | unsaid]
 * old, small: a configuration of NCCL before 2.27, whose end is where the name would be. unsaid: no names. */
#include "ddl/annotate.h"
#include "nccl_api.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct config { /* as of 2.27 */
  size_t size;
  unsigned magic, version;
  int blocking, rest[3];
  const char* net_name;
  int split_share, traffic_class;
  const char* name;
};

int main(int argc, char** argv) {
  const char* how = argc > 1 ? argv[1] : "";
  const int rank = atoi(getenv("RANK")), size = atoi(getenv("WORLD_SIZE"));
  const int old = !strcmp(how, "old"), small = !strcmp(how, "small"), unsaid = !strcmp(how, "unsaid");
  struct config config = {sizeof config, 0xcafebeef, 22809, 1, {0}, NULL, 0, 0, NULL};
  if (old) config.version = 22600;
  if (small) config.size = 48;
  const char* nowhere = (const char*)16; /* nobody may read what an old configuration does not have */
  const char* tensor = old || small ? nowhere : unsaid ? NULL : "TENSOR_MODEL_PARALLEL_GROUP";
  const char* data = old || small ? nowhere : unsaid || rank % 2 ? NULL : "DATA_PARALLEL_GROUP";
  ncclUniqueId id;
  share_id_by_file(&id, rank);
  ncclComm_t world, pair, row;
  config.name = old || small ? nowhere : NULL;
  if (ncclCommInitRankConfig(&world, size, id, rank, &config)) return 1;
  config.name = tensor;
  if (ncclCommSplit(world, rank / 2, rank, &pair, &config)) return 1;
  config.name = data;
  if (ncclCommSplit(world, rank % 2, rank, &row, &config)) return 1;
  static float buffer[1000];
  for (int step = 0; step < 6; ++step) {
    ddl_step_begin((uint64_t)step);
    if (ncclAllReduce(buffer, buffer, 1000, 7, 0, pair, NULL) || ncclAllReduce(buffer, buffer, 500, 7, 0, row, NULL) ||
        ncclAllReduce(buffer, buffer, 10, 7, 0, world, NULL))
      return 1;
    ddl_step_end();
  }
  ncclCommDestroy(row);
  ncclCommDestroy(pair);
  ncclCommDestroy(world);
  printf("rank %d done\n", rank);
  return 0;
}
