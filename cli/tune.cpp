// ddl tune: finds the configuration of a job that is worth it, proves the gain, and leaves the files that carry it
// away.
#include "cli/tune.h"

#include <fmt/format.h>

#include "autotuner/emit.h"
#include "cli/in_run.h"
#include "cli/lint_table.h"
#include "cli/model.h"
#include "cli/open_run.h"
#include "cli/options.h"
#include "cli/output_file.h"
#include "cli/terminal.h"
#include "cli/tune_report.h"
#include "cli/tune_trial.h"
#include "cli/verbs.h"
#include "core/error.h"
#include "reports/html/page.h"
#include "reports/json.h"
#include "reports/text.h"

namespace ddl::cli {
namespace {

constexpr size_t kVerifyRounds = 6;

tune::Metric metric_of(const VerbOptions& options) {
  tune::Metric metric{.pattern = options.get<std::string>("metric"),
                      .file = options.maybe<std::string>("metric-file").value_or(""),
                      .lower_is_better = options.has("lower-is-better")};
  check_pattern(metric);
  return metric;
}

tune::Goal goal_of(const VerbOptions& options) {
  tune::Goal goal;
  goal.target_loss = options.maybe<double>("target-loss");
  const std::string asked = options.maybe<std::string>("goal").value_or("");
  goal.raw_throughput = asked == "throughput";
  goal.elapsed = asked == "elapsed";
  if (options.has("metric")) goal.metric = metric_of(options);
  if (!goal.metric && (options.has("metric-file") || options.has("lower-is-better")))
    throw Error("--metric-file and --lower-is-better need --metric", "--metric 'time: ([0-9.]+)'", ExitCode::kUsage);
  if (goal.target_loss.has_value() + !asked.empty() + goal.metric.has_value() > 1)
    throw Error("--goal, --target-loss and --metric exclude each other", "choose one", ExitCode::kUsage);
  return goal;
}

std::vector<LaneHosts> lanes_asked(const VerbOptions& options) {
  if (!options.has("parallel") && !options.has("hosts")) return {};
  const int64_t lanes = options.maybe<int64_t>("parallel").value_or(1);
  if (lanes < 1) throw Error("--parallel must be at least 1", "", ExitCode::kUsage);
  if (lanes > 1 && options.has("metric-file"))
    throw Error("--metric-file and --parallel exclude each other: parallel trials would write the same file",
                "let the job print the number", ExitCode::kUsage);
  return lanes_of(options.maybe<std::string>("hosts"), static_cast<size_t>(lanes));
}

TuneRequest request_of(const VerbOptions& options, std::vector<std::string> command) {
  TuneRequest request{.command = std::move(command), .directory = options.get<std::string>("output")};
  if (options.has("tunable"))
    for (const std::string& text : options.get<std::vector<std::string>>("tunable"))
      request.tunables.push_back(tune::parse_tunable(text, request.command));
  request.lanes = lanes_asked(options);
  for (tune::JobTunable& tunable : tune::tunables_of_command(request.command, request.tunables, !request.lanes.empty()))
    request.tunables.push_back(std::move(tunable));
  tune::refuse_secrets(request.command, request.tunables);
  request.max_global_batch = options.maybe<int64_t>("max-global-batch");
  if (options.has("max-memory")) request.max_memory = parse_bytes(options.get<std::string>("max-memory"));
  request.budget_s = parse_duration(options.get<std::string>("budget"));
  request.trials = options.maybe<size_t>("trials");
  request.goal = goal_of(options);
  request.seed = options.get<uint64_t>("seed");
  request.stated = stated_by_user(options);
  return request;
}

/// Files, report, and what is printed.
void leave(const TuneRequest& request, const Tuning& tuning, bool json) {
  const reports::Document whole = tune_document(request, tuning, true);
  const tune::Tuned tuned = tuned_of(request, tuning);
  const std::vector<tune::EmittedFile> files = tune::emit(tuned, request.directory);
  write_output((request.directory / "report.html").string(), reports::html::render_page(whole, tune_figures(tuning)),
               Readers::kOwner, NamedBy::kFolder);
  write_output((request.directory / "report.json").string(), reports::render_json(whole), Readers::kOwner,
               NamedBy::kFolder);
  print_out(json ? reports::render_json(whole)
                 : reports::render_text(tune_document(request, tuning, false), output_options()));
  for (const std::string& note : tune::overridden_by_rules(tuned)) print_note(note);
  print_note(fmt::format("{} files and report.html in {}", files.size(), shown_path(request.directory)));
}

/// The job goes on with what won, and we with it: it is ours to end by Ctrl-C.
int tune_and_go_on(const TuneRequest& request, bool json, bool end_job) {
  std::unique_ptr<InRun> run;
  const Tuning tuning = tune_in_run(request, run);
  leave(request, tuning, json);
  if (run->hangs()) {
    print_note(fmt::format("the job hangs, and is ended; its output is in {}", shown_path(run->output())));
    run->end_job();
  }
  if (run->has_ended() || run->is_over()) return run->wait_for_end().shell_code();
  if (end_job) {
    run->end_job();
    return 0;
  }
  print_note(fmt::format("the job goes on with {}; see it with: ddl top {}", tuning.space.words(tuning.result.winner),
                         shown_path(run->recording())));
  return run->wait_for_end().shell_code();
}

}  // namespace

int run_tune(const Arguments& arguments) {
  VerbOptions options(
      {.verb = "tune",
       .usage = "[options] -- COMMAND [ARGUMENT...]",
       .text =
           "Makes a job faster: finds values for {placeholders} of COMMAND and algorithms for its collectives, proves the gain against the\n"
           "defaults in rounds of its own, and writes config files for Open MPI, NCCL, Horovod, PyTorch, DeepSpeed, MPICH and Slurm. Where\n"
           "the confidence interval includes no gain, the default is kept. {batch}, {bucket_mb} and {micro_batches} have values of their\n"
           "own; the first value of a tunable is what the job runs with today. Every trial is in DIR/tune.sqlite: the same command\n"
           "continues an interrupted tuning.",
       .example =
           "  ddl tune -o tuned -- mpirun -np 4 ./train --steps 30 --batch {batch} --bucket-mb {bucket_mb}\n"
           "  ddl tune --tunable workers=2,1,4 --budget 5m -- mpirun -np 4 ./train --workers {workers}\n"
           "  ddl tune --tunable NCCL_ALGO=unset,Ring,Tree -- mpirun -np 8 ./job\n"
           "  ddl tune --metric 'images/sec: ([0-9.]+)' --tunable HOROVOD_CYCLE_TIME=1,2.5,5 -- mpirun -np 4 python3 job.py\n"
           "  ddl tune --parallel 4 --hosts n1:8,n2:8,n3:8,n4:8 -- mpirun -np 8 ./train --batch {batch}\n"
           "  ddl tune --in-run --tunable cycle_ms=1,2.5,5,10 -- mpirun -np 4 ./job --cycle-ms {cycle_ms}\n"
           "  ddl tune --apply tuned -- mpirun -np 4 ./train --steps 1000 --batch {batch} --bucket-mb {bucket_mb}\n"
           "  ddl tune --verify tuned                                  # exit code 4: not used, or no better"});
  options.add()("output,o", takes<std::string>("DIR", "tuned"), "directory for files, report and trials")(
      "tunable", takes<std::vector<std::string>>("NAME=A,B,..."),
      "values to try, for {NAME} in the command, else for the environment variable NAME; may be repeated")(
      "seed", takes<uint64_t>("N", 1), "seed of the order of trials")(
      "state", takes<std::string>("KEY=VALUE,..."),
      "what is known about how the numbers were got, as in ddl scaling (LINT-01 to LINT-12)")(
      "json", "print the report for programs");
  options.add("goal")(
      "goal", takes<std::string>("GOAL"),
      "efficiency (default; with --verify what DIR was tuned for): samples per second, each worth what the gradient noise "
      "scale says; throughput: samples per second; elapsed: the time from MPI_Init to MPI_Finalize")(
      "target-loss", takes<double>("X"), "the time until the reported loss is X")(
      "metric", takes<std::string>("REGEX"),
      "the number in the first parentheses of REGEX in the job's output, median of all matches; higher is better")(
      "metric-file", takes<std::string>("FILE"), "with --metric: read FILE, which the job writes")(
      "lower-is-better", "with --metric: it is a time");
  options.add("limits")("budget", takes<std::string>("TIME", "10m"),
                        "time for the tuning: 90s, 10m, 1h; with --verify: for a default job that may hang")(
      "trials", takes<size_t>("N"), "at most N trials")("max-global-batch", takes<int64_t>("N"),
                                                        "at most N samples a step, all ranks together")(
      "max-memory", takes<std::string>("SIZE"),
      "memory of a rank, such as 16GiB, on GPUs if there are any: the need of larger batches is predicted from the peaks of two trials");
  options.add("how trials run")(
      "in-run",
      "between the steps of one run of a job that reads DDL_TUNE_FILE (ddl/annotate.h, ddl_annotate.py), which then goes on with the "
      "winner; also with --verify")("end-job", "with --in-run: end the job once it is tuned")(
      "parallel", takes<int64_t>("N"),
      "N rounds at a time, each on nodes of its own out of the Slurm allocation or --hosts; what is compared runs on the same nodes")(
      "hosts", takes<std::string>("A,B:SLOTS,..."),
      "nodes for trials: given to mpirun as --host, to srun as --nodelist, else in place of {hosts}");
  options.add("use a tuning")("apply", takes<std::string>("DIR"), "run COMMAND with the winner's values from DIR")(
      "verify", takes<std::string>("DIR"),
      "measure default and tuned again, interleaved, and prove that the files are in force")(
      "rounds", takes<size_t>("N", kVerifyRounds), "rounds of --verify");
  options.one_of("goal", {"efficiency", "throughput", "elapsed"});
  std::vector<std::string> command;
  if (!options.parse_with_command(arguments, command)) return 0;
  if (options.has("apply") && options.has("verify"))
    throw Error("--apply and --verify exclude each other", "choose one", ExitCode::kUsage);
  if (options.has("parallel") && (options.has("apply") || options.has("verify")))
    throw Error("--parallel is for tuning: --apply and --verify run one job at a time", "leave it out",
                ExitCode::kUsage);
  if (options.has("end-job") && (!options.has("in-run") || options.has("verify") || options.has("apply")))
    throw Error("--end-job needs a tuning with --in-run", "leave it out", ExitCode::kUsage);
  if (options.has("apply") && options.has("in-run"))
    throw Error("--in-run and --apply exclude each other: --apply starts the job with the tuned values", "leave it out",
                ExitCode::kUsage);
  const auto hosts = [&] { return options.has("hosts") ? lanes_asked(options).front() : LaneHosts(); };
  if (options.has("verify"))
    return verify_tuned(options.get<std::string>("verify"), command, options.get<size_t>("rounds"),
                        options.has("goal") || options.has("target-loss") || options.has("metric")
                            ? std::optional(goal_of(options))
                            : std::nullopt,
                        hosts(), options.has("in-run"), parse_duration(options.get<std::string>("budget")));
  if (command.empty())
    throw Error("no command given", "ddl tune -- mpirun -np 4 ./train --batch {batch}", ExitCode::kUsage);
  if (options.has("apply")) return apply_tuned(options.get<std::string>("apply"), command, hosts());

  const TuneRequest request = request_of(options, command);
  if (options.has("in-run")) return tune_and_go_on(request, options.has("json"), options.has("end-job"));
  leave(request, tune_job(request), options.has("json"));
  return 0;
}

}  // namespace ddl::cli
