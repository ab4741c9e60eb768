// ddl model: which sub-models there are.
#include "cli/model.h"

#include <fmt/format.h>

#include "cli/terminal.h"
#include "cli/verbs.h"
#include "core/error.h"

namespace ddl::cli {
namespace {

// By kind; the first row of a kind names it.
constexpr SubModel kModels[] = {
    {"model allreduce", "links", "what does an allreduce cost by algorithm, and on which plan of rings?",
     "  ddl model allreduce --ranks 16 --bytes 100MB --alpha-us 5 --bandwidth 12.5 --reduce 100\n"
     "  ddl model allreduce slow.ddl --bytes 1MiB,64MiB   # with the run's own latency and bandwidth\n"
     "  ddl model allreduce --tiers 4:80:3,64:12.5:10 --bytes 100MB   # rings on hosts of four GPUs\n"
     "  ddl model allreduce --tiers 4:80:3,48:12.5:10 --bytes 102MB --compute-ms 150 --learners 4,16,64",
     model_allreduce},
    {"model fit", "links", "which latency and bandwidth do the transfer times of a run show?",
     "  ddl model fit slow.ddl\n"
     "  ddl model fit --csv allreduce.csv --ranks 8              # columns bytes, time_us",
     model_fit},
    {"model mapping", "links", "which rank should sit where?",
     "  ddl model mapping --links links.csv --traffic traffic.csv   # columns from, to, gb_per_s or bytes\n"
     "  ddl model mapping halo.ddl --links links.csv\n"
     "  ddl model mapping job.ddl --links topology.conf --host topo.txt --emit placed",
     model_mapping},
    {"model links", "links", "what do links carry, in each direction?", "  ddl model links --bytes 100MB", model_links},
    {"model fusion", "gradients", "how large should gradient buckets be, and what would overlap give?",
     "  ddl model fusion slow.ddl\n"
     "  ddl model fusion slow.ddl --table resnet50 --rule ddp --sweep sweep.csv\n"
     "  ddl model fusion --tensors tensors.csv --backward-ms 120 --ranks 16 --alpha-us 20 --bandwidth 1.25",
     model_fusion},
    {"model compression", "gradients", "what would compressed gradients give the whole step?",
     "  ddl model compression --fraction 0.51 --speedup 2,3.31,8\n"
     "  ddl model compression --speedup 3.31 --whole 1.55        # which share of communication is that?\n"
     "  ddl model compression --table vgg16 --ranks 8 --batch 32   # what each code sends, layer by layer\n"
     "  ddl model compression slow.ddl",
     model_compression},
    {"model consistency", "gradients", "what would asynchronous, stale, local or gossiping updates give?",
     "  ddl model consistency slow.ddl\n"
     "  ddl model consistency slow.ddl --rules sync,ssp:2,async,async:4,partial:1\n"
     "  ddl model consistency --compute-ms 10,10,10,14 --transfer-ms 3 --bytes 100MB --rules sync,gossip",
     model_consistency},
    {"model parallel", "layers", "samples, rows, channels, filters, tensors or stages: what is fastest?",
     "  ddl model parallel --table resnet50 --ranks 16\n"
     "  ddl model parallel --table vgg16 --ranks 4 --batch 32 --form spatial --bandwidth 12.5\n"
     "  ddl model parallel --table gpt2_xl --ranks 16 --batch 16 --memory 16GB --optimizer adam\n"
     "  ddl model parallel job.ddl --table resnet50 --ranks 16",
     model_parallel},
    {"model partition", "layers", "where should a pipeline be cut?",
     "  ddl model partition --profile vgg16.csv --stages 2,4,8\n"
     "  ddl model partition --profile vgg16.csv --workers 16 --bandwidth 1.25\n"
     "  ddl model partition --table gpt2_small --batch 8 --tflops 50 --workers 8 --bandwidth 12.5\n"
     "  ddl model partition slow.ddl --stages 4",
     model_partition},
    {"model pipeline", "layers", "what would M micro-batches do to the bubble?",
     "  ddl model pipeline --stages 4 --micro-batches 4,8,16,32\n"
     "  ddl model pipeline pipe.ddl --micro-batches 8,16\n"
     "  ddl model pipeline -p 4 -m 8 --forward-ms 10 --backward-ms 10 --weight-ms 8",
     model_pipeline},
    {"model microbatch", "layers", "which micro-batches fit the workspace?",
     "  ddl model microbatch --csv kernels.csv --batch 256\n"
     "  ddl model microbatch --csv kernels.csv --batch 256 --workspace 64MiB",
     model_microbatch},
    {"model memory", "layers", "how much memory does each layer need?",
     "  ddl model memory --table resnet50 --batch 32 --optimizer adam\n"
     "  ddl model memory --profile vgg16.csv --batch-factor 0.5",
     model_memory},
    {"model limits", "batch", "which limits of data parallelism has the job reached?",
     "  ddl model limits slow.ddl --safe-batch 8192\n"
     "  ddl model limits --ranks 512 --global-batch 256 --memory 80GB --sample-memory 1.2GB",
     model_limits},
    {"model largebatch", "batch", "which learning rate, warm-up and optimiser does a larger batch ask for?",
     "  ddl model largebatch --base-batch 256 --rate 0.1 --batch 8192,16384 --network resnet50\n"
     "  ddl model largebatch slow.ddl --batch 1024",
     model_largebatch},
    {"model epochs", "batch", "how many epochs will a larger batch need?",
     "  ddl model epochs --csv epochs.csv --batch 4096,32768", model_epochs},
    {"model dataset", "batch", "how much more data would a smaller error need?",
     "  ddl model dataset --csv errors.csv --error 0.1,0.05      # columns samples, error", model_dataset},
    {"model whatif", "whole job", "what if the network were faster, a rank healthy, the batch larger?",
     "  ddl model whatif slow.ddl\n"
     "  ddl model whatif slow.ddl --network 4 --healthy 3 --batch 2\n"
     "  ddl model whatif gpus.ddl --operator gemm --scale 0.5",
     model_whatif},
    {"model train", "whole job", "how long does training take, and what does it cost?",
     "  ddl model train --samples 1.2e6 --batch 32 --step-ms 300 --epochs 100 --machines 4 --price 3.06\n"
     "  ddl model train slow.ddl --samples 1281167 --epochs 90",
     model_train},
    {"model fleet", "whole job", "how much data does a fleet collect, and how long do machines train on it?",
     "  ddl model fleet --cars 100 --share 0.0005 --machine-tb-per-day 0.6265 --machines 1,10", model_fleet},
};

// One screen: 24 lines of 100.
std::string overview() {
  std::string text =
      "usage: ddl model QUESTION [RUN] [options]        ddl model QUESTION --help: its options, examples\n\n";
  std::string_view kind;
  for (const SubModel& model : kModels) {
    text += fmt::format("  {:<10} {:<12} {}\n", model.kind == kind ? "" : model.kind, model.name(), model.summary);
    kind = model.kind;
  }
  const std::string_view examples = kModels[0].example;
  return text + "\nexample:\n" + std::string(examples.substr(0, examples.find('\n') + 1));
}

}  // namespace

VerbOptions model_options(std::string_view name, std::string_view usage, std::string_view text) {
  for (const SubModel& model : kModels) {
    if (model.name() != name) continue;
    VerbOptions options({.verb = model.verb, .usage = usage, .text = text, .example = model.example});
    options.add()("json", "for programs");
    if (usage.find("RUN") == std::string_view::npos) {
      options.one_row({"help", "json"}, "this text; for programs");
      return options;
    }
    options.add()("world", takes<int64_t>("N"), "of a run: which MPI_COMM_WORLD, if there are several");
    options.one_row({"help", "json", "world"}, "this text; for programs; which MPI_COMM_WORLD of RUN");
    options.allow_words(1);
    return options;
  }
  throw Error(fmt::format("no model '{}'", name));
}

std::vector<std::string> model_questions() {
  std::vector<std::string> names;
  for (const SubModel& model : kModels) names.emplace_back(model.name());
  return names;
}

int run_model(const Arguments& arguments) {
  if (arguments.empty()) throw Error("no question given", "see: ddl model --help", ExitCode::kUsage);
  const std::string& word = arguments[0];
  if (word == "--help" || word == "-h" || word == "help") {
    print_out(overview());
    return 0;
  }
  for (const SubModel& model : kModels)
    if (word == model.name()) return model.run({arguments.begin() + 1, arguments.end()});
  throw Error(fmt::format("unknown model '{}'", word), did_you_mean(word, model_questions(), "see: ddl model --help"),
              ExitCode::kUsage);
}

}  // namespace ddl::cli
