#include "cli/verbs.h"

#include <fmt/format.h>

#include <exception>
#include <new>

#include "cli/model.h"
#include "cli/terminal.h"
#include "core/error.h"

namespace ddl::cli {
namespace {

constexpr Verb kVerbs[] = {
    {"record", "run a job and record where its time goes", run_record},
    {"report", "what to fix, and the numbers behind it", run_report},
    {"top", "watch a running job: who is late, who waits, where the step goes", run_top},
    {"query", "query a recorded run in SQL", run_query},
    {"analyze", "compute the metrics of a run again, or one of them", run_analyze},
    {"merge", "join the parts of a run that several processes analyzed", run_merge},
    {"diff", "what changed from one run to another, with a gate for scripts", run_diff},
    {"goodput", "where the wall time of a job and its restarts went, lost steps, price", run_goodput},
    {"history", "many runs in one database: what got slower since when, which hosts are slow", run_history,
     history_questions},
    {"scaling", "speed-up and efficiency of several runs, or of a table", run_scaling},
    {"model", "what if: costs of allreduce, fusion, pipelines, batches, from a run or from numbers", run_model,
     model_questions},
    {"tune", "find a faster batch, bucket and algorithm, prove the gain, write config files", run_tune},
    {"import", "make a run from the traces of another tool", run_import},
    {"export", "write a run for other programs: traces, tables, flame graphs, Prometheus", run_export},
    {"collect", "print the commands that gather a run from hosts without a shared disk", run_collect},
    {"mcp", "answer agents and editors about runs (Model Context Protocol)", run_mcp},
    {"doctor", "check this machine, or a recording", run_doctor},
    {"completion", "print a script that completes command lines in bash, zsh or fish", run_completion},
    {"manual", "print the manual page, for man(1)", run_manual},
};

std::string verbs_overview() {
  std::string text =
      "ddl - where the time of a distributed training job goes\n\n"
      "usage: ddl VERB [options]       ddl VERB --help for its options and an example\n\n";
  for (const Verb& verb : kVerbs) text += fmt::format("  {:<10} {}\n", verb.name, verb.summary);
  text +=
      "\nRUN is a recorded directory, NAME.ddl; without it the newest *.ddl here.\n\n"
      "example:\n"
      "  ddl record -- mpirun -np 2 ./train --steps 50\n"
      "  ddl report\n";
  return text;
}

int dispatch(const Arguments& arguments) {
  if (arguments.empty()) throw Error("no verb given", "see: ddl --help", ExitCode::kUsage);
  const std::string& word = arguments[0];
  if (word == "--help" || word == "-h" || word == "help") {
    print_out(verbs_overview());
    return 0;
  }
  if (word == "--version" || word == "-V") {
    print_out("ddl " DDL_VERSION "\n");
    return 0;
  }
  if (word == "__complete") return run_complete({arguments.begin() + 1, arguments.end()});
  std::vector<std::string> names;
  for (const Verb& verb : kVerbs) {
    if (word == verb.name) return verb.run({arguments.begin() + 1, arguments.end()});
    names.emplace_back(verb.name);
  }
  throw Error(fmt::format("unknown {} '{}'", word.starts_with('-') ? "option" : "verb", word),
              did_you_mean(word, names, "see: ddl --help"), ExitCode::kUsage);
}

}  // namespace

std::span<const Verb> verbs() { return kVerbs; }

CommandTable command_table(const Verb& verb, const std::string& question) {
  HelpReader reader;
  verb.run(question.empty() ? Arguments{"--help"} : Arguments{question, "--help"});
  return std::move(reader.tables.at(0));
}

std::vector<CommandTable> command_tables() {
  std::vector<CommandTable> tables;
  for (const Verb& verb : kVerbs)
    for (const std::string& question : verb.questions == nullptr ? std::vector<std::string>{""} : verb.questions())
      tables.push_back(command_table(verb, question));
  return tables;
}

int run_ddl(const Arguments& arguments) {
  try {
    return dispatch(arguments);
  } catch (const Error& error) {
    print_note(fmt::format("error: {}", error.what()));
    if (!error.hint().empty()) print_note(fmt::format("hint: {}", error.hint()));
    return static_cast<int>(error.code());
  } catch (const std::bad_alloc&) {
    print_note("error: out of memory");
  } catch (const std::exception& error) {
    print_note(fmt::format("error: {}", error.what()));
  }
  return static_cast<int>(ExitCode::kOurs);
}

}  // namespace ddl::cli
