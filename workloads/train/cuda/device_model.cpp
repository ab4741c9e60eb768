#include "workloads/train/cuda/device_model.h"

#include <algorithm>

#include "ddl/annotate.h"
#include "workloads/train/cuda/kernels.h"
#include "workloads/train/layers.h"

namespace ddl::train::cuda {

namespace {

constexpr std::size_t kBias = 0;
constexpr std::size_t kWeight = 1;

int to_int(std::size_t n) { return static_cast<int>(n); }

/** Row-major c(m x n) = a(m x k) * b(k x n) + beta * c; cuBLAS is column-major, so it computes the transpose of it. */
void gemm(cublasHandle_t blas, bool transpose_a, bool transpose_b, std::size_t m, std::size_t n, std::size_t k,
          const float* a, const float* b, float beta, float* c) {
  const float one = 1.0F;
  check(cublasSgemm(blas, transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N, transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N, to_int(n),
                    to_int(m), to_int(k), &one, b, to_int(transpose_b ? k : n), a, to_int(transpose_a ? m : k), &beta,
                    c, to_int(n)));
}

}  // namespace

/** cuDNN's view of one layer. The algorithms are fixed: what cuDNN would choose by measuring may differ
 * from run to run. */
struct DeviceModel::Convolution {
  cudnnTensorDescriptor_t x = nullptr, y = nullptr, bias = nullptr;
  cudnnFilterDescriptor_t weight = nullptr;
  cudnnConvolutionDescriptor_t window = nullptr;
  cudnnConvolutionFwdAlgo_t forward = CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM;
  cudnnConvolutionBwdDataAlgo_t backward_data = CUDNN_CONVOLUTION_BWD_DATA_ALGO_1;
  cudnnConvolutionBwdFilterAlgo_t backward_filter = CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1;

  Convolution(const Conv2d& layer, const Tensor& input, const Tensor& output) {
    const auto describe = [](cudnnTensorDescriptor_t& descriptor, std::size_t n, const Shape& s) {
      check(cudnnCreateTensorDescriptor(&descriptor));
      check(cudnnSetTensor4dDescriptor(descriptor, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, to_int(n), to_int(s.channels),
                                       to_int(s.height), to_int(s.width)));
    };
    describe(x, input.batch(), input.shape());
    describe(y, output.batch(), output.shape());
    describe(bias, 1, {output.shape().channels, 1, 1});
    const Window& w = layer.window();
    check(cudnnCreateFilterDescriptor(&weight));
    check(cudnnSetFilter4dDescriptor(weight, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, to_int(output.shape().channels),
                                     to_int(input.shape().channels), to_int(w.kernel), to_int(w.kernel)));
    check(cudnnCreateConvolutionDescriptor(&window));
    check(cudnnSetConvolution2dDescriptor(window, to_int(w.padding), to_int(w.padding), to_int(w.stride),
                                          to_int(w.stride), 1, 1, CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT));
  }
  ~Convolution() {
    for (cudnnTensorDescriptor_t descriptor : {x, y, bias}) cudnnDestroyTensorDescriptor(descriptor);
    cudnnDestroyFilterDescriptor(weight);
    cudnnDestroyConvolutionDescriptor(window);
  }

  std::size_t scratch_bytes(cudnnHandle_t dnn) const {
    std::size_t a = 0, b = 0, c = 0;
    check(cudnnGetConvolutionForwardWorkspaceSize(dnn, x, weight, window, y, forward, &a));
    check(cudnnGetConvolutionBackwardDataWorkspaceSize(dnn, weight, y, window, x, backward_data, &b));
    check(cudnnGetConvolutionBackwardFilterWorkspaceSize(dnn, x, y, window, weight, backward_filter, &c));
    return std::max({a, b, c});
  }
};

DeviceModel::DeviceModel(Model& model, const std::vector<Slot>& slots, cudaStream_t stream)
    : model_(model), stream_(stream) {
  check(cublasCreate(&blas_));
  check(cublasSetStream(blas_, stream));
  check(cudnnCreate(&dnn_));
  check(cudnnSetStream(dnn_, stream));
  std::size_t largest = 0, scratch_bytes = 0;
  for (Model::Node node = 0; node < model.nodes(); ++node) {
    values_.emplace_back(model.value(node).size());
    gradients_.emplace_back(model.value(node).size());
    largest = std::max(largest, model.value(node).size());
  }
  further_ = Memory<float>(largest);
  has_gradient_.resize(model.nodes());
  for (std::size_t i = 0; i < model.steps(); ++i) {
    Step step{&model.layer(i), model.inputs_of(i), {}, nullptr};
    if (const auto* conv = dynamic_cast<const Conv2d*>(step.layer)) {
      step.convolution = std::make_unique<Convolution>(*conv, model.value(step.inputs[0]), model.value(i + 1));
      scratch_bytes = std::max(scratch_bytes, step.convolution->scratch_bytes(dnn_));
    }
    steps_.push_back(std::move(step));
  }
  auto slot = slots.begin();
  for (std::size_t i = steps_.size(); i-- > 0;) {
    for (std::size_t p = 0; p < steps_[i].layer->parameters().size(); ++p) steps_[i].slots.push_back(*slot++);
  }
  scratch_ = Memory<uint8_t>(std::max<std::size_t>(scratch_bytes, 1));
}

DeviceModel::~DeviceModel() {
  steps_.clear();
  if (dnn_) cudnnDestroy(dnn_);
  if (blas_) cublasDestroy(blas_);
}

void DeviceModel::forward() {
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    ddl_layer_begin(steps_[i].layer->name().c_str());
    forward_through(steps_[i], model_.value(i + 1), values_[i + 1].data());
    ddl_layer_end();
  }
}

