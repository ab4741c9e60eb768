/* A training job of known shape against the mocks of CUDA (tests/mocks/fake_cuda.h): two threads, two streams, STEPS
 * steps. The threads take turns, so that with the virtual clock every number of the run is known;
 * tests/collectors/gpu_truth.py computes them a second time.
 *
 * Three programs: alone; ranks of MPI (WITH_MPI); ranks that only NCCL ties together, told who they are by RANK and
 * WORLD_SIZE (WITH_NCCL): there the kernel of the collective is NCCL's, and waits for the slower rank.
 *
 * usage: gpu_job STEPS [graph] [exit]     graph: the forward pass is captured once and replayed; exit:
 *                                         leave by _exit */
#include <ddl/annotate.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef WITH_MPI
#include <mpi.h>
#endif
#ifdef WITH_NCCL
#include "tests/nccl/programs/nccl_api.h"
#endif

#include "tests/mocks/fake_cuda.h"

struct dim3 {
  unsigned x, y, z;
};
extern int cudaMalloc(void**, size_t), cudaMallocHost(void**, size_t), cudaStreamCreate(struct fake_stream**);
extern int cudaLaunchKernel(const void*, struct dim3, struct dim3, void**, size_t, struct fake_stream*);
extern int cudaMemcpyAsync(void*, const void*, size_t, int, struct fake_stream*),
    cudaMemcpy(void*, const void*, size_t, int);
extern int cudaMemsetAsync(void*, int, size_t, struct fake_stream*), cudaDeviceSynchronize(void),
    cudaStreamSynchronize(struct fake_stream*);
extern int cudaMemcpyPeerAsync(void*, int, const void*, int, size_t, struct fake_stream*);
extern int cudaStreamBeginCapture(struct fake_stream*, int),
    cudaStreamEndCapture(struct fake_stream*, struct fake_graph**);
extern int cudaGraphInstantiate(struct fake_graph**, struct fake_graph*, unsigned long long),
    cudaGraphLaunch(struct fake_graph*, struct fake_stream*);
struct event;
extern int cudaEventCreate(struct event**), cudaEventRecord(struct event*, struct fake_stream*);
extern int cudaStreamWaitEvent(struct fake_stream*, struct event*, unsigned);

enum { BYTES = 200000, GRADIENT_BYTES = 50000, GRADIENTS = 200000 };

static struct fake_stream *compute, *communicate;
static struct event* ready;
static unsigned char *device_memory, *pinned, pageable[BYTES];
static struct fake_graph* forward_graph;
static int rank;

static void launch(const char* kernel, struct fake_stream* stream) {
  const struct dim3 one = {1, 1, 1};
  cudaLaunchKernel(kernel, one, one, NULL, 0, stream);
}

#ifdef WITH_NCCL
static ncclComm_t comm;
static float gradients[GRADIENTS];
static void reduce(void) {
  ncclAllReduce(gradients, gradients, GRADIENTS, 7, 0, comm, communicate);
} /* 90000 ns, and the waiting */
#else
static void reduce(void) {
  launch("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)@90000", communicate);
}
#endif

static void forward_layers(void) {
  ddl_layer_begin("fc1");
  launch(rank == 0 ? "_Z4gemmIfEvPKfPf@50000" : "_Z4gemmIfEvPKfPf@150000", compute);
  launch("relu@5000", compute);
  ddl_layer_end();
  ddl_layer_begin("fc2");
  launch("_Z4gemmIfEvPKfPf@30000", compute);
  ddl_layer_end();
}

static void forward(void) {
  ddl_phase_begin("forward");
  ddl_layer_begin("load_batch");
  cudaMemcpyAsync(device_memory, pinned, BYTES, 1, compute); /* 20000 ns */
  ddl_layer_end();
  if (forward_graph) {
    cudaGraphLaunch(forward_graph, compute);
  } else {
    forward_layers();
  }
  ddl_phase_end();
}

