#pragma once

#include <memory>

#include "workloads/train/trainer.h"

namespace ddl::train {

/** The trainer for --device; `background` as Trainer takes it. Throws Error if the device is not there,
 * with the reason. */
std::unique_ptr<Training> make_training(const Options& options, const Dataset& data, Mpi& mpi,
                                        BackgroundRuntime* background);

}  // namespace ddl::train
