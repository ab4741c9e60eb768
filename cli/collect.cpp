// ddl collect: the commands that bring a run together whose hosts or pods share no disk. It prints them and starts
// nothing.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "cli/model.h"
#include "cli/open_run.h"
#include "cli/options.h"
#include "cli/terminal.h"
#include "cli/verbs.h"
#include "core/error.h"
#include "store/text.h"

namespace fs = std::filesystem;

namespace ddl::cli {
namespace {

/// A host or a pod, as ssh, rsync and kubectl take it: never an option, nothing for a shell.
bool is_host(const std::string& name) {
  const auto plain = [](unsigned char c) { return isalnum(c) || c == '_'; };
  const auto inner = [&](unsigned char c) { return plain(c) || c == '.' || c == '-' || c == '@'; };
  return !name.empty() && plain(static_cast<unsigned char>(name[0])) && std::all_of(name.begin(), name.end(), inner);
}

std::vector<std::string> hosts_of(const std::optional<std::string>& list) {
  if (!list)
    throw Error("--from is missing", "name the hosts or pods that hold a part of the run: --from node1,node2",
                ExitCode::kUsage);
  std::vector<std::string> hosts = split_list(*list);
  for (const std::string& host : hosts)
    if (!is_host(host))
      throw Error(fmt::format("--from: invalid host '{}'", host), "separate names by commas: --from node1,node2",
                  ExitCode::kUsage);
  if (hosts.empty())
    throw Error("--from names no host", "separate names by commas: --from node1,node2", ExitCode::kUsage);
  return hosts;
}

}  // namespace

int run_collect(const Arguments& arguments) {
  VerbOptions options(
      {.verb = "collect",
       .usage = "RUN --from HOST,... [options]",
       .text =
           "Prints the commands that gather a run in the folder RUN, here, from hosts or pods that share no disk\n"
           "and hold the files of their own ranks. It runs none of them: read them, then pipe them into a shell.\n"
           "They fetch the records of processes (*.spool), again if they are here already, and job.json if there is\n"
           "none yet.",
       .example = "  ddl collect /local/job.ddl --from node2,node3 | sh\n"
                  "  ddl collect job.ddl --from train-master-0,train-worker-0 --by kubectl --at /runs/job.ddl"});
  options.add()("from", takes<std::string>("HOST,..."), "hosts, user@host, or pods that hold a part of the run")(
      "by", takes<std::string>("NAME", "ssh"), "how to reach them: ssh, rsync or kubectl")(
      "at", takes<std::string>("FOLDER"), "its folder there (default: as here)")(
      "namespace", takes<std::string>("NAME"), "namespace of the pods")("container", takes<std::string>("NAME"),
                                                                        "container of the pods that holds it");
  options.one_of("by", {"ssh", "rsync", "kubectl"});
  options.allow_words(1);
  if (!options.parse(arguments)) return 0;
  if (options.words().empty())
    throw Error("no run given", "name the folder to collect it into: ddl collect job.ddl --from node1,node2",
                ExitCode::kUsage);
  const std::string by = options.get<std::string>("by");
  const std::vector<std::string> hosts = hosts_of(options.maybe<std::string>("from"));
  std::string pod_options;
  for (const char* name : {"namespace", "container"}) {
    const auto value = options.maybe<std::string>(name);
    if (value && by != "kubectl")
      throw Error(fmt::format("--{} is for --by kubectl", name), "leave it out", ExitCode::kUsage);
    if (value && !is_host(*value))
      throw Error(fmt::format("--{}: invalid name '{}'", name, *value), "give a name as kubectl takes it",
                  ExitCode::kUsage);
    if (value) pod_options += fmt::format(" --{}={}", name, *value);
  }

  const fs::path here = options.words()[0];
  const std::string run = shell_quoted(shown_path(here));
  const std::string there = options.maybe<std::string>("at").value_or(fs::absolute(here).lexically_normal().string());
  std::error_code ignored;
  bool with_job = !fs::exists(here / "job.json", ignored);
  std::string text = fs::is_directory(here, ignored) ? "" : fmt::format("mkdir -p -m 700 {}\n", run);
  for (const std::string& host : hosts) {
    if (by == "rsync") {
      const std::string from = shell_quoted(fmt::format("{}:{}/", host, there));
      text += fmt::format("rsync -t -s --include='*.spool' {}--exclude='*' -r {} {}/\n",
                          with_job ? "--include=job.json " : "", from, run);
    } else {
      const std::string pack = shell_quoted(fmt::format("cd {} && tar -cf - $(ls *.spool{} 2>/dev/null)",
                                                        shell_quoted(there), with_job ? " job.json" : ""));
      const std::string reach = by == "ssh" ? fmt::format("ssh {} {}", host, pack)
                                            : fmt::format("kubectl exec{} {} -- sh -c {}", pod_options, host, pack);
      text += fmt::format("{} | tar -xf - -C {}\n", reach, run);
    }
    with_job = false;  // the first one's: others began their own
  }
  print_out(text + fmt::format("ddl report {}\n", run));
  return 0;
}

}  // namespace ddl::cli
