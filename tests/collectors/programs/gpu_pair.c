/* A process with two GPUs of the mocks of CUDA, which are two ranks of one communicator of NCCL, alone or as one of
 * several such processes (PAIR_NUMBER of PAIR_COUNT, ID_FILE); with the virtual clock every number of the run is known
 * (tests/collectors/gpu_truth.py computes them a second time).
 *
 * In a step GPU 1 computes longer than GPU 0, and a second process longer than the first; the kernels of the AllReduce
 * wait for the last. Then GPU 0 is given a kernel that may not begin before a copy of GPU 1 is done, told so by an
 * event; and one that may not begin before a collective's kernel of GPU 1, through an event of a third stream that was
 * only told to wait.
 *
 * usage: gpu_pair STEPS all|ranks|threads     all: one thread, ncclCommInitAll; ranks: one thread, ncclCommInitRank of each in a group;
 * threads: one per GPU, each of which joins as a rank of its own */
#include <ddl/annotate.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/mocks/fake_cuda.h"
#include "tests/nccl/programs/nccl_api.h"

extern ncclResult_t ncclCommInitAll(ncclComm_t*, int, const int*);

struct dim3 {
  unsigned x, y, z;
};
struct event;
extern int cudaSetDevice(int), cudaMalloc(void**, size_t), cudaMallocHost(void**, size_t),
    cudaStreamCreate(struct fake_stream**);
extern int cudaLaunchKernel(const void*, struct dim3, struct dim3, void**, size_t, struct fake_stream*);
extern int cudaMemcpyAsync(void*, const void*, size_t, int, struct fake_stream*), cudaDeviceSynchronize(void);
extern int cudaEventCreate(struct event**), cudaEventRecord(struct event*, struct fake_stream*);
extern int cudaStreamWaitEvent(struct fake_stream*, struct event*, unsigned);

enum { GPUS = 2, COUNT = 200000, COPY_BYTES = 1500000 };

static struct fake_stream *compute[GPUS], *communicate[GPUS], *relay;
static struct event *computed[GPUS], *copied, *collected, *relayed;
static ncclComm_t comms[GPUS];
static float gradients[GPUS][COUNT];
static void *device_memory, *pinned;
static int process, processes = 1;

static void launch(const char* kernel, struct fake_stream* stream) {
  const struct dim3 one = {1, 1, 1};
  cudaLaunchKernel(kernel, one, one, NULL, 0, stream);
}

static void work(int gpu) {
  cudaSetDevice(gpu);
  ddl_layer_begin("fc1");
  launch(process > 0 ? "gemm@180000" : gpu == 0 ? "gemm@50000" : "gemm@150000", compute[gpu]);
  cudaEventRecord(computed[gpu], compute[gpu]);
  cudaStreamWaitEvent(communicate[gpu], computed[gpu], 0);
  ddl_layer_end();
}
static void reduce(int gpu) {
  ncclAllReduce(gradients[gpu], gradients[gpu], COUNT, 7, 0, comms[gpu], communicate[gpu]);
}

/* What GPU 0 must wait for: 150 us of a copy, 120 us of a collective. */
static void depend(void) {
  ddl_layer_begin("fc2");
  cudaSetDevice(1);
  cudaMemcpyAsync(pinned, device_memory, COPY_BYTES, 2, communicate[1]);
  cudaEventRecord(copied, communicate[1]);
  launch("ncclDevKernel_Broadcast_RING_LL(ncclDevKernelArgsStorage<4096ul>)@120000", communicate[1]);
  cudaEventRecord(collected, communicate[1]);
  cudaSetDevice(0);
  cudaStreamWaitEvent(compute[0], copied, 0);
  launch("after_copy@10000", compute[0]);
  cudaStreamWaitEvent(relay, collected, 0);
  cudaEventRecord(relayed, relay);
  cudaStreamWaitEvent(compute[0], relayed, 0);
  launch("after_collective@10000", compute[0]);
  ddl_layer_end();
}

static pthread_barrier_t meeting;
static int steps;

static void meet(void) { pthread_barrier_wait(&meeting); }

/* GPU 1's thread: it works after GPU 0's thread has, and both enter the collective at the same moment. */
static void* other_gpu(void* id) {
  cudaSetDevice(1);
  ncclCommInitRank(&comms[1], GPUS * processes, *(ncclUniqueId*)id, GPUS * process + 1);
  for (int step = 0; step < steps; ++step) {
    meet();
    work(1);
    meet();
    reduce(1);
    meet();
  }
  return NULL;
}

int main(int argc, char** argv) {
  steps = argc > 1 ? atoi(argv[1]) : 2;
  const int threads = argc > 2 && strcmp(argv[2], "threads") == 0, ranks = argc > 2 && strcmp(argv[2], "ranks") == 0;
  if (getenv("PAIR_COUNT")) process = atoi(getenv("PAIR_NUMBER")), processes = atoi(getenv("PAIR_COUNT"));
  for (int gpu = 0; gpu < GPUS; ++gpu) {
    if (cudaSetDevice(gpu) != 0) return printf("no device\n"), 0;
    cudaStreamCreate(&compute[gpu]);
    cudaStreamCreate(&communicate[gpu]);
    cudaEventCreate(&computed[gpu]);
    for (int i = 0; i < COUNT; ++i) gradients[gpu][i] = (float)(gpu + 1);
  }
  cudaStreamCreate(&relay);
  cudaEventCreate(&copied);
  cudaEventCreate(&collected);
  cudaEventCreate(&relayed);
  cudaMalloc(&device_memory, COPY_BYTES);
  cudaMallocHost(&pinned, COPY_BYTES);
  pthread_t thread;
  ncclUniqueId id;
  if (processes > 1)
    share_id_by_file(&id, process);
  else
    ncclGetUniqueId(&id);
  if (threads) {
    pthread_barrier_init(&meeting, NULL, GPUS);
    pthread_create(&thread, NULL, other_gpu, &id);
    cudaSetDevice(0);
    ncclCommInitRank(&comms[0], GPUS * processes, id, GPUS * process);
  } else if (ranks) {
    ncclGroupStart();
    for (int gpu = 0; gpu < GPUS; ++gpu) {
      cudaSetDevice(gpu);
      ncclCommInitRank(&comms[gpu], GPUS * processes, id, GPUS * process + gpu);
    }
    ncclGroupEnd();
  } else {
    ncclCommInitAll(comms, GPUS, NULL);
  }
  for (int step = 0; step < steps; ++step) {
    ddl_step_begin((uint64_t)step);
    fake_cuda_advance(3000); /* the host reads its input */
    work(0);
    if (threads) {
      meet();
      meet();
      reduce(0);
      meet();
    } else {
      work(1);
      ncclGroupStart();
      for (int gpu = 0; gpu < GPUS; ++gpu) reduce(gpu);
      ncclGroupEnd();
    }
    depend();
    for (int gpu = 0; gpu < GPUS; ++gpu) cudaSetDevice(gpu), cudaDeviceSynchronize();
    ddl_step_end();
  }
  if (threads) pthread_join(thread, NULL);
  printf("sum %g %g\n", (double)gradients[0][0], (double)gradients[1][COUNT - 1]);
  fflush(stdout);
  for (int gpu = 0; gpu < GPUS; ++gpu) ncclCommDestroy(comms[gpu]);
  return 0;
}
