/* Calls of the real NCCL that it refuses for want of a communicator, without a GPU: opened by hand, so that no
 * preloaded library is in between. It tells of them with NVTX all the same. usage: nccl_refused LIBRARY */
#include <dlfcn.h>
#include <stdio.h>

typedef int AllReduce(const void*, void*, size_t, int, int, void*, void*);
typedef int ReduceScatter(const void*, void*, size_t, int, int, void*, void*);

int main(int argc, char** argv) {
  void* library = dlopen(argc > 1 ? argv[1] : "libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
  if (!library) return printf("%s\n", dlerror()), 77;
  AllReduce* all_reduce = (AllReduce*)dlsym(library, "ncclAllReduce");
  ReduceScatter* reduce_scatter = (ReduceScatter*)dlsym(library, "ncclReduceScatter");
  float data[4];
  for (int i = 0; i < 3; ++i) printf("%d\n", all_reduce(data, data, 1024, 7, 0, NULL, NULL));
  printf("%d\n", reduce_scatter(data, data, 8, 7, 0, NULL, NULL));
  return 0;
}