void DeviceModel::forward_through(Step& step, const Tensor& output, float* y) {
  const Tensor& input = model_.value(step.inputs[0]);
  const float* x = values_[step.inputs[0]].data();
  const float one = 1.0F, zero = 0.0F;
  if (step.convolution) {
    const Convolution& c = *step.convolution;
    check(cudnnConvolutionForward(dnn_, &one, c.x, x, c.weight, step.slots[kWeight].value, c.window, c.forward,
                                  scratch_.data(), scratch_.size(), &zero, c.y, y));
    check(cudnnAddTensor(dnn_, &one, c.bias, step.slots[kBias].value, &one, c.y, y));
  } else if (dynamic_cast<Linear*>(step.layer)) {
    const std::size_t inputs = input.shape().size(), outputs = output.shape().size();
    fill_rows(stream_, y, step.slots[kBias].value, input.batch(), outputs);
    gemm(blas_, false, true, input.batch(), outputs, inputs, x, step.slots[kWeight].value, 1.0F, y);
  } else if (dynamic_cast<GlobalAveragePool*>(step.layer)) {
    average_planes(stream_, y, x, output.size(), input.shape().plane());
  } else {
    relu(stream_, y, x, step.inputs.size() > 1 ? values_[step.inputs[1]].data() : nullptr, output.size());
  }
}

float* DeviceModel::gradient_target(Model::Node node, bool& adds) {
  adds = has_gradient_[node];
  has_gradient_[node] = true;
  return adds ? further_.data() : gradients_[node].data();
}

void DeviceModel::backward(const Model::OnGradientsReady& ready) {
  std::fill(has_gradient_.begin(), has_gradient_.end(), false);
  std::size_t finished = 0;
  for (std::size_t i = steps_.size(); i-- > 0;) {
    ddl_layer_begin(steps_[i].layer->name().c_str());
    backward_through(steps_[i], i + 1);
    ddl_layer_end();
    finished += steps_[i].slots.size();
    if (!steps_[i].slots.empty() && ready) ready(finished);
  }
}

void DeviceModel::backward_through(Step& step, Model::Node node) {
  const Tensor& output = model_.value(node);
  const Tensor& input = model_.value(step.inputs[0]);
  const float* x = values_[step.inputs[0]].data();
  const float* dy = gradients_[node].data();
  const float one = 1.0F, zero = 0.0F;
  const std::size_t inputs = input.shape().size(), outputs = output.shape().size();
  if (step.convolution) {
    const Convolution& c = *step.convolution;
    check(cudnnConvolutionBackwardBias(dnn_, &one, c.y, dy, &zero, c.bias, step.slots[kBias].gradient));
    check(cudnnConvolutionBackwardFilter(dnn_, &one, c.x, x, c.y, dy, c.window, c.backward_filter, scratch_.data(),
                                         scratch_.size(), &zero, c.weight, step.slots[kWeight].gradient));
  } else if (!step.slots.empty()) {
    sum_rows(stream_, step.slots[kBias].gradient, dy, input.batch(), outputs);
    gemm(blas_, true, false, outputs, inputs, input.batch(), dy, x, 0.0F, step.slots[kWeight].gradient);
  }
  for (const Model::Node from : step.inputs) {
    if (from == 0) continue;  // nobody learns from the gradient of the images
    bool adds;
    float* dx = gradient_target(from, adds);
    if (step.convolution) {
      const Convolution& c = *step.convolution;
      check(cudnnConvolutionBackwardData(dnn_, &one, c.weight, step.slots[kWeight].value, c.y, dy, c.window,
                                         c.backward_data, scratch_.data(), scratch_.size(), &zero, c.x, dx));
    } else if (!step.slots.empty()) {
      gemm(blas_, false, false, input.batch(), inputs, outputs, dy, step.slots[kWeight].value, 0.0F, dx);
    } else if (dynamic_cast<GlobalAveragePool*>(step.layer)) {
      spread_planes(stream_, dx, dy, output.size(), input.shape().plane());
    } else {
      relu_gradient(stream_, dx, dy, x, step.inputs.size() > 1 ? values_[step.inputs[1]].data() : nullptr,
                    output.size());
    }
    if (adds) add(stream_, gradients_[from].data(), dx, model_.value(from).size());
  }
}

}  // namespace ddl::train::cuda