/* In a thread of its own, as torch does. */
static void backward(void) {
  ddl_phase_begin("backward");
  ddl_layer_begin("fc2");
  launch("backward@40000", compute);
  cudaEventRecord(ready, compute);
  ddl_layer_end();
  ddl_layer_begin("fc1");
  launch("backward@70000", compute);
  cudaStreamWaitEvent(communicate, ready, 0);
  reduce();
  ddl_layer_end();
  ddl_phase_end();
}

static void update(void) {
  ddl_phase_begin("update");
  cudaMemsetAsync(device_memory, 1, GRADIENT_BYTES, communicate);                    /* 500 ns */
  cudaMemcpyPeerAsync(device_memory, 1, device_memory + 1000, 0, 1000, communicate); /* 100 ns */
  cudaMemcpy(pageable, device_memory, GRADIENT_BYTES, 2); /* 10000 ns, on the default stream */
  cudaDeviceSynchronize();
  launch("sgd@3000", compute); /* nothing runs until it is launched */
  cudaDeviceSynchronize();
  ddl_phase_end();
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int turn; /* 0: the main thread's, 1: the other's, 2: the other may end */

static void pass_turn(int from, int to) {
  pthread_mutex_lock(&lock);
  turn = to;
  pthread_cond_broadcast(&changed);
  while (to != 2 && turn != from && turn != 2) pthread_cond_wait(&changed, &lock);
  pthread_mutex_unlock(&lock);
}

static void* other_thread(void* unused) {
  pthread_mutex_lock(&lock);
  while (turn == 0) pthread_cond_wait(&changed, &lock);
  pthread_mutex_unlock(&lock);
  while (turn != 2) {
    backward();
    pass_turn(1, 0);
  }
  return unused;
}

int main(int argc, char** argv) {
  const int steps = argc > 1 ? atoi(argv[1]) : 2;
  int graph = 0, leave = 0;
  for (int i = 2; i < argc; ++i) {
    graph |= strcmp(argv[i], "graph") == 0;
    leave |= strcmp(argv[i], "exit") == 0;
  }
#ifdef WITH_MPI
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
#endif
#ifdef WITH_NCCL
  rank = atoi(getenv("RANK"));
#endif
  if (cudaMalloc((void**)&device_memory, BYTES) != 0) {
    printf("no device\n");
    return 0;
  }
  cudaMallocHost((void**)&pinned, BYTES);
  cudaStreamCreate(&compute);
  cudaStreamCreate(&communicate);
  cudaEventCreate(&ready);
#ifdef WITH_NCCL
  ncclUniqueId id;
  share_id_by_file(&id, rank);
  ncclCommInitRank(&comm, atoi(getenv("WORLD_SIZE")), id, rank);
#endif
  for (int i = 0; i < BYTES; ++i) pinned[i] = (unsigned char)(i * 7);
  if (graph) {
    struct fake_graph* captured;
    cudaStreamBeginCapture(compute, 0);
    ddl_phase_begin("forward");
    forward_layers();
    ddl_phase_end();
    cudaStreamEndCapture(compute, &captured);
    cudaGraphInstantiate(&forward_graph, captured, 0);
  }
  pthread_t thread;
  pthread_create(&thread, NULL, other_thread, NULL);
  unsigned sum = 0;
  for (int step = 0; step < steps; ++step) {
    ddl_step_begin((uint64_t)step);
    fake_cuda_advance(3000); /* the host reads its input */
    forward();
    pass_turn(0, 1);
    update();
    for (int i = 0; i < GRADIENT_BYTES; ++i) sum = sum * 31 + pageable[i];
#ifdef WITH_MPI
    unsigned all = 0;
    MPI_Allreduce(&sum, &all, 1, MPI_UNSIGNED, MPI_SUM, MPI_COMM_WORLD);
    sum = all;
#endif
    ddl_step_end();
  }
  pass_turn(0, 2);
  pthread_join(thread, NULL);
  if (rank == 0) printf("checksum %u after %d steps\n", sum, steps);
  fflush(stdout);
#ifdef WITH_NCCL
  ncclCommDestroy(comm);
#endif
#ifdef WITH_MPI
  MPI_Finalize();
#endif
  if (leave) _exit(3);
  return 0;
}
