// The network of a Model on a GPU: the same layers, parameters and order, with cuBLAS, cuDNN and the
// kernels of kernels.h.
#pragma once

#include <memory>
#include <vector>

#include "workloads/train/cuda/check.h"
#include "workloads/train/model.h"

namespace ddl::train::cuda {

/** Parameters of a layer: where they and their gradients are on the device. */
struct Slot {
  float* value;
  float* gradient;
};

class DeviceModel {
 public:
  /** `slots`: of model.parameters_in_backward_order(). */
  DeviceModel(Model& model, const std::vector<Slot>& slots, cudaStream_t stream);
  ~DeviceModel();
  DeviceModel(const DeviceModel&) = delete;
  DeviceModel& operator=(const DeviceModel&) = delete;

  float* input() { return values_.front().data(); }
  const float* logits() const { return values_.back().data(); }
  float* output_gradient() { return gradients_.back().data(); }
  void forward();
  /** As Model::backward: `ready` is called after each layer with parameters. */
  void backward(const Model::OnGradientsReady& ready);

 private:
  struct Convolution;
  struct Step {
    Layer* layer;
    std::vector<Model::Node> inputs;
    std::vector<Slot> slots;  ///< bias, weight
    std::unique_ptr<Convolution> convolution;
  };

  void forward_through(Step& step, const Tensor& output_shape, float* y);
  void backward_through(Step& step, Model::Node node);
  /** Where the gradient for `node` is written, and whether it must be added to what is there. */
  float* gradient_target(Model::Node node, bool& adds);

  Model& model_;
  cudaStream_t stream_;
  cublasHandle_t blas_ = nullptr;
  cudnnHandle_t dnn_ = nullptr;
  std::vector<Step> steps_;
  std::vector<Memory<float>> values_, gradients_;
  std::vector<bool> has_gradient_;
  Memory<float> further_;    ///< a second reader's gradient, before it is added
  Memory<uint8_t> scratch_;  ///< cuDNN's
};

}  // namespace ddl::train::cuda
