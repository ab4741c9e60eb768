// ddl model: which sub-models there are.
#include "cli/model.h"

#include <fmt/format.h>

#include "cli/terminal.h"
#include "cli/verbs.h"
#include "core/error.h"

namespace ddl::cli {
namespace {

constexpr SubModel kModels[] = {
    {"model allreduce", "what does an allreduce cost by each algorithm, and on which plan of rings?",
     "  ddl model allreduce --ranks 16 --bytes 100MB --alpha-us 5 --bandwidth 12.5 --reduce 100\n"
     "  ddl model allreduce slow.ddl --bytes 1MiB,64MiB          # with the run's own latency and bandwidth\n"
     "  ddl model allreduce --ranks 256 --per-node 4 --bytes 100MB --alpha-us 10 --bandwidth 12.5 --inner-alpha-us 3 --inner-bandwidth 80",
     model_allreduce},
    {"model fit", "which latency and bandwidth do the transfer times of a run show?",
     "  ddl model fit slow.ddl\n"
     "  ddl model fit --csv allreduce.csv --ranks 8              # columns bytes, time_us",
     model_fit},
};

std::string overview() {
  std::string text =
      "usage: ddl model QUESTION [RUN] [options]       ddl model QUESTION --help for its options and examples\n\n"
      "What would happen if: formulas with published sources, from the numbers of a recorded run or from the command line alone.\n"
      "Text, or --json. What a model leaves out it says; measure before you decide.\n\n";
  for (const SubModel& model : kModels) {
    const std::string_view examples = model.example;
    text += fmt::format("  {:<12} {}\n{:15}{}\n", model.name(), model.summary, "", examples.substr(2, examples.find('\n') - 2));
  }
  text += "\nexample:\n" + std::string(kModels[0].example) + "\n";
  return text;
}

}  // namespace

VerbOptions model_options(std::string_view name, std::string_view usage, std::string_view text) {
  for (const SubModel& model : kModels) {
    if (model.name() != name) continue;
    VerbOptions options({.verb = model.verb, .usage = usage, .text = text, .example = model.example});
    options.add()("json", "for programs")("world", boost::program_options::value<int64_t>()->value_name("N"),
                                          "of a run: which MPI_COMM_WORLD, if there are several");
    options.allow_words(1);
    return options;
  }
  throw Error(fmt::format("no model '{}'", name));
}

int run_model(const Arguments& arguments) {
  if (arguments.empty()) throw Error("which question?", "see: ddl model --help", ExitCode::kUsage);
  const std::string& word = arguments[0];
  if (word == "--help" || word == "-h" || word == "help") {
    print_out(overview());
    return 0;
  }
  std::vector<std::string> names;
  for (const SubModel& model : kModels) {
    if (word == model.name()) return model.run({arguments.begin() + 1, arguments.end()});
    names.emplace_back(model.name());
  }
  throw Error(fmt::format("unknown model '{}'", word), did_you_mean(word, names, "see: ddl model --help"), ExitCode::kUsage);
}

}  // namespace ddl::cli
