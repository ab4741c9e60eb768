/* The kernels of train --device cuda (workloads/train/cuda/kernels.cu) as loops on the CPU, written a second time from
 * what kernels.h says they do. Arguments are those of the kernels. Part of the mock of libcudart: "device memory" is
 * ordinary memory. */
#include <math.h>
#include <stdint.h>
#include <string.h>

#define ARGUMENT(type, i) (*(type*)arguments[i])
#define CORNER (1.0f / 64.0f)

static float ramp(float x) { return fminf(fmaxf(x + CORNER, 0), 2 * CORNER); }
static int is(const char* name, const char* kernel) { return strstr(name, kernel) != NULL; }

static void softmax(float* gradient, float* extra, const float* logits, const uint8_t* labels, size_t batch,
                    size_t classes, float scale) {
  double loss = 0, correct = 0;
  for (size_t n = 0; n < batch; ++n) {
    const float* z = logits + n * classes;
    size_t best = 0;
    double sum = 0;
    for (size_t i = 1; i < classes; ++i) best = z[i] > z[best] ? i : best;
    for (size_t i = 0; i < classes; ++i) sum += exp((double)(z[i] - z[best]));
    for (size_t i = 0; i < classes; ++i)
      gradient[n * classes + i] = scale * (float)(exp((double)(z[i] - z[best])) / sum - (i == labels[n]));
    loss += log(sum) - (double)(z[labels[n]] - z[best]);
    correct += best == labels[n];
  }
  extra[0] = (float)(loss * (double)scale);
  extra[1] = (float)correct;
}

void fake_train_kernel(const char* name, void** arguments, unsigned long threads) {
  if (!strstr(name, "_kernel")) return; /* another program's */
  float* out = ARGUMENT(float*, 0);
  const float* in = ARGUMENT(const float*, 1);
  (void)threads;
  if (is(name, "fill_rows_kernel")) {
    const size_t count = ARGUMENT(size_t, 2), columns = ARGUMENT(size_t, 3);
    for (size_t i = 0; i < count; ++i) out[i] = in[i % columns];
  } else if (is(name, "sum_rows_kernel")) {
    const size_t rows = ARGUMENT(size_t, 2), columns = ARGUMENT(size_t, 3);
    memset(out, 0, columns * sizeof *out);
    for (size_t i = 0; i < rows * columns; ++i) out[i % columns] += in[i];
  } else if (is(name, "relu_gradient_kernel")) {
    const float *a = ARGUMENT(const float*, 2), *b = ARGUMENT(const float*, 3);
    for (size_t i = 0; i < ARGUMENT(size_t, 4); ++i) out[i] = ramp(a[i] + (b ? b[i] : 0)) / (2 * CORNER) * in[i];
  } else if (is(name, "relu_kernel")) {
    const float* b = ARGUMENT(const float*, 2);
    for (size_t i = 0; i < ARGUMENT(size_t, 3); ++i) {
      const float x = in[i] + (b ? b[i] : 0), t = ramp(x);
      out[i] = t * t / (4 * CORNER) + fmaxf(x - CORNER, 0);
    }
  } else if (is(name, "average_planes_kernel")) {
    const size_t plane = ARGUMENT(size_t, 3);
    for (size_t i = 0; i < ARGUMENT(size_t, 2); ++i) {
      double sum = 0;
      for (size_t j = 0; j < plane; ++j) sum += (double)in[i * plane + j];
      out[i] = (float)(sum / (double)plane);
    }
  } else if (is(name, "spread_planes_kernel")) {
    const size_t plane = ARGUMENT(size_t, 3);
    for (size_t i = 0; i < ARGUMENT(size_t, 2); ++i) out[i] = in[i / plane] / (float)plane;
  } else if (is(name, "softmax_kernel")) {
    softmax(out, ARGUMENT(float*, 1), ARGUMENT(const float*, 2), ARGUMENT(const uint8_t*, 3), ARGUMENT(size_t, 4),
            ARGUMENT(size_t, 5), ARGUMENT(float, 6));
  } else if (is(name, "update_kernel")) {
    float* velocity = ARGUMENT(float*, 1);
    const float *gradient = ARGUMENT(const float*, 2), rate = ARGUMENT(float, 4), momentum = ARGUMENT(float, 5);
    for (size_t i = 0; i < ARGUMENT(size_t, 3); ++i) {
      velocity[i] = momentum * velocity[i] + gradient[i];
      out[i] -= rate * velocity[i];
    }
  } else if (is(name, "add_kernel")) {
    for (size_t i = 0; i < ARGUMENT(size_t, 2); ++i) out[i] += in[i];
  }
}
