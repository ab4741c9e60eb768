// Tuned jobs for the tests of what is emitted.
#pragma once

#include "autotuner/tuned.h"

namespace ddl::tune {

/// Everything was tuned, on four ranks, and some of it has names and values that are hard to write down.
inline Tuned tuned_sample() {
  Tuned tuned;
  tuned.command = {"mpirun",      "-np",     "4",      "train",
                   "--batch",     "{batch}", "--name", "a 'b' $(touch pwned) \x1b[31m\n<script>",
                   "--hub-token", "hunter2"};
  tuned.run = "tune-train.ddl";
  tuned.date = "2026-11-22T00:10:00Z";
  tuned.machine = "node1, node2 (Xeon\nof evil $HOME)";
  tuned.mpi_library = "Open MPI v4.1.4";
  tuned.goal = "samples per second at equal statistical efficiency";
  tuned.ranks = 4;
  tuned.nodes = 2;
  tuned.gain = Gain{1.104, 1.0612, 1.1478, 12, 0.991, 1.012};
  tuned.choices = {{"batch", "64", "32", true}, {"bucket_mb", "32", "25", false}};
  tuned.allreduce_rules = {{0, 3, "recursive_doubling", 0},
                           {16384, 4, "ring", 0},
                           {1 << 20, 5, "segmented_ring", 131072},
                           {4 << 20, 0, "ignore", 0}};
  tuned.nccl_rules = {{"allreduce", 0, 65535, "tree", "ll", 2},
                      {"allreduce", 65536, -1, "ring", "simple", -1},
                      {"allreduce", 0, -1, "", "simple", 4}};
  tuned.bucket_bytes = 32 << 20;
  tuned.default_bucket_bytes = 25 << 20;
  tuned.batch_per_rank = 64;
  tuned.noise_scale = 200;
  tuned.environment = {{"MESSAGE", "a 'b' \"c\" $HOME `id` \\ \x1b[31m\nsecond line;#"},
                       {"NCCL_ALGO", "allreduce:tree,ring;broadcast:ring"},
                       {"NCCL_NTHREADS", "256"},
                       {"OMPI_MCA_btl_vader_eager_limit", "8192"},
                       {"MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM", "recursive_doubling"},
                       {"HOROVOD_CYCLE_TIME", "3.5"},
                       {"EMPTY", ""}};
  tuned.tuned_command = {"mpirun",      "-np",    "4",      "train",
                         "--batch",     "64",     "--name", "a 'b' $(touch pwned) \x1b[31m\n<script>",
                         "--hub-token", "hunter2"};
  tuned.nccl_tuner_plugin = "/opt/ddl/lib/libnccl-tuner-ddl.so";
  return tuned;
}

/// The default is kept: whatever the search knows of other values must not reach a file.
inline Tuned default_sample() {
  Tuned tuned = tuned_sample();
  tuned.gain.reset();
  tuned.kept = "not confirmed: the tuning ended first";
  return tuned;
}

/// A gain by something that no file is about.
inline Tuned other_sample() {
  Tuned tuned;
  tuned.command = {"mpirun", "-np", "2", "train", "--threads", "{threads}"};
  tuned.tuned_command = {"mpirun", "-np", "2", "train", "--threads", "2"};
  tuned.ranks = 2;
  tuned.nodes = 1;
  tuned.gain = Gain{1.5, 1.4, 1.6, 5, 0.99, 1.01};
  tuned.choices = {{"threads", "2", "1", false}};
  return tuned;
}

}  // namespace ddl::tune
