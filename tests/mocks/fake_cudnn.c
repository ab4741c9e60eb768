/* libcudnn.so.9 as far as train --device cuda uses it: convolutions of single precision images, NCHW, each a kernel of
 * the mock of CUDA, computed at once on the CPU straight from the definition. Beta is 0 or 1, alpha is 1. */
#include <stdlib.h>
#include <string.h>

#include "fake_cuda.h"

struct handle {
  struct fake_stream* stream;
};
struct shape {
  int n, c, h, w;
};
struct window {
  int padding, stride;
};

#define MAKE(name, type)              \
  FAKE_EXPORT int name(type** made) { \
    *made = calloc(1, sizeof **made); \
    return 0;                         \
  }
#define UNMAKE(name, type)           \
  FAKE_EXPORT int name(type* made) { \
    free(made);                      \
    return 0;                        \
  }
MAKE(cudnnCreate, struct handle)
UNMAKE(cudnnDestroy, struct handle)
MAKE(cudnnCreateTensorDescriptor, struct shape)
UNMAKE(cudnnDestroyTensorDescriptor, struct shape)
MAKE(cudnnCreateFilterDescriptor, struct shape)
UNMAKE(cudnnDestroyFilterDescriptor, struct shape)
MAKE(cudnnCreateConvolutionDescriptor, struct window)
UNMAKE(cudnnDestroyConvolutionDescriptor, struct window)

FAKE_EXPORT const char* cudnnGetErrorString(int status) { return status ? "an error of the mock" : "success"; }
FAKE_EXPORT int cudnnSetStream(struct handle* handle, struct fake_stream* stream) {
  handle->stream = stream;
  return 0;
}
FAKE_EXPORT int cudnnSetTensor4dDescriptor(struct shape* s, int format, int type, int n, int c, int h, int w) {
  (void)format, (void)type;
  *s = (struct shape){n, c, h, w};
  return 0;
}
FAKE_EXPORT int cudnnSetFilter4dDescriptor(struct shape* s, int type, int format, int k, int c, int h, int w) {
  (void)format, (void)type;
  *s = (struct shape){k, c, h, w};
  return 0;
}
FAKE_EXPORT int cudnnSetConvolution2dDescriptor(struct window* window, int ph, int pw, int sh, int sw, int dh, int dw,
                                                int mode, int type) {
  (void)pw, (void)sw, (void)dh, (void)dw, (void)mode, (void)type;
  *window = (struct window){ph, sh};
  return 0;
}
static int no_scratch(size_t* bytes) {
  *bytes = 0;
  return 0;
}
FAKE_EXPORT int cudnnGetConvolutionForwardWorkspaceSize(void* h, void* x, void* w, void* c, void* y, int algorithm,
                                                        size_t* bytes) {
  (void)h, (void)x, (void)w, (void)c, (void)y, (void)algorithm;
  return no_scratch(bytes);
}
FAKE_EXPORT int cudnnGetConvolutionBackwardDataWorkspaceSize(void* h, void* w, void* y, void* c, void* x, int algorithm,
                                                             size_t* bytes) {
  (void)h, (void)x, (void)w, (void)c, (void)y, (void)algorithm;
  return no_scratch(bytes);
}
FAKE_EXPORT int cudnnGetConvolutionBackwardFilterWorkspaceSize(void* h, void* x, void* y, void* c, void* w,
                                                               int algorithm, size_t* bytes) {
  (void)h, (void)x, (void)w, (void)c, (void)y, (void)algorithm;
  return no_scratch(bytes);
}

static void launch(struct handle* handle, const char* name, uint64_t work) {
  struct fake_op op = {.kind = FAKE_KERNEL, .name = name, .duration_ns = 2000 + work / 1000, .stream = handle->stream};
  fake_cuda_call(FAKE_RUNTIME_API, 211, "cudaLaunchKernel", &op);
}

