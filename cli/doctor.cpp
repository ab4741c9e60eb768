// ddl doctor: is this machine fit for recording, and what does a recording hold?
#include "cli/doctor.h"

#include <fmt/format.h>

#include "analyzer/query.h"
#include "cli/open_run.h"
#include "cli/options.h"
#include "cli/terminal.h"
#include "cli/verbs.h"
#include "core/error.h"
#include "reports/format.h"
#include "reports/safe_text.h"
#include "store/job.h"

namespace ddl::cli {
namespace {

using State = Check::State;

const char* word(State state) { return state == State::kOk ? "ok" : state == State::kOff ? "off" : "problem"; }

// Prints all; true if none is a problem.
bool print_checks(const std::vector<Check>& checks) {
  std::string text;
  bool good = true;
  for (const Check& check : checks) {
    good = good && check.state != State::kProblem;
    text += fmt::format("{:<8} {:<12} {}\n", word(check.state), check.what, reports::printable(check.detail));
    if (!check.hint.empty()) text += fmt::format("{:<8} {:<12} hint: {}\n", "", "", reports::printable(check.hint));
  }
  print_out(text);
  return good;
}

Check source(SQLite::Database& db, const char* what, const char* sql, const char* noun, const char* hint) {
  Query row(db, sql);
  const int64_t number = row.next() ? row.integer(0) : 0;
  return {.state = number > 0 ? State::kOk : State::kOff,
          .what = what,
          .detail = reports::plural(number, noun),
          .hint = number > 0 ? "" : hint};
}

Check check_nccl(SQLite::Database& db) {
  const auto number = [&](const char* sql) { return db.execAndGet(sql).getInt64(); };
  const int64_t by_cupti = number("SELECT count(*) FROM nccl_collective WHERE source = 'kernel'");
  const int64_t by_nccl = number("SELECT count(*) FROM nccl_collective WHERE source = 'profiler'");
  std::string sources;
  for (Query row(db, "SELECT DISTINCT value FROM process_fact WHERE key = 'nccl.source' ORDER BY value"); row.next();)
    sources += (sources.empty() ? "" : ", ") + row.text(0);
  std::string cost;
  if (Query row(db, "SELECT max(value) FROM process_fact WHERE key = 'nccl'");
      by_nccl > 0 && row.next() && !row.is_null(0))
    cost = nccl_timing_cost(row.text(0));
  return {.state = by_cupti + by_nccl > 0 ? State::kOk : State::kOff,
          .what = "NCCL",
          .detail = fmt::format(
              "{}; collectives timed by CUPTI: {}, by NCCL's profiler: {}; sources: {}",
              reports::plural(number("SELECT coalesce(sum(calls), 0) FROM v_call WHERE op LIKE 'nccl%'"), "call"),
              by_cupti, by_nccl, sources.empty() ? "none" : sources),
          .hint = by_cupti + by_nccl > 0
                      ? cost
                      : "no times: CUPTI traced no kernels, and NCCL's profiler plugin (2.27 and later) was not ours"};
}

std::vector<Check> check_run(SQLite::Database& db) {
  std::vector<Check> checks;
  Query gloo(db, "SELECT value FROM meta WHERE key = ?1");
  gloo.bind(kGlooFact);
  const bool imported = db.execAndGet("SELECT count(*) FROM meta WHERE key = 'imported_from'").getInt() > 0;
  const auto of_recording = [&](const char* hint) { return imported ? "" : hint; };
  const std::string by_gloo =
      gloo.next() ? fmt::format("this job communicates through Gloo ({}): {}", gloo.text(0), kGlooHint) : std::string();
  checks.push_back(source(db, "processes", "SELECT count(*) FROM process", "process",
                          of_recording("was the job started by ddl record?")));
  if (Query row(
          db,
          "SELECT count(DISTINCT rank), max(world_size), world FROM process WHERE rank IS NOT NULL GROUP BY world ORDER BY 1 DESC LIMIT 1");
      !row.next())
    checks.push_back({.state = by_gloo.empty() ? State::kProblem : State::kOff,
                      .what = "ranks",
                      .detail = "no process left MPI_Init",
                      .hint = by_gloo.empty() ? "is the job linked with Open MPI, and not statically?" : by_gloo});
  else
    checks.push_back(
        {.state = row.integer(0) == row.integer(1) ? State::kOk : State::kProblem,
         .what = "ranks",
         .detail = fmt::format("{} of {}", row.integer(0), row.integer(1)),
         .hint = row.integer(0) == row.integer(1)
                     ? ""
                     : of_recording("on several hosts all must see the same run directory (a shared disk)")});
  checks.push_back(source(db, "MPI", "SELECT coalesce(sum(calls), 0) FROM v_call", "call",
                          by_gloo.empty() ? of_recording("no MPI call was completed") : by_gloo.c_str()));
  if (Query any(db, "SELECT 1 FROM op WHERE name LIKE 'nccl%' LIMIT 1"); any.next()) {
    checks.push_back(check_nccl(db));
    if (imported) checks.back().hint.clear();  // CUPTI and NCCL's profiler were another tool's
  }
  checks.push_back(source(db, "events",
                          imported ? "SELECT (SELECT count(*) FROM event) + (SELECT count(*) FROM gpu_event)"
                                     " + (SELECT count(*) FROM range_event) + (SELECT count(*) FROM flight_entry)"
                                   : "SELECT count(*) FROM event",
                          "event", of_recording("the window kept none: ddl record without --steps, --after")));
  checks.push_back(source(db, "steps", "SELECT count(DISTINCT step) FROM step", "step",
                          "mark them: ddl_step_begin(k) of ddl/annotate.h, or step(k) of ddl_annotate.py"));
  checks.push_back(
      source(db, "layers", "SELECT count(DISTINCT layer) FROM region WHERE layer IS NOT NULL", "layer",
             "mark them: ddl_layer_begin(name) of ddl/annotate.h, layer(name) of ddl_annotate.py, or NVTX ranges"));
  for (
      Query row(
          db,
          "SELECT value, count(DISTINCT process) FROM process_fact WHERE key = 'torch.hooks' GROUP BY value ORDER BY value");
      row.next();) {
    const std::string value = row.text(0), processes = reports::plural(row.integer(1), "process");
    const bool is_whole = value != "none" && value.find("; without ") == std::string::npos;
    checks.push_back(
        {.state = is_whole ? State::kOk : State::kOff,
         .what = "torch",
         .detail = value == "none"
                       ? fmt::format("not hooked in {}: no steps, layers and phases by themselves", processes)
                       : fmt::format("hooked in {}: {}", processes, value),
         .hint =
             is_whole ? ""
             : value == "none"
                 ? "ddl record --no-python, python -I, -S or -E, a frozen program, or one that replaces sys.meta_path or PYTHONPATH"
             : value.ends_with("; without its RPC")
                 ? "nothing is missing if RPC (TensorPipe) does not matter: waiting for its answers is idle time"
                 : "this torch is not known to this version of ddl"});
  }
  if (Query row(db, "SELECT value, count(DISTINCT process) FROM process_fact WHERE key = 'torch.steps' GROUP BY value");
      row.next())
    checks.push_back({.state = State::kOk,
                      .what = "torch",
                      .detail = fmt::format("{}, in {}", row.text(0), reports::plural(row.integer(1), "process"))});
  if (Query row(db,
                "SELECT substr(key, 6), min(value), count(*) FROM process_fact WHERE key LIKE 'held.%' GROUP BY key");
      row.next())
    do
      checks.push_back({.state = State::kOff,
                        .what = row.text(0),
                        .detail = fmt::format("not recorded in {}: {} was there first",
                                              reports::plural(row.integer(2), "process"), row.text(1)),
                        .hint = "another tool has set the variable by which it would be found: unset it"});
    while (row.next());
  checks.push_back(source(db, "values", "SELECT count(*) FROM value", "value",
                          "ddl_value(\"samples\", n), value() of ddl_annotate.py, gives the throughput"));
  if (Query row(db, "SELECT kind, count, note FROM loss"); row.next()) do
      checks.push_back({.state = State::kOff,
                        .what = "missing",
                        .detail = fmt::format("{}: {} {}", row.text(0), row.integer(1), row.text(2))});
    while (row.next());
  else
    checks.push_back({.state = State::kOk, .what = "missing", .detail = "nothing"});
  return checks;
}

}  // namespace

int run_doctor(const Arguments& arguments) {
  VerbOptions options(
      {.verb = "doctor",
       .usage = "[RUN] [options]",
       .text =
           "Checks that this machine can record jobs, line by line: ok, off (works without it), or problem. With RUN: what that recording\n"
           "holds. Exit code 3 if there is a problem.",
       .example = "  ddl doctor --try\n"
                  "  ddl doctor slow.ddl"});
  options.add()("try", "also run /bin/true with the library and measure what it adds");
  options.allow_words(1);
  if (!options.parse(arguments)) return 0;
  std::vector<Check> checks;
  if (!options.words().empty()) {
    Run run = open_run(options.words()[0]);
    checks = check_run(run.db);
  } else {
    checks = check_machine();
    for (Check& check : check_sources()) checks.push_back(std::move(check));
  }
  if (options.has("try")) checks.push_back(check_smoke_run());
  return print_checks(checks) ? 0 : static_cast<int>(ExitCode::kDataMissing);
}

}  // namespace ddl::cli
