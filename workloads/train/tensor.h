#pragma once

#include <cstddef>
#include <new>
#include <span>
#include <vector>

namespace ddl::train {

/** Cache-line alignment: vector loads do not straddle lines, and the arithmetic takes the same path in every run. */
template <typename T>
struct AlignedAllocator {
  using value_type = T;
  static constexpr std::align_val_t kAlignment{64};

  AlignedAllocator() = default;
  template <typename U>
  AlignedAllocator(const AlignedAllocator<U>& /*other*/) {}
  T* allocate(std::size_t n) { return static_cast<T*>(::operator new(n * sizeof(T), kAlignment)); }
  void deallocate(T* p, std::size_t /*n*/) { ::operator delete(p, kAlignment); }
  template <typename U>
  bool operator==(const AlignedAllocator<U>& /*other*/) const {
    return true;
  }
};

using Buffer = std::vector<float, AlignedAllocator<float>>;

/** For one sample. A plain feature vector is `channels` x 1 x 1. */
struct Shape {
  std::size_t channels = 1;
  std::size_t height = 1;
  std::size_t width = 1;

  std::size_t plane() const { return height * width; }
  std::size_t size() const { return channels * height * width; }
  bool operator==(const Shape&) const = default;
};

/** A batch of samples, NCHW, contiguous. Allocated once and reused in every step. */
class Tensor {
 public:
  Tensor(std::size_t batch, Shape shape) : batch_(batch), shape_(shape), values_(batch * shape.size()) {}

  std::size_t batch() const { return batch_; }
  const Shape& shape() const { return shape_; }
  std::size_t size() const { return values_.size(); }

  float* data() { return values_.data(); }
  const float* data() const { return values_.data(); }
  std::span<float> values() { return values_; }
  std::span<const float> values() const { return values_; }
  float* sample(std::size_t n) { return data() + n * shape_.size(); }
  const float* sample(std::size_t n) const { return data() + n * shape_.size(); }

 private:
  std::size_t batch_;
  Shape shape_;
  Buffer values_;
};

}  // namespace ddl::train
