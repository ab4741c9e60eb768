// The trainer's other half for --device cuda, in a library of its own (libtrain-cuda.so) that `train` opens when it is
// asked for: a train without it loads no CUDA library.
//
// Gradients are reduced either by NCCL on a stream of their own, each bucket as soon as backward has finished
// it, or, as jobs without NCCL do, by way of the host: device to host, MPI_Allreduce, host to device, one
// bucket after the other.
#include <memory>

#include "ddl/annotate.h"
#include "workloads/train/cuda/device_model.h"
#include "workloads/train/cuda/kernels.h"
#include "workloads/train/models.h"
#include "workloads/train/trainer.h"

namespace ddl::train::cuda {

namespace {

class Phase {
 public:
  explicit Phase(const char* name) { ddl_phase_begin(name); }
  ~Phase() { ddl_phase_end(); }
  Phase(const Phase&) = delete;
  Phase& operator=(const Phase&) = delete;
};

class Layered {
 public:
  explicit Layered(const std::string& name) { ddl_layer_begin(name.c_str()); }
  ~Layered() { ddl_layer_end(); }
  Layered(const Layered&) = delete;
  Layered& operator=(const Layered&) = delete;
};

/** Pinned memory of the host. */
template <typename T>
class Pinned {
 public:
  explicit Pinned(std::size_t count) : count_(count) { check(cudaMallocHost(&data_, count * sizeof(T))); }
  ~Pinned() { cudaFreeHost(data_); }
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;
  T* data() { return data_; }
  std::span<T> span(std::size_t offset, std::size_t count) { return {data_ + offset, count}; }

 private:
  T* data_ = nullptr;
  std::size_t count_;
};

struct Streams {
  cudaStream_t compute, communicate;
  Streams() {
    check(cudaStreamCreateWithFlags(&compute, cudaStreamNonBlocking));
    check(cudaStreamCreateWithFlags(&communicate, cudaStreamNonBlocking));
  }
  ~Streams() {
    cudaStreamDestroy(compute);
    cudaStreamDestroy(communicate);
  }
};

struct Event {
  cudaEvent_t event;
  Event() { check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming)); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  ~Event() { cudaEventDestroy(event); }
};

/** Before anything else is built: a machine without a device must say so, and say why. */
int choose_device(const Mpi& mpi) {
  int devices = 0;
  check(cudaGetDeviceCount(&devices));
  check(cudaSetDevice(mpi.rank() % devices));
  return mpi.rank() % devices;
}

class CudaTrainer : public Training {
 public:
  CudaTrainer(const Options& options, const Dataset& data, Mpi& mpi)
      : device_(choose_device(mpi)),
        options_(options),
        data_(data),
        mpi_(mpi),
        sampler_(data.size(), options.seed),
        faults_(options.faults, options.seed, mpi.rank()),
        host_model_(build_model(options.model, options.batch, data.shape(), options.width)),
        arena_(host_model_),
        buckets_(assign_buckets(arena_.counts(), options.bucket_bytes())),
        values_(arena_.size()),
        velocity_(arena_.size()),
        gradients_(arena_.size() + ParameterArena::kExtra),
        device_labels_(options.batch),
        pixels_(options.batch * data.shape().size()),
        labels_(options.batch),
        staging_(arena_.size() + ParameterArena::kExtra),
        ready_(buckets_.size()),
        reduced_(buckets_.size()) {
    arena_.initialise(options.seed);
    std::vector<Slot> slots;
    std::size_t offset = 0;
    for (const std::size_t count : arena_.counts()) {
      slots.push_back({values_.data() + offset, gradients_.data() + offset});
      offset += count;
    }
    model_ = std::make_unique<DeviceModel>(host_model_, slots, streams_.compute);
    for (std::size_t i = 0; i < buckets_.size(); ++i) names_.push_back("bucket" + std::to_string(i));
  }

  ~CudaTrainer() override {
    if (communicator_) ncclCommDestroy(communicator_);
  }

  void start() override {
    mpi_.broadcast(arena_.values());
    check(cudaMemcpy(values_.data(), arena_.values().data(), arena_.size() * sizeof(float), cudaMemcpyHostToDevice));
    if (options_.reduce == "nccl") make_communicator();
  }

  StepResult run_step(uint64_t step) override {
    step_ = step;
    next_ = 0;
    ddl_step_begin(step);
    load_batch();
    forward();
    {
      const Phase phase("backward");
      model_->backward([this](std::size_t finished) {
        if (options_.reduce == "nccl" && options_.overlap) reduce_ready(finished);
      });
    }
    {
      const Phase phase("reduce");
      reduce_ready(arena_.counts().size());
    }
    update();
    const StepResult result = read_result();
    ddl_value("samples", static_cast<double>(options_.batch));
    ddl_value("batch", static_cast<double>(options_.batch));
    ddl_value("loss", result.loss);
    ddl_step_end();
    return result;
  }

  std::size_t parameters() const override { return arena_.size(); }
  std::size_t buckets() const override { return buckets_.size(); }
  std::size_t global_batch() const override { return options_.batch * static_cast<std::size_t>(mpi_.size()); }

 private:
  void make_communicator() {
    ncclUniqueId id = {};
    if (mpi_.rank() == 0) check(ncclGetUniqueId(&id));
    MPI_Bcast(&id, sizeof id, MPI_BYTE, 0, MPI_COMM_WORLD);
    check(ncclCommInitRank(&communicator_, mpi_.size(), id, mpi_.rank()));
  }