/* All (output, input, weight) triples that meet in a convolution. */
enum what { FORWARD, DATA, FILTER };
static void convolve(struct handle* handle, const char* name, enum what what, const struct shape* xs, float* x,
                     const struct shape* ws, float* w, const struct window* window, const struct shape* ys, float* y,
                     float beta) {
  const size_t sizes[] = {(size_t)ys->n * (size_t)ys->c * (size_t)ys->h * (size_t)ys->w,
                          (size_t)xs->n * (size_t)xs->c * (size_t)xs->h * (size_t)xs->w,
                          (size_t)ws->n * (size_t)ws->c * (size_t)ws->h * (size_t)ws->w};
  float* target = what == FORWARD ? y : what == DATA ? x : w;
  if (beta == 0) memset(target, 0, sizes[what] * sizeof(float));
  launch(handle, name, sizes[0] * (size_t)ws->c * (size_t)ws->h * (size_t)ws->w);
  for (int n = 0; n < ys->n; ++n)
    for (int k = 0; k < ys->c; ++k)
      for (int oy = 0; oy < ys->h; ++oy)
        for (int ox = 0; ox < ys->w; ++ox)
          for (int c = 0; c < xs->c; ++c)
            for (int ky = 0; ky < ws->h; ++ky)
              for (int kx = 0; kx < ws->w; ++kx) {
                const int iy = oy * window->stride + ky - window->padding,
                          ix = ox * window->stride + kx - window->padding;
                if (iy < 0 || ix < 0 || iy >= xs->h || ix >= xs->w) continue;
                float *yv = &y[((n * ys->c + k) * ys->h + oy) * ys->w + ox],
                      *xv = &x[((n * xs->c + c) * xs->h + iy) * xs->w + ix],
                      *wv = &w[((k * ws->c + c) * ws->h + ky) * ws->w + kx];
                if (what == FORWARD)
                  *yv += *xv * *wv;
                else if (what == DATA)
                  *xv += *yv * *wv;
                else
                  *wv += *xv * *yv;
              }
}

FAKE_EXPORT int cudnnConvolutionForward(struct handle* handle, const float* alpha, struct shape* xs, float* x,
                                        struct shape* ws, float* w, struct window* window, int algorithm, void* scratch,
                                        size_t bytes, const float* beta, struct shape* ys, float* y) {
  (void)alpha, (void)algorithm, (void)scratch, (void)bytes;
  convolve(handle, "implicit_convolve_sgemm(Params)", FORWARD, xs, x, ws, w, window, ys, y, *beta);
  return 0;
}
FAKE_EXPORT int cudnnConvolutionBackwardData(struct handle* handle, const float* alpha, struct shape* ws, float* w,
                                             struct shape* ys, float* y, struct window* window, int algorithm,
                                             void* scratch, size_t bytes, const float* beta, struct shape* xs,
                                             float* x) {
  (void)alpha, (void)algorithm, (void)scratch, (void)bytes;
  convolve(handle, "dgrad2d_alg1(Params)", DATA, xs, x, ws, w, window, ys, y, *beta);
  return 0;
}
FAKE_EXPORT int cudnnConvolutionBackwardFilter(struct handle* handle, const float* alpha, struct shape* xs, float* x,
                                               struct shape* ys, float* y, struct window* window, int algorithm,
                                               void* scratch, size_t bytes, const float* beta, struct shape* ws,
                                               float* w) {
  (void)alpha, (void)algorithm, (void)scratch, (void)bytes;
  convolve(handle, "wgrad2d_alg1(Params)", FILTER, xs, x, ws, w, window, ys, y, *beta);
  return 0;
}
FAKE_EXPORT int cudnnConvolutionBackwardBias(struct handle* handle, const float* alpha, struct shape* ys,
                                             const float* y, const float* beta, struct shape* bs, float* bias) {
  (void)alpha, (void)beta;
  launch(handle, "sum_bias(Params)", (uint64_t)ys->n);
  memset(bias, 0, (size_t)bs->c * sizeof *bias);
  for (int n = 0; n < ys->n; ++n)
    for (int k = 0; k < ys->c; ++k)
      for (int i = 0; i < ys->h * ys->w; ++i) bias[k] += y[(n * ys->c + k) * ys->h * ys->w + i];
  return 0;
}
FAKE_EXPORT int cudnnAddTensor(struct handle* handle, const float* alpha, struct shape* bs, const float* bias,
                               const float* beta, struct shape* ys, float* y) {
  (void)alpha, (void)beta, (void)bs;
  launch(handle, "add_tensor(Params)", (uint64_t)ys->n);
  for (int n = 0; n < ys->n; ++n)
    for (int k = 0; k < ys->c; ++k)
      for (int i = 0; i < ys->h * ys->w; ++i) y[(n * ys->c + k) * ys->h * ys->w + i] += bias[k];
  return 0;
}
