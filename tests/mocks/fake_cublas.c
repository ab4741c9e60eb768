/* libcublas.so.13 as far as train --device cuda uses it: column-major sgemm, as a kernel of the mock of CUDA, computed
 * at once on the CPU. */
#include <stdlib.h>

#include "fake_cuda.h"

struct handle {
  struct fake_stream* stream;
};
FAKE_EXPORT int cublasCreate_v2(struct handle** handle) {
  *handle = calloc(1, sizeof **handle);
  return 0;
}
FAKE_EXPORT int cublasDestroy_v2(struct handle* handle) {
  free(handle);
  return 0;
}
FAKE_EXPORT int cublasSetStream_v2(struct handle* handle, struct fake_stream* stream) {
  handle->stream = stream;
  return 0;
}
FAKE_EXPORT const char* cublasGetStatusString(int status) { return status ? "an error of the mock" : "success"; }

FAKE_EXPORT int cublasSgemm_v2(struct handle* handle, int transpose_a, int transpose_b, int m, int n, int k,
                               const float* alpha, const float* a, int lda, const float* b, int ldb, const float* beta,
                               float* c, int ldc) {
  struct fake_op op = {.kind = FAKE_KERNEL,
                       .name = "sm90_sgemm_f32(Params)",
                       .duration_ns = 1000 + (uint64_t)m * (uint64_t)n * (uint64_t)k / 1000,
                       .stream = handle->stream};
  fake_cuda_call(FAKE_RUNTIME_API, 211, "cudaLaunchKernel", &op);
  for (int j = 0; j < n; ++j)
    for (int i = 0; i < m; ++i) {
      float sum = 0;
      for (int l = 0; l < k; ++l)
        sum += a[transpose_a ? (size_t)i * (size_t)lda + (size_t)l : (size_t)l * (size_t)lda + (size_t)i] *
               b[transpose_b ? (size_t)l * (size_t)ldb + (size_t)j : (size_t)j * (size_t)ldb + (size_t)l];
      float* to = &c[(size_t)j * (size_t)ldc + (size_t)i];
      *to = *alpha * sum + (*beta == 0 ? 0 : *beta * *to);
    }
  return 0;
}