  void load_batch() {
    const Phase phase("input");
    const std::size_t size = data_.shape().size();
    const uint64_t first = step_ * global_batch() + static_cast<uint64_t>(mpi_.rank()) * options_.batch;
    for (std::size_t i = 0; i < options_.batch; ++i)
      labels_.data()[i] = data_.load(sampler_.sample_at(first + i), pixels_.data() + i * size);
    const Layered layer("input");
    check(cudaMemcpyAsync(model_->input(), pixels_.data(), options_.batch * size * sizeof(float),
                          cudaMemcpyHostToDevice, streams_.compute));
    check(cudaMemcpyAsync(device_labels_.data(), labels_.data(), options_.batch, cudaMemcpyHostToDevice,
                          streams_.compute));
  }

  void forward() {
    const Phase phase("forward");
    faults_.stretch_forward(step_);
    model_->forward();
    const Layered layer("loss");
    softmax_cross_entropy(streams_.compute, model_->output_gradient(), gradients_.data() + arena_.size(),
                          model_->logits(), device_labels_.data(), options_.batch, kClasses,
                          1.0F / static_cast<float>(global_batch()));
  }

  /** The bucket's gradients; the last bucket also carries the arena's extra floats. */
  std::size_t floats_of(std::size_t bucket) const {
    return buckets_[bucket].count + (bucket + 1 == buckets_.size() ? ParameterArena::kExtra : 0);
  }

  void reduce_ready(std::size_t finished_parameters) {
    for (; next_ < buckets_.size() && buckets_[next_].end_parameter() <= finished_parameters; ++next_) {
      if (next_ == 0) faults_.before_first_reduction(step_);
      const Layered layer(names_[next_]);
      if (options_.reduce == "nccl") {
        reduce_by_nccl(next_);
      } else {
        reduce_by_mpi(next_);
      }
    }
  }

  void reduce_by_nccl(std::size_t bucket) {
    float* data = gradients_.data() + buckets_[bucket].offset;
    check(cudaEventRecord(ready_[bucket].event, streams_.compute));
    check(cudaStreamWaitEvent(streams_.communicate, ready_[bucket].event, 0));
    check(ncclAllReduce(data, data, floats_of(bucket), ncclFloat32, ncclSum, communicator_, streams_.communicate));
    check(cudaEventRecord(reduced_[bucket].event, streams_.communicate));
  }

  void reduce_by_mpi(std::size_t bucket) {
    const std::size_t offset = buckets_[bucket].offset, count = floats_of(bucket);
    check(cudaMemcpyAsync(staging_.data() + offset, gradients_.data() + offset, count * sizeof(float),
                          cudaMemcpyDeviceToHost, streams_.compute));
    check(cudaStreamSynchronize(streams_.compute));
    mpi_.sum(staging_.span(offset, count));
    check(cudaMemcpyAsync(gradients_.data() + offset, staging_.data() + offset, count * sizeof(float),
                          cudaMemcpyHostToDevice, streams_.compute));
  }

  void update() {
    const Phase phase("update");
    for (std::size_t i = 0; i < buckets_.size(); ++i) {
      const Layered layer(names_[i]);
      if (options_.reduce == "nccl") check(cudaStreamWaitEvent(streams_.compute, reduced_[i].event, 0));
      const std::size_t offset = buckets_[i].offset;
      cuda::update(streams_.compute, values_.data() + offset, velocity_.data() + offset, gradients_.data() + offset,
                   buckets_[i].count, static_cast<float>(options_.rate), static_cast<float>(options_.momentum));
    }
    check(cudaGetLastError());
  }

  StepResult read_result() {
    const std::span<float> extra = staging_.span(arena_.size(), ParameterArena::kExtra);
    check(cudaMemcpyAsync(extra.data(), gradients_.data() + arena_.size(), extra.size_bytes(), cudaMemcpyDeviceToHost,
                          streams_.compute));
    check(cudaStreamSynchronize(streams_.compute));
    return {static_cast<double>(extra[0]), static_cast<double>(extra[1]) / static_cast<double>(global_batch())};
  }

  int device_;  ///< first: what follows is made on it
  Options options_;
  const Dataset& data_;
  Mpi& mpi_;
  Sampler sampler_;
  Faults faults_;
  Model host_model_;  ///< shapes and first weights; it computes nothing
  ParameterArena arena_;
  std::vector<Bucket> buckets_;
  std::vector<std::string> names_;
  Streams streams_;
  Memory<float> values_, velocity_, gradients_;
  Memory<uint8_t> device_labels_;
  Pinned<float> pixels_;
  Pinned<uint8_t> labels_;
  Pinned<float> staging_;
  std::vector<Event> ready_, reduced_;
  std::unique_ptr<DeviceModel> model_;
  ncclComm_t communicator_ = nullptr;
  uint64_t step_ = 0;
  std::size_t next_ = 0;  ///< the first bucket that this step has not reduced yet
};

}  // namespace

}  // namespace ddl::train::cuda

/** Found by name (device.cpp). Throws train::Error. */
extern "C" ddl::train::Training* train_make_cuda(const ddl::train::Options& options, const ddl::train::Dataset& data,
                                                 ddl::train::Mpi& mpi) {
  return new ddl::train::cuda::CudaTrainer(options, data, mpi);
}
