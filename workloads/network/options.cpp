#include "workloads/network/options.h"

#include <boost/program_options.hpp>
#include <sstream>

#include "workloads/command_line.h"
#include "workloads/train/error.h"

namespace ddl::network {

namespace po = boost::program_options;
using train::UsageError;

namespace {

/** As typed; checked afterwards. Signed, because an unsigned option would read -1 as 18446744073709551615. */
struct Typed {
  int64_t batch, steps, stages, micro_batches, segment_kib;
  std::string schedule, allreduce, dimensions, split;
};

po::options_description describe(Options& options, Typed& typed) {
  const Options defaults;
  po::options_description network("Network");
  network.add_options()("table", po::value(&options.table)->value_name("NAME"),
                        "layer table: a name of --list, or a file .csv")(
      "list", po::bool_switch(&options.list), "print the networks that there are tables of, and their totals")(
      "scale", po::value(&options.scale)->default_value(defaults.scale, "1")->value_name("X"),
      "compute this part of the table's multiply-adds, from 0 to 1; what is communicated stays as it is")(
      "batch", po::value(&typed.batch)->default_value(static_cast<int64_t>(defaults.batch))->value_name("N"),
      "samples per step of each replica of the network: of each rank without --stages")(
      "steps", po::value(&typed.steps)->default_value(static_cast<int64_t>(defaults.steps))->value_name("N"),
      "training steps")  //
      ("fixed-ms", po::value(&options.fixed_ms)->default_value(0.0, "0")->value_name("X"),
       "sleep instead of computing: X milliseconds for a stage's forward pass of a micro-batch, 2 X for its backward pass")  //
      ("help,h", po::bool_switch(&options.help), "this text");
  po::options_description reduction("Gradients");
  reduction.add_options()(
      "bucket-mb", po::value(&options.bucket_mib)->default_value(defaults.bucket_mib, "25")->value_name("X"),
      "gradients are reduced in buckets that are closed when they hold X MiB (2^20 bytes), the rule of DDP's bucket_cap_mb; 0: "  //
      "one per layer")("no-overlap", po::bool_switch(),
                       "blocking MPI_Allreduce after backward instead of MPI_Iallreduce during it")(
      "allreduce", po::value(&typed.allreduce)->default_value("mpi")->value_name("NAME"),
      "mpi (the library), or messages of our own: parameter_server, tree, butterfly, rabenseifner, ring, segmented_ring, "  //
      "hierarchical, multi_ring, baidu_ring, gloo; these block, as --no-overlap does")(
      "segment-kb", po::value(&typed.segment_kib)->default_value(0, "128")->value_name("K"),
      "with --allreduce segmented_ring: KiB (2^10 bytes) per segment")(
      "dims", po::value(&typed.dimensions)->value_name("AxB"), "with --allreduce multi_ring: ranks of each dimension");
  po::options_description pipeline("Pipeline");
  pipeline.add_options()(
      "stages", po::value(&typed.stages)->default_value(1)->value_name("K"),
      "cut the network into K runs of layers of about the same compute, one per rank; K ranks in a row are a pipeline, and the "  //
      "ranks of the same stage reduce their gradients among themselves")(
      "micro-batches", po::value(&typed.micro_batches)->default_value(1)->value_name("M"), "a divisor of --batch")(
      "schedule", po::value(&typed.schedule)->default_value("gpipe")->value_name("gpipe|1f1b"),
      "all forward passes before all backward passes, or one and one in turn");
  po::options_description split("Layers spread over ranks");
  split.add_options()(
      "split", po::value(&typed.split)->value_name("FORM:G"),
      "the layers of a replica lie on G ranks in a row: spatial (rows of images, with halos), channel, filter (reduce-scatter "
      "and allgather), or tensor (columns and rows of dense layers in turn, with allreduce); --batch is that of the replica");
  network.add(reduction).add(pipeline).add(split);
  return network;
}

std::size_t in_range(const char* option, int64_t value, int64_t low, int64_t high) {
  if (value >= low && value <= high) return static_cast<std::size_t>(value);
  throw UsageError(std::string("--") + option + " " + std::to_string(value) + ": expected " + std::to_string(low) +
                   " to " + std::to_string(high));
}

void in_range(const char* option, double value, double low, double high) {
  if (value >= low && value <= high) return;  // false for nan
  std::ostringstream message;
  message << "--" << option << " " << value << ": expected " << low << " to " << high;
  throw UsageError(message.str());
}

void check_split(Options& options, const Typed& typed) {
  if (typed.split.empty()) return;
  options.split = parse_split(typed.split);
  options.split_word = typed.split;
  if (options.stages > 1 || options.micro_batches > 1)
    throw UsageError("--split: not with --stages or --micro-batches");
  if (options.fixed_ms > 0) throw UsageError("--split: not with --fixed-ms");
}

void check_reduction(Options& options, const Typed& typed) {
  in_range("bucket-mb", options.bucket_mib, 0.0, 4096.0);
  try {
    if (typed.allreduce != "mpi") {
      options.allreduce =
          allreduce::parse_choice(typed.allreduce + (typed.dimensions.empty() ? "" : ":" + typed.dimensions));
    }
  } catch (const std::invalid_argument& error) {
    throw UsageError(std::string("--allreduce ") + error.what());
  }
  const allreduce::Algorithm* algorithm = options.allreduce.algorithm;
  if (!typed.dimensions.empty() && !algorithm) throw UsageError("--dims: only --allreduce multi_ring has dimensions");
  if (typed.segment_kib != 0) {
    if (!algorithm || !algorithm->takes_segment)
      throw UsageError("--segment-kb: only --allreduce segmented_ring has segments");
    options.allreduce.segment_bytes = in_range("segment-kb", typed.segment_kib, 1, 1 << 21) * 1024;
  }
  if (algorithm) options.overlap = false;
}

void check(Options& options, const Typed& typed) {
  if (options.table.empty()) throw UsageError("--table is missing; --list prints what there is");
  in_range("scale", options.scale, 0.0, 1.0);
  in_range("fixed-ms", options.fixed_ms, 0.0, 3.6e6);
  options.batch = in_range("batch", typed.batch, 1, 65536);
  options.steps = in_range("steps", typed.steps, 1, int64_t{1} << 40);
  options.stages = in_range("stages", typed.stages, 1, 65536);
  options.micro_batches = in_range("micro-batches", typed.micro_batches, 1, 65536);
  if (options.batch % options.micro_batches != 0) {
    throw UsageError("--micro-batches " + std::to_string(options.micro_batches) + ": expected a divisor of --batch " +
                     std::to_string(options.batch));
  }
  if (typed.schedule != "gpipe" && typed.schedule != "1f1b") {
    throw UsageError("--schedule '" + typed.schedule + "': expected gpipe or 1f1b");
  }
  check_split(options, typed);
  options.schedule = typed.schedule == "gpipe" ? Schedule::kGpipe : Schedule::k1F1B;
  check_reduction(options, typed);
}

}  // namespace

void check_fit(const Options& options, int ranks, std::size_t layers) {
  const auto total = static_cast<std::size_t>(ranks);
  if (total % options.stages != 0) {
    throw UsageError("--stages " + std::to_string(options.stages) + ": expected a divisor of the " +
                     std::to_string(ranks) + " rank(s)");
  }
  if (total % options.split.ranks != 0) {
    throw UsageError("--split " + options.split_word + ": expected a divisor of the " + std::to_string(ranks) +
                     " rank(s)");
  }
  if (options.stages > layers) {
    throw UsageError("--stages " + std::to_string(options.stages) + ": the network has " + std::to_string(layers) +
                     " layers");
  }
  try {
    allreduce::check_dimensions(options.allreduce, static_cast<int>(total / options.stages / options.split.ranks));
  } catch (const std::invalid_argument& error) {
    throw UsageError(std::string("--dims: ") + error.what());
  }
}

Options parse_options(int argc, const char* const* argv) {
  Options options;
  Typed typed{};
  const po::options_description description = describe(options, typed);
  try {
    options.overlap = !parse_command_line(argc, argv, description)["no-overlap"].as<bool>();
  } catch (const po::error& error) {
    throw UsageError(error.what());
  }
  if (!options.help && !options.list) check(options, typed);
  return options;
}

std::string help_text() {
  Options options;
  Typed typed{};
  std::ostringstream text;
  text
      << "network - data and pipeline parallel training of a network known by its layer table, over MPI\n\n"
         "usage:   mpirun -np P network --table NAME [options]\n"
         "example: mpirun -np 2 network --table resnet50 --scale 0.001 --steps 5\n\n"
      << describe(options, typed)
      << "\nNothing is learned: each layer computes as many multiply-adds as its row says (times --scale; backward twice as many) and "
         "reduces\n"
         "as many gradients of 4 bytes; stages send as many activations. What is done goes to stdout, times go to stderr.\n"
         "Exit codes: 0 good, 1 error, 2 usage.\n";
  return text.str();
}

}  // namespace ddl::network
