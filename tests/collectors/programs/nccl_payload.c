/* Calls of the real libnccl that fail for want of a communicator, but not before NCCL has told NVTX of them. What a
 * handler hears is printed by the listener in nvtx_probe.cpp, which NVTX_INJECTION64_PATH names. */
#include <nccl.h>
#include <stdio.h>

int main(void) {
  float data[1024];
  printf("result %d\n", ncclAllReduce(data, data, 1024, ncclFloat, ncclMax, NULL, NULL));
  printf("result %d\n", ncclBroadcast(data, data, 512, ncclDouble, 3, NULL, NULL));
  printf("result %d\n", ncclSend(data, 100, ncclInt8, 5, NULL, NULL));
  printf("result %d\n", ncclReduceScatter(data, data, 10, ncclFloat16, ncclSum, NULL, NULL));
  return 0;
}
