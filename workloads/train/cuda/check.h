// Errors of CUDA and its libraries as train::Error, with the words of the library.
#pragma once

#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <cudnn.h>
#include <nccl.h>

#include <string>

#include "workloads/train/error.h"

namespace ddl::train::cuda {

inline void check(cudaError_t code) {
  if (code != cudaSuccess) throw Error(std::string("--device cuda: ") + cudaGetErrorString(code));
}
inline void check(cublasStatus_t code) {
  if (code != CUBLAS_STATUS_SUCCESS) throw Error(std::string("--device cuda: cuBLAS: ") + cublasGetStatusString(code));
}
inline void check(cudnnStatus_t code) {
  if (code != CUDNN_STATUS_SUCCESS) throw Error(std::string("--device cuda: cuDNN: ") + cudnnGetErrorString(code));
}
inline void check(ncclResult_t code) {
  if (code != ncclSuccess) throw Error(std::string("--device cuda: NCCL: ") + ncclGetErrorString(code));
}

/** Device memory, zero at first. */
template <typename T>
class Memory {
 public:
  Memory() = default;
  explicit Memory(std::size_t count) : count_(count) {
    check(cudaMalloc(&data_, count * sizeof(T)));
    check(cudaMemset(data_, 0, count * sizeof(T)));
  }
  Memory(Memory&& other) noexcept : data_(other.data_), count_(other.count_) { other.data_ = nullptr; }
  Memory& operator=(Memory&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(count_, other.count_);
    return *this;
  }
  ~Memory() { cudaFree(data_); }

  T* data() const { return data_; }
  std::size_t size() const { return count_; }

 private:
  T* data_ = nullptr;
  std::size_t count_ = 0;
};

}  // namespace ddl::train::cuda
