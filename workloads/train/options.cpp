#include "workloads/train/options.h"

#include <boost/program_options.hpp>
#include <cmath>
#include <sstream>

#include "workloads/command_line.h"
#include "workloads/train/compress/codec.h"
#include "workloads/train/error.h"
#include "workloads/train/gradient_sum.h"
#include "workloads/train/models.h"

namespace ddl::train {

namespace po = boost::program_options;

namespace {

/** As typed; checked afterwards. Signed, because an unsigned option would read -1 as 18446744073709551615. */
struct Typed {
  int64_t batch, steps, seed, width, print_every, segment_kib;
  double fusion_mib;
  std::string allreduce, dimensions, cache, consistency, order;
  std::vector<std::string> slow, delays, hangs;
};

po::options_description describe(Options& options, Typed& typed) {
  const Options defaults;
  po::options_description training("Training");
  training.add_options()(
      "model", po::value(&options.model)->default_value(defaults.model)->value_name("mlp|cnn|transformer"), "network")(
      "width", po::value(&typed.width)->default_value(0)->value_name("N"),
      "mlp: units per hidden layer (1024); cnn: channels of the first block (24); transformer: features of a token (128), a multiple "
      "of 4")("batch", po::value(&typed.batch)->default_value(static_cast<int64_t>(defaults.batch))->value_name("N"),
              "samples per rank and step")(
      "steps", po::value(&typed.steps)->default_value(static_cast<int64_t>(defaults.steps))->value_name("N"),
      "training steps")  //
      ("lr", po::value(&options.rate)->default_value(defaults.rate, "0.01")->value_name("X"), "learning rate")(
          "momentum", po::value(&options.momentum)->default_value(defaults.momentum, "0.9")->value_name("X"),
          "momentum of SGD")  //
      ("seed", po::value(&typed.seed)->default_value(static_cast<int64_t>(defaults.seed))->value_name("N"),
       "of weights, order of samples, drawn images, jitter")(
          "data", po::value(&options.data_folder)->value_name("DIR"),
          "folder with MNIST (train-images-idx3-ubyte, train-labels-idx1-ubyte) or CIFAR-10 (data_batch_*.bin); default: ten kinds "  //
          "of drawn shapes; transformer: always drawn sequences, in which the marked digit is to be told")(
          "bucket-mb", po::value(&options.bucket_mib)->default_value(defaults.bucket_mib, "0.25")->value_name("X"),
          "gradients are reduced in buckets that are closed when they hold X MiB (2^20 bytes), the rule of DDP's bucket_cap_mb; 0: one per "
          "tensor")                                                                                                   //
      ("no-overlap", po::bool_switch(), "blocking MPI_Allreduce after backward instead of MPI_Iallreduce during it")  //
      ("allreduce", po::value(&typed.allreduce)->default_value("mpi")->value_name("NAME"),
       "who adds up the gradients: mpi (the library), or messages of our own: parameter_server, tree, butterfly, rabenseifner, ring, "
       "segmented_ring, "
       "hierarchical, multi_ring, baidu_ring, gloo; these block, as --no-overlap does")  //
      ("segment-kb", po::value(&typed.segment_kib)->default_value(0, "128")->value_name("K"),
       "with --allreduce segmented_ring: KiB (2^10 bytes) per segment")  //
      ("dims", po::value(&typed.dimensions)->value_name("AxB"),
       "with --allreduce multi_ring: ranks of each dimension, the first within the nodes; default: ranks per node x nodes")  //
      ("compress", po::value(&options.compress)->default_value(defaults.compress)->value_name("CODE"),
       "gradients travel as none, fp16, bf16, q8, q4 (QSGD), onebit, ternary, top16_q4, topk:RATIO, threshold:T, sparcml:RATIO (top-k, "
       "added up as sparse streams) or dgc:RATIO[:STEPS] (deep gradient compression, with a warm-up of so many steps); what a code loses "
       "is kept and added to the next step's gradients; blocks, as --no-overlap does")  //
      ("consistency", po::value(&typed.consistency)->default_value("sync")->value_name("RULE"),
       "who waits for whose parameters: sync; ssp:S, nobody begins a step more than S steps ahead of the slowest; async; easgd:TAU, elastic "
       "averaging with a centre in every TAU-th step (in these three rank 0 is a parameter server, and the others train); gossip, the mean "
       "with both neighbours on a ring after each step; local:H, the mean of all in every H-th step")  //
      ("order", po::value(&typed.order)->value_name("LIST"),
       "with a server: it takes what workers 0, 1, ... (ranks 1, 2, ...) send in this order, over and over, as in 0,0,1,2,1,2; losses are "
       "then the same in every run; default: as it comes")  //
      ("runtime", po::value(&options.runtime)->default_value(defaults.runtime)->value_name("direct|background"),
       "who makes the MPI calls: direct, the training thread; background, a thread of its own as Horovod's, which the training thread hands "
       "its buckets over to and waits for")  //
      ("cycle-ms",
       po::value(&options.background.cycle_ms)->default_value(defaults.background.cycle_ms, "1")->value_name("MS"),
       "with --runtime background: ms from one negotiation to the next, at least (HOROVOD_CYCLE_TIME)")  //
      ("cache", po::value(&typed.cache)->default_value("yes")->value_name("yes|no"),
       "with --runtime background: negotiate by bits what was negotiated before; no: by messages to rank 0 in each cycle "
       "(HOROVOD_CACHE_CAPACITY=0)")  //
      ("fusion-mb", po::value(&typed.fusion_mib)->default_value(64.0, "64")->value_name("X"),
       "with --runtime background: what is ready is reduced X MiB (2^20 bytes) at a time (HOROVOD_FUSION_THRESHOLD); 0: each bucket alone")  //
      ("device", po::value(&options.device)->default_value(defaults.device)->value_name("cpu|cuda"),
       "cuda: cuBLAS and cuDNN, one GPU per rank, round robin")(
          "reduce", po::value(&options.reduce)->default_value(defaults.reduce)->value_name("nccl|mpi"),
          "with --device cuda: NCCL, or by way of the host (copy, MPI_Allreduce, copy)")(
          "print-every", po::value(&typed.print_every)->default_value(1)->value_name("N"),
          "print every Nth loss; 0: none")  //
      ("help,h", po::bool_switch(&options.help), "this text");
  po::options_description aids(
      "Test aids (steps and ranks count from 0; --slow-rank, --delay-once and --hang-rank may be repeated)");
  aids.add_options()("slow-rank", po::value(&typed.slow)->value_name("R:MS[:STEP]"),
                     "rank R takes MS milliseconds longer in forward, from STEP on: asleep, as --jitter is")(
      "slow-spin", po::bool_switch(&options.faults.slow_spins), "--slow-rank and --jitter compute rather than sleep")(
      "jitter", po::value(&options.faults.jitter_ms)->default_value(0.0, "0")->value_name("MS"),
      "0 to MS milliseconds more in forward, drawn for each rank and step")(
      "delay-once", po::value(&typed.delays)->value_name("R:STEP:MS"),
      "rank R comes MS milliseconds late to the first gradient reduction of STEP")(
      "hang-rank", po::value(&typed.hangs)->value_name("R:STEP"),
      "rank R never comes to the first gradient reduction of STEP")  //
      ("log-calls", po::value(&options.call_log)->value_name("FILE"),
       "each rank keeps its own count of completed MPI calls in FILE.<rank>")(
          "log-steps", po::value(&options.step_log)->value_name("FILE"),
          "each rank writes its own times of each step into FILE.<rank>, and at the end its calls and bytes by purpose")(
          "no-marks", po::bool_switch(), "mark no step, phase, layer or value for a profiler");
  training.add(aids);
  return training;
}

int64_t in_range(const char* option, int64_t value, int64_t low, int64_t high) {
  if (value < low || value > high) {
    throw UsageError(std::string("--") + option + " " + std::to_string(value) + ": expected " + std::to_string(low) +
                     " to " + std::to_string(high));
  }
  return value;
}

void in_range(const char* option, double value, double low, double high) {
  if (value >= low && value <= high) return;  // false for nan
  std::ostringstream message;
  message << "--" << option << " " << value << ": expected " << low << " to " << high;
  throw UsageError(message.str());
}

void check(Options& options, const Typed& typed) {
  constexpr int64_t kMany = int64_t{1} << 40;
  const std::size_t default_width = options.model == "mlp"           ? 1024
                                    : options.model == "cnn"         ? 24
                                    : options.model == "transformer" ? 128
                                                                     : 0;
  if (default_width == 0) throw UsageError("--model '" + options.model + "': expected mlp, cnn or transformer");
  if (options.device != "cpu" && options.device != "cuda")
    throw UsageError("--device '" + options.device + "': expected cpu or cuda");
  if (options.reduce != "nccl" && options.reduce != "mpi")
    throw UsageError("--reduce '" + options.reduce + "': expected nccl or mpi");
  options.width = static_cast<std::size_t>(in_range("width", typed.width, 0, 4096));
  if (options.width == 0) options.width = default_width;
  if (options.model == "transformer") {
    if (options.width % kHeads != 0)
      throw UsageError("--width " + std::to_string(options.width) + ": expected a multiple of 4, for 4 heads");
    if (!options.data_folder.empty()) throw UsageError("--data: the transformer reads sequences, not images");
    if (options.device != "cpu") throw UsageError("--device cuda: --model is mlp or cnn there");
  }
  options.batch = static_cast<std::size_t>(in_range("batch", typed.batch, 1, 65536));
  options.steps = static_cast<uint64_t>(in_range("steps", typed.steps, 1, kMany));
  options.seed = static_cast<uint64_t>(in_range("seed", typed.seed, 0, INT64_MAX));
  options.print_every = static_cast<uint64_t>(in_range("print-every", typed.print_every, 0, kMany));
  in_range("lr", options.rate, 0.0, 1e3);
  in_range("momentum", options.momentum, 0.0, 1.0);
  in_range("bucket-mb", options.bucket_mib, 0.0, 4096.0);
  in_range("jitter", options.faults.jitter_ms, 0.0, 3.6e6);
  for (const std::string& text : typed.slow) options.faults.slow.push_back(parse_slow_rank(text));
  for (const std::string& text : typed.delays) options.faults.delays.push_back(parse_delay_once(text));
  for (const std::string& text : typed.hangs) options.faults.hangs.push_back(parse_hang_rank(text));
}

void check_reduction(Options& options, const Typed& typed) {
  try {
    if (typed.allreduce != "mpi") {
      const std::string dimensions = typed.dimensions.empty() ? "" : ":" + typed.dimensions;
      options.allreduce = allreduce::parse_choice(typed.allreduce + dimensions);
    }
  } catch (const std::invalid_argument& error) {
    throw UsageError(std::string("--allreduce: ") + error.what());
  }
  const allreduce::Algorithm* algorithm = options.allreduce.algorithm;
  if (!typed.dimensions.empty() && !algorithm) throw UsageError("--dims: only --allreduce multi_ring has dimensions");
  if (typed.segment_kib != 0) {
    if (!algorithm || !algorithm->takes_segment)
      throw UsageError("--segment-kb: only --allreduce segmented_ring has segments");
    options.allreduce.segment_bytes =
        static_cast<std::size_t>(in_range("segment-kb", typed.segment_kib, 1, 1 << 21)) * 1024;
  }
  if (options.compress != "none") {
    check_compression(options.compress);
    if (algorithm)
      throw UsageError("--compress: codes are exchanged in a way of their own, not by --allreduce " + typed.allreduce);
  }
  if (!options.adds_up_itself()) return;
  if (options.device != "cpu") throw UsageError("--device cuda: --allreduce and --compress are for --device cpu");
  if (!options.call_log.empty()) throw UsageError("--log-calls counts no messages of --allreduce and --compress");
  if (!options.step_log.empty()) throw UsageError("--log-steps counts no messages of --allreduce and --compress");
  options.overlap = false;
}

void check_consistency_options(Options& options, const Typed& typed) {
  options.consistency = parse_consistency(typed.consistency, typed.order);
  options.consistency_word = typed.consistency;
  if (options.consistency.kind == ConsistencyRule::Kind::kSynchronous) return;
  if (options.device != "cpu") throw UsageError("--consistency: with --device cpu only");
  if (options.runtime != "direct")
    throw UsageError("--consistency " + typed.consistency + ": with --runtime direct only");
  if (options.allreduce.algorithm || options.compress != "none")
    throw UsageError("--consistency " + typed.consistency +
                     ": exchanges in its own way, not by --allreduce or --compress");
  options.overlap = false;
}

/** `typed_options`: with what was left out as "defaulted". */
void check_runtime(Options& options, const Typed& typed, const po::variables_map& typed_options) {
  if (options.runtime != "direct" && options.runtime != "background") {
    throw UsageError("--runtime '" + options.runtime + "': expected direct or background");
  }
  if (typed.cache != "yes" && typed.cache != "no")
    throw UsageError("--cache '" + typed.cache + "': expected yes or no");
  in_range("cycle-ms", options.background.cycle_ms, 0.0, 1e4);
  in_range("fusion-mb", typed.fusion_mib, 0.0, 4096.0);
  options.background.cache = typed.cache == "yes";
  options.background.fusion_bytes = static_cast<std::size_t>(typed.fusion_mib * 1024.0 * 1024.0);
  if (options.device != "cpu") {
    if (!options.step_log.empty()) throw UsageError("--log-steps: with --device cpu only");
    if (!options.marks) throw UsageError("--no-marks: with --device cpu only");
  }
  if (options.runtime == "direct") {
    for (const char* option : {"cycle-ms", "cache", "fusion-mb"}) {
      if (!typed_options[option].defaulted())
        throw UsageError(std::string("--") + option + ": with --runtime background only");
    }
    return;
  }
  if (options.device != "cpu") throw UsageError("--runtime background: with --device cpu only");
  if (options.allreduce.algorithm)
    throw UsageError("--runtime background: adds up by MPI_Allreduce, not by --allreduce " + typed.allreduce);
  if (options.compress != "none")
    throw UsageError("--runtime background: gradients travel as they are, not by --compress " + options.compress);
}

}  // namespace

void check_ranks(const Options& options, int ranks) {
  options.faults.check_ranks(ranks);
  check_consistency(options.consistency, ranks);
  try {
    allreduce::check_dimensions(options.allreduce, ranks);
  } catch (const std::invalid_argument& error) {
    throw UsageError(std::string("--dims: ") + error.what());
  }
}

Options parse_options(int argc, const char* const* argv) {
  Options options;
  Typed typed{};
  const po::options_description description = describe(options, typed);
  try {
    const po::variables_map typed_options = parse_command_line(argc, argv, description);
    options.overlap = options.may_overlap = !typed_options["no-overlap"].as<bool>();
    options.marks = !typed_options["no-marks"].as<bool>();
    if (!options.help) {
      check(options, typed);
      check_reduction(options, typed);
      check_runtime(options, typed, typed_options);
      check_consistency_options(options, typed);
    }
  } catch (const po::error& error) {
    throw UsageError(error.what());
  }
  return options;
}

std::string help_text() {
  Options options;
  Typed typed{};
  std::ostringstream text;
  text
      << "train - data-parallel training over MPI, a workload with known truth for ddl\n\n"
         "usage:   mpirun -np P train [options]\n"
         "example: mpirun -np 2 train --model cnn --batch 16 --steps 50 --slow-rank 1:20\n\n"
      << describe(options, typed)
      << "\nLosses go to stdout (rank 0), the same bit for bit in every run with the same options (with a server: and --order); times go to stderr.\n"
         "Step k trains on samples [k*P*B, (k+1)*P*B) of one seeded order: P ranks with --batch B see what one rank sees with P*B.\n"
         "Exit codes: 0 good, 1 error, 2 usage.\n";
  return text.str();
}

}  // namespace ddl::train
