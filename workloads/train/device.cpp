#include "workloads/train/device.h"

#include <dlfcn.h>

#include <filesystem>

#include "workloads/train/consistency_trainer.h"
#include "workloads/train/error.h"

namespace ddl::train {

namespace {

using MakeCuda = Training*(const Options&, const Dataset&, Mpi&);

/** Beside the program, as built and as installed: bin/train and lib/libtrain-cuda.so. */
MakeCuda* open_cuda() {
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::string path = (program.parent_path().parent_path() / "lib" / "libtrain-cuda.so").string();
  if (!std::filesystem::exists(path, error))
    throw Error("--device cuda: this train was built without the CUDA toolkit (no " + path + ")");
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (!library) throw Error(std::string("--device cuda: ") + dlerror());
  return reinterpret_cast<MakeCuda*>(dlsym(library, "train_make_cuda"));
}

}  // namespace

std::unique_ptr<Training> make_training(const Options& options, const Dataset& data, Mpi& mpi,
                                        BackgroundRuntime* background) {
  if (options.consistency.kind != ConsistencyRule::Kind::kSynchronous)
    return std::make_unique<ConsistencyTrainer>(options, data, mpi);
  if (options.device == "cpu") return std::make_unique<Trainer>(options, data, mpi, background);
  return std::unique_ptr<Training>(open_cuda()(options, data, mpi));
}

}  // namespace ddl::train
