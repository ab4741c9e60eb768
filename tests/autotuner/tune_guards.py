#!/usr/bin/env python3
"""What ddl tune must not do, on a job with known truth (sleepy_job.c): tell secrets, take somebody else's sweep, call a batch better that only raw
speed favours, call files in force that are not, claim what it did not confirm, or lose trials to SIGKILL; and what it does for jobs without steps."""
import concurrent.futures
import json
import os
import pathlib
import re
import signal
import socket
import sqlite3
import subprocess
import tempfile
import time

import job

BUILD = pathlib.Path(os.environ["DDL_BUILD"])
DDL = BUILD / "bin/ddl"
JOB = BUILD / "tests/programs/sleepy_job"
MPIRUN = ["mpirun", "-np", "2", "--oversubscribe", "--bind-to", "none", "--mca", "mpi_yield_when_idle", "1"]
ONE_ALGORITHM = ["--tunable", "algorithm=default"]


def tune(directory, *arguments, check, clock=job.VIRTUAL_CLOCK):
    run = subprocess.run([DDL, "tune", *map(str, arguments)], cwd=directory, capture_output=True, text=True, env=job.environment(**job.ALONE, **clock), timeout=200)
    if run.returncode != check:
        raise AssertionError(f"ddl tune {arguments}: exit code {run.returncode}, expected {check}\n{run.stdout}\n{run.stderr}")
    return run


def rows(directory, query):
    if not (directory / "tune.sqlite").exists():
        return []
    with sqlite3.connect(directory / "tune.sqlite") as db:
        try:
            return db.execute(query).fetchall()
        except sqlite3.OperationalError:
            return []  # it is being made


def trials(directory):
    return rows(directory, "SELECT round, stage, point, cost, why, wall_s FROM trial ORDER BY number")


def with_failures(ran, directory):
    """What the tuning printed, and of the trials that failed what their logs say last."""
    failed = [f"{why}\n{(directory / f'trials/{number:04}.log').read_text(errors='replace')[-1500:]}"
              for number, why in rows(directory, "SELECT number, why FROM trial WHERE cost IS NULL ORDER BY number")]
    return "\n".join([ran.stdout, *failed])


def choices(directory):
    return {choice["name"]: choice["value"] for choice in json.loads((directory / "manifest.json").read_text())["choices"]}


def killed(folder, command, ready):
    """SIGKILL to all of it once `ready()`."""
    with (folder / "killed.log").open("w") as log:
        process = subprocess.Popen([DDL, "tune", *map(str, command)], cwd=folder, stdout=log, stderr=log, env=job.environment(), start_new_session=True)
    deadline = time.time() + 90
    came_so_far = False  # what is waited for may be over a moment later
    while not came_so_far and process.poll() is None and time.time() < deadline:
        time.sleep(0.02)
        came_so_far = ready()
    assert came_so_far, f"it did not come so far (exit code {process.poll()}):\n" + (folder / "killed.log").read_text()
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    # mpirun's daemons are in groups of their own, and end when it is gone.
    time.sleep(1)


SECRET = "hush4Hush"
FORMS = json.loads((pathlib.Path(__file__).parents[1] / "cli/secret_forms.json").read_text())
REFUSES_ITS_ARGUMENTS = """#!/bin/sh
for argument; do
  [ "$argument" != broken ] || { echo "job: error: unrecognized arguments: $*" >&2; exit 2; }
done
exec "$0.job" "$@"
"""


def tells_no_secrets(folder):
    """In no file that it leaves: what it emits, reports, logs, and the recordings of its trials. One kind of job prints its arguments where it fails."""
    script = folder / "refusing"
    script.write_text(REFUSES_ITS_ARGUMENTS)
    script.chmod(0o755)
    (folder / "refusing.job").symlink_to(JOB)
    forms = [word for kind in FORMS.values() for form in kind for word in [*form["command"], "and"]]
    assert sum(SECRET in word for word in forms) >= 77
    tune(folder, "-o", "hidden", "--trials", "18", "--tunable", "kind=plain,good,broken", *ONE_ALGORITHM, "--", script, "--ms", "20", "--kind", "{kind}",
         "--hub-token", SECRET, *forms, check=0)
    assert choices(folder / "hidden")["kind"] == "good"
    [why] = {row[4] for row in trials(folder / "hidden") if "broken" in row[2]}
    assert why.startswith("exit code 2: job: error: unrecognized arguments: --ms 20 --kind broken --hub-token ***"), why
    said_by_the_job = {path for path in (folder / "hidden/trials").glob("*.log")}
    for path in (folder / "hidden").rglob("*"):
        assert path.is_dir() or path in said_by_the_job or SECRET.encode() not in path.read_bytes(), path
    refused = tune(folder, "--verify", "hidden", check=2)
    assert "had secrets" in refused.stderr, refused.stderr
    for arguments in (["--tunable", "API_TOKEN=hunter2,hunter3", "--", JOB], ["--tunable", "who=hunter2,hunter3", "--", JOB, "--password", "{who}"],
                      ["--tunable", "who=hunter2,hunter3", "--", JOB, "--api-key={who}"]):
        run = tune(folder, "-o", "told", *arguments, check=2)
        assert "has the name of a secret" in run.stderr and "hunter" not in run.stderr, run.stderr
    for arguments in (["--tunable", "store=redis://:hunter2@a/0,redis://:hunter2@b/0", "--", JOB, "--store", "{store}"],
                      ["--tunable", "STORE=redis://a/0,redis://:hunter2@b/0", "--", JOB], ["--tunable", "who=me:hunter2,me:hunter3", "--", JOB, "-u", "{who}"]):
        run = tune(folder, "-o", "told", *arguments, check=2)
        assert "contains a secret" in run.stderr and "hunter" not in run.stderr, run.stderr
    assert not (folder / "told").exists()


RING_IS_MAGIC = """# allreduce 1 ranks=2 nodes=1 library="Open MPI v4.1.4" datatype=float op=sum
algorithm,segment_bytes,bytes,round,seconds
""" + "".join(f"{algorithm},0,{size},{round},{seconds}\n" for size in (4, 1024, 1 << 20) for round in range(5)
              for algorithm, seconds in (("default", 1.0), ("default_again", 1.0), ("openmpi:ring", 1e-6)))


def rules(directory):
    return json.loads((directory / "report.json").read_text()).get("rules", [])


# A tenth of the budget, which these tunings may overrun: what they sweep is replaced, or compared with itself.
SHORT_SWEEP = ["--budget", "10s"]


def sweeps_for_itself(folder):
    """A file of another sweep lies there before the first trial, and again before it goes on: ring would be a million times faster."""
    command = ["-o", "swept", *SHORT_SWEEP, "--trials", "4", "--", *MPIRUN, JOB, "--ms", "4"]
    (folder / "swept/trials").mkdir(parents=True)
    (folder / "swept/trials/sweep.csv").write_text(RING_IS_MAGIC)
    tune(folder, *command, check=0)
    [(own,)] = rows(folder / "swept", "SELECT text FROM sweep")
    assert own != RING_IS_MAGIC and own == (folder / "swept/trials/sweep.csv").read_text()
    before = rules(folder / "swept")
    assert [rule["algorithm"] for rule in before] != ["ring"], before
    (folder / "swept/trials/sweep.csv").write_text(RING_IS_MAGIC)
    tune(folder, *command, check=0)
    assert rules(folder / "swept") == before
    # For another number of ranks, as where the batch system now gives others: said, and left out.
    with sqlite3.connect(folder / "swept/tune.sqlite") as db:
        db.execute("UPDATE sweep SET text = ?", (RING_IS_MAGIC.replace("ranks=2", "ranks=64"),))
    run = tune(folder, *command, check=0)
    assert "ran on 64 ranks" in run.stdout and rules(folder / "swept") == [], run.stdout


RING_IS_MAGIC_AT_A_MEGABYTE = re.sub(r"(ring,0,(?:4|1024),.*),1e-06", r"\1,9", RING_IS_MAGIC)


def leaves_out_rules_that_no_call_has(folder):
    """Trials with a file of rules are four times as fast, for a reason of the job's own: the rules are of 1 MiB, and all that it reduces is of 1 KiB."""
    command = ["-o", "idle", "--tunable", "kind=filed", "--", *MPIRUN, JOB, "--ms", "4000", "--kind", "{kind}"]
    tune(folder, *SHORT_SWEEP, "--trials", "4", *command, check=0)
    with sqlite3.connect(folder / "idle/tune.sqlite") as db:
        db.execute("UPDATE sweep SET text = ?", (RING_IS_MAGIC_AT_A_MEGABYTE,))
    run = tune(folder, "--trials", "24", *command, check=0)
    assert [(rule["algorithm"], rule["from_bytes"]) for rule in rules(folder / "idle")] == [("default", 0), ("ring", 32768)], rules(folder / "idle")
    assert choices(folder / "idle").get("algorithm", "default") == "default", choices(folder / "idle")
    assert "algorithm makes no difference beside the rest: left at default" in " ".join(run.stdout.split()), run.stdout
    assert json.loads((folder / "idle/manifest.json").read_text())["gain"] is None


def refuses_a_batch_that_only_speed_favours(folder):
    """64 samples take 2 / 1.125 times as long as 8 do, but at a noise scale of 8 samples they are worth 24 / 136 each: 0.79 of the default."""
    tune(folder, "-o", "fast", "--goal", "throughput", "--trials", "12", "--tunable", "batch=8,64", *ONE_ALGORITHM, "--", *MPIRUN, JOB, "--ms", "2000", "--noise-scale", "8",
         "--batch", "{batch}", check=0)
    assert choices(folder / "fast")["batch"] == "64"
    fast = tune(folder, "--verify", "fast", "--rounds", "3", check=0)  # by the goal that it was tuned for
    assert "raw throughput" in fast.stdout and ": better than" in fast.stdout, fast.stdout
    honest = tune(folder, "--verify", "fast", "--goal", "efficiency", "--rounds", "3", check=4)
    assert "not better than the default" in honest.stdout and "equal statistical efficiency" in honest.stdout, honest.stdout
    blind = tune(folder, "--verify", "fast", "--goal", "efficiency", "--rounds", "3", "--", *MPIRUN, JOB, "--ms", "2000", "--batch", "{batch}", check=2)
    assert "no gradient norms" in blind.stderr, blind.stderr


def tells_what_is_not_in_force(folder):
    """Anybody's rules make this job faster: it is better with rules that Open MPI never reads, and the exit code says that they are not used."""
    run = [*MPIRUN, JOB, "--ms", "4000", "--kind", "ruled"]
    tune(folder, "-o", "ruled", "--trials", "16", "--tunable", "algorithm=default,ring", "--", *run, check=0)
    assert choices(folder / "ruled")["algorithm"] == "ring"
    good = tune(folder, "--verify", "ruled", "--rounds", "3", check=0)
    assert ": better than" in good.stdout and "in use" in good.stdout, good.stdout
    bad = tune(folder, "--verify", "ruled", "--rounds", "3", "--", run[0], "--mca", "coll_tuned_dynamic_rules_filename", "/dev/null", *run[1:], check=4)
    assert ": better than" in bad.stdout and "expected ring" in bad.stdout, bad.stdout


def tries_the_algorithms_that_were_asked_for(folder):
    """Whoever starts the job: Open MPI would say nothing of a file of rules that is not there, and the trial would be one of the default."""
    ruled = [JOB, "--ms", "4000", "--kind", "ruled"]
    for name, values, launcher in (("behind_env", "default,baidu_ring", ["env", *MPIRUN]), ("by_number", "default,3", MPIRUN)):
        tune(folder, "-o", name, "--trials", "12", "--tunable", f"algorithm={values}", "--", *launcher, *ruled, check=0)
        assert choices(folder / name)["algorithm"] == values.split(",")[1], choices(folder / name)
    assert re.search(r"^0 4 0 0 ", (folder / "behind_env/trials/baidu_ring.rules").read_text(), re.MULTILINE)
    assert "# ring" in (folder / "behind_env/allreduce.rules").read_text()
    assert "# recursive_doubling" in (folder / "by_number/allreduce.rules").read_text()
    # The sweep says that ring is best; only the default and the rules are tried.
    asked = ["-o", "asked", "--tunable", "algorithm=default,rules", "--", *MPIRUN, JOB, "--ms", "4000", "--kind", "filed"]
    tune(folder, "--trials", "1", *SHORT_SWEEP, *asked, check=0)  # which the later ones find in the log
    with sqlite3.connect(folder / "asked/tune.sqlite") as db:
        db.execute("UPDATE sweep SET text = ?", (RING_IS_MAGIC,))
    tune(folder, "--trials", "12", *asked, check=0)
    assert {row[2] for row in trials(folder / "asked")} <= {"as it is", "algorithm=default", "algorithm=rules"}, trials(folder / "asked")
    assert choices(folder / "asked")["algorithm"] == "rules", choices(folder / "asked")
    assert "# ring" in (folder / "asked/trials/allreduce.rules").read_text() and "# ring" in (folder / "asked/allreduce.rules").read_text()
    # Nothing is better than the default: there are no rules to try.
    with sqlite3.connect(folder / "asked/tune.sqlite") as db:
        db.execute("UPDATE sweep SET text = ?", (RING_IS_MAGIC.replace("1e-06", "9"),))
    run = tune(folder, "--trials", "1", *asked, check=0)
    assert "algorithm=rules was not tried" in " ".join(run.stdout.split()), run.stdout


def takes_the_jobs_own_word(folder):
    """Jobs without steps: by a number that they print, by one in a file to which every trial appends, by their elapsed time. 0.7 of the pause is 1.43 of the speed."""
    silent = [JOB, "--unmarked", "1", "--ms", "20", "--kind", "{kind}"]
    kinds = ["--tunable", "kind=plain,good", *ONE_ALGORITHM]
    options = ["--trials", "14", *kinds]
    hint = tune(folder, "-o", "without", *options, "--", *silent, check=1)
    assert "no complete steps" in hint.stderr and "--metric" in (folder / "without/trials/0001.log").read_text() + hint.stderr, hint.stderr
    for name, more, words in (("speed", ["--metric", r"speed: ([0-9.]+) images/s"], "in the output, higher is better"),
                              ("pause", ["--metric", r"pause: ([0-9.]+)", "--metric-file", "told.txt", "--lower-is-better"], "in told.txt, lower is better"),
                              ("elapsed", ["--goal", "elapsed"], "elapsed time")):
        few = ["--trials", "4", *kinds] if name == "elapsed" else options
        ran = tune(folder, "-o", name, *few, *more, "--", *silent, *(["--report", "told.txt"] if name == "pause" else []), check=0,
                   clock={} if name == "elapsed" else job.VIRTUAL_CLOCK)
        manifest = json.loads((folder / name / "manifest.json").read_text())
        assert words in manifest["goal"], manifest["goal"]
        made = [(row[3], 0.02 * (0.7 if "good" in row[2] else 1), row[5]) for row in trials(folder / name)]
        if name == "pause":  # each trial's own, though all of them are in the file
            assert all(abs(cost - pause) < 1e-6 for cost, pause, _ in made), made
            continue
        if name == "elapsed":  # never shorter than its twelve pauses, nor longer than the trial
            assert all(12 * pause <= cost <= wall for cost, pause, wall in made), made
            assert "only 0 steps" not in ran.stdout, ran.stdout
            continue
        assert choices(folder / name)["kind"] == "good", with_failures(ran, folder / name)
        assert abs(manifest["gain"]["ratio"] - 1 / 0.7) < 0.001, (name, manifest["gain"])
    again = tune(folder, "--verify", "speed", "--rounds", "3", check=0)  # by what it was tuned for
    assert "speed: ([0-9.]+) images/s" in again.stdout and ": better than" in again.stdout, again.stdout
    for bad, said in ((["--metric", "speed"], "does not say where the number is"), (["--metric", "([0-9"], "is not a regular expression"),
                      (["--metric-file", "x"], "need --metric"), (["--metric", "(x)", "--goal", "elapsed"], "exclude each other")):
        assert said in tune(folder, "-o", "bad", *bad, *ONE_ALGORITHM, "--", JOB, check=2).stderr, bad
    unmatched = tune(folder, "-o", "unmatched", *options, "--metric", "tokens: ([0-9]+)", "--", *silent, check=1)
    assert "no line of the output has the number" in unmatched.stderr and "fails" not in unmatched.stderr, unmatched.stderr


def verifies_against_what_the_default_ran_with(folder):
    """The default is SLEEPY=slow, which the tuning set: without it the job is as fast as what was tuned, and the proof would tell of no gain. A shell that has
    SLEEPY=slow loses it where the winner is "unset"."""
    command = ["--", JOB, "--unmarked", "1", "--ms", "10"]
    tune(folder, "-o", "slow", "--trials", "14", "--tunable", "SLEEPY=slow,unset", *ONE_ALGORITHM, "--metric", "pause: ([0-9.]+)", "--lower-is-better", *command, check=0)
    manifest = json.loads((folder / "slow/manifest.json").read_text())
    assert manifest["default_environment"] == {"SLEEPY": "slow"} and manifest["environment"] == {} and manifest["unset"] == ["SLEEPY"], manifest
    for shell in ({}, {"SLEEPY": "slow"}):
        proved = tune(folder, "--verify", "slow", "--rounds", "3", check=0, clock=job.VIRTUAL_CLOCK | shell)
        assert "gain    +200.0% [+200.0%, +200.0%]" in proved.stdout, proved.stdout
    assert "pause: 0.010000 s" in tune(folder, "--apply", "slow", *command, check=0, clock=job.VIRTUAL_CLOCK | shell).stdout
    sourced = subprocess.run(["sh", "-c", ". slow/tuned.env; echo ${SLEEPY-none}"], cwd=folder, env=os.environ | shell, capture_output=True, text=True, check=True)
    assert sourced.stdout == "none\n", sourced.stdout


def claims_nothing_that_it_has_no_time_for(folder):
    """Three trials fit into the time, nine confirm: whatever is seen on the way, nothing is said to have won, in no file."""
    run = tune(folder, "-o", "hurry", "--budget", "2s", "--tunable", "kind=plain,good", *ONE_ALGORITHM, "--", JOB, "--ms", "40", "--kind", "{kind}", check=0, clock={})
    manifest = json.loads((folder / "hurry/manifest.json").read_text())
    assert manifest["gain"] is None and re.match("not (confirmed|explored): ", manifest["kept"]), manifest
    assert manifest["kept"] in run.stdout and " is too short: a trial of the default takes " in run.stdout, run.stdout
    assert f"nothing is changed: {manifest['kept'][:20]}" in (folder / "hurry/tuned.env").read_text()
    assert manifest["kept"] in tune(folder, "--verify", "hurry", check=4).stderr


def loses_nothing_to_a_kill(folder):
    """While it sweeps, and while it searches: nothing that was measured is measured again, and it comes to its end."""
    command = ["-o", "killed", "--trials", "16", "--tunable", "kind=plain,good", "--", *MPIRUN, JOB, "--ms", "20", "--kind", "{kind}"]
    tuned = folder / "killed"
    killed(folder, command, lambda: (tuned / "trials/sweep.part").exists())
    first = trials(tuned)
    assert len(first) == 1 and rows(tuned, "SELECT text FROM sweep") == [], first
    killed(folder, command, lambda: len(trials(tuned)) >= 4 and (tuned / f"trials/{len(trials(tuned)) + 1:04}.ddl").exists())
    second, sweep = trials(tuned), rows(tuned, "SELECT text FROM sweep")
    assert second[:1] == first and len(sweep) == 1, second
    assert not (tuned / "manifest.json").exists()
    tune(folder, *command, check=0, clock={})
    assert trials(tuned)[: len(second)] == second and rows(tuned, "SELECT text FROM sweep") == sweep
    assert "kind" in choices(tuned)


def ends_a_trial_that_hangs(folder):
    """Ranks of one kind wait for ever: where the budget ends soon they are ended with it, and with a longer one the search goes on without them."""
    def command(name, kinds):
        return ["-o", name, "--trials", "16", "--tunable", kinds, *ONE_ALGORITHM, "--", JOB, "--ms", "500", "--kind", "{kind}"]

    def made(name, budget_s, times, kinds):
        """Its trials, and the one that hung."""
        tune(folder, "--budget", f"{budget_s}s", *command(name, kinds), check=0, clock=job.VIRTUAL_CLOCK | job.fast_clock(times))
        rows = trials(folder / name)
        [stuck] = [row for row in rows if "stuck" in row[2]]
        default_s, spent_s = rows[0][5], sum(row[5] for row in rows[: rows.index(stuck)])
        limit_s = min(max(60, 10 * default_s), max(10, 3 * default_s, budget_s - spent_s))
        minutes, seconds = re.fullmatch(r"did not end within (?:(\d+)m )?([0-9.]+) ?s", stuck[4]).groups()
        assert stuck[3] is None and abs(60 * int(minutes or 0) + float(seconds) - limit_s) < 3, (rows, limit_s)
        return stuck

    # A budget of 15 trials leaves time to try, and ends before the minute that each may take. What starts a trial takes as many times as long as the clock is fast.
    tune(folder, "-o", "soon_over", "--trials", "1", *command("soon_over", "kind=plain,stuck")[4:], check=0, clock=job.VIRTUAL_CLOCK | job.fast_clock(3))
    stuck = made("soon_over", min(60, 15 * trials(folder / "soon_over")[0][5]), 3, "kind=plain,stuck")
    tune(folder, *command("soon_over", "kind=plain,stuck"), check=0)
    assert [row for row in trials(folder / "soon_over") if "stuck" in row[2]] == [stuck]
    made("stuck", 3600, 15, "kind=plain,stuck,good")
    assert choices(folder / "stuck")["kind"] == "good", trials(folder / "stuck")
    # A verification has the same limits: a minute at least, here of the ranks of an mpirun.
    hangs = tune(folder, "--verify", "stuck", "--budget", "5s", "--rounds", "3", "--", *MPIRUN, JOB, "--ms", "500", "--kind", "stuck", "--not", "{kind}", check=1,
                 clock=job.VIRTUAL_CLOCK | job.fast_clock(30))
    assert "the default job did not end within 1m" in hangs.stderr and "--budget" in hangs.stderr, hangs.stderr
    # A command without the place of what was tuned is not the tuned job.
    for verb in ("--apply", "--verify"):
        lacking = tune(folder, verb, "stuck", "--", *MPIRUN, JOB, "--ms", "500", check=2)
        assert "the command does not say where kind goes" in lacking.stderr and "write {kind}" in lacking.stderr, lacking.stderr


def begins_anew_where_the_job_was_mended(folder):
    """The default fails for want of a file; once that is there, the same command tunes. Files of others stay as they are."""
    script = folder / "mended"
    script.write_text(f'#!/bin/sh\n[ -e ready ] || {{ echo "error: ready is missing"; exit 4; }}\nexec {JOB} --unmarked 1 --ms 2 "$@"\n')
    script.chmod(0o755)
    command = ["--trials", "2", "--metric", "speed: ([0-9.]+)", "--tunable", "kind=plain,good", *ONE_ALGORITHM, "--", script, "--kind", "{kind}"]
    assert "error: ready is missing" in tune(folder, "-o", "mended_dir", *command, check=1).stderr
    (folder / "ready").touch()
    tune(folder, "-o", "mended_dir", *command, check=0)
    assert [row[4] for row in trials(folder / "mended_dir")][:1] == [""], trials(folder / "mended_dir")
    theirs = folder / "project/ds_config.json"
    theirs.parent.mkdir()
    theirs.write_text("{}")
    refused = tune(folder, "-o", "project", *command, check=2)
    assert "ds_config.json is not of a tuning, and would be replaced" in refused.stderr and theirs.read_text() == "{}", refused.stderr
    assert [path.name for path in theirs.parent.iterdir()] == ["ds_config.json"]


def mixes_no_numbers_of_ranks(folder):
    """Another host file between two parts of one tuning. A tunable that is the number of ranks may change it."""
    hosts, launcher = folder / "hosts", [*MPIRUN[:1], *MPIRUN[3:]]
    command = ["-o", "ranks", "--goal", "throughput", "--tunable", "kind=plain,good", *ONE_ALGORITHM, "--", *launcher, "--hostfile", hosts, JOB, "--ms", "2000", "--kind", "{kind}"]
    hosts.write_text("localhost slots=2\n")
    tune(folder, "--trials", "3", *command, check=0)
    before = trials(folder / "ranks")
    hosts.write_text("localhost slots=3\n")
    other = tune(folder, "--trials", "16", *command, check=1)
    assert "ran on 3 ranks, the first trial in ranks/tune.sqlite on 2" in other.stderr and "another directory" in other.stderr, other.stderr
    assert trials(folder / "ranks") == before
    tune(folder, "-o", "tuned_ranks", "--goal", "elapsed", "--trials", "14", "--tunable", "ranks=2,3", *ONE_ALGORITHM, "--", *launcher, "-np", "{ranks}", JOB, check=0)
    assert len({row[2] for row in trials(folder / "tuned_ranks") if row[3]}) == 2, trials(folder / "tuned_ranks")


def keeps_to_the_memory(folder):
    """A rank has 4 MiB for each sample, and some 20 to 60 beside: 16 samples fit into 125 MiB, 32 do not, and are not tried."""
    tune(folder, "-o", "memory", "--goal", "throughput", "--trials", "16", "--max-memory", "125MiB", "--tunable", "batch=8,4,16,32,64", *ONE_ALGORITHM, "--", JOB,
         "--ms", "2000", "--mib-per-sample", "4", "--batch", "{batch}", check=0)
    tried = {row[2] for row in trials(folder / "memory")}
    assert "batch=4 algorithm=default" in tried and not any(word in point for point in tried for word in ("=32", "=64")), tried
    report = json.loads((folder / "memory/report.json").read_text())
    [refused] = [alert for alert in report["alerts"] if "not tried" in alert]
    assert refused.startswith("2 points not tried: more than 125MiB of a rank (--max-memory): "), refused
    assert re.search(r" and (3\.9\d*|4(\.0\d*)?)MiB a sample, by the peak memory of two trials", refused), refused
    # Whatever else needs memory is found out by trying it, once.
    tune(folder, "-o", "hungry", "--trials", "16", "--max-memory", "125MiB", "--tunable", "kind=plain,hungry", *ONE_ALGORITHM, "--", JOB, "--ms", "2000", "--kind",
         "{kind}", check=0)
    hungry = [row for row in trials(folder / "hungry") if "hungry" in row[2]]
    assert len(hungry) == 1 and hungry[0][3] is None and "of a rank, more than --max-memory 125MiB" in hungry[0][4], hungry
    assert choices(folder / "hungry")["kind"] == "plain"
    small = tune(folder, "-o", "small", "--max-memory", "1MiB", *ONE_ALGORITHM, "--", JOB, check=1)
    assert "fails with its defaults: needed" in small.stderr, small.stderr


def takes_away_what_stands_in_a_trials_place(folder):
    """Where the recording of the first trial goes: nobody waits there, and what a link leads to stays as it is."""
    theirs = folder / "theirs"
    theirs.mkdir()
    (theirs / "kept").write_text("kept")
    listening = socket.socket(socket.AF_UNIX)
    for kind, put in (("fifo", os.mkfifo), ("socket", lambda place: listening.bind(str(place))), ("link", lambda place: place.symlink_to(theirs)),
                      ("nowhere", lambda place: place.symlink_to(folder / "nowhere")), ("file", lambda place: place.write_text("x"))):
        place = folder / f"place_{kind}/trials/0001.ddl"
        place.parent.mkdir(parents=True)
        put(place)
        tune(folder, "-o", f"place_{kind}", "--trials", "1", "--goal", "elapsed", "--tunable", "kind=plain,good", *ONE_ALGORITHM, "--", JOB, "--unmarked", "1",
             "--ms", "2", "--kind", "{kind}", check=0)
        assert place.is_dir() and not place.is_symlink() and list(place.glob("*.spool")), kind
    assert sorted(path.name for path in theirs.iterdir()) == ["kept"] and not (folder / "nowhere").exists()


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        tests = (ends_a_trial_that_hangs, begins_anew_where_the_job_was_mended, mixes_no_numbers_of_ranks, tries_the_algorithms_that_were_asked_for, takes_away_what_stands_in_a_trials_place, takes_the_jobs_own_word, verifies_against_what_the_default_ran_with, claims_nothing_that_it_has_no_time_for, keeps_to_the_memory, tells_what_is_not_in_force, tells_no_secrets, loses_nothing_to_a_kill, refuses_a_batch_that_only_speed_favours, sweeps_for_itself, leaves_out_rules_that_no_call_has)
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            for test, done in [(test, pool.submit(test, folder)) for test in tests]:
                done.result()
                print(test.__name__.replace("_", " "))


if __name__ == "__main__":
    main()
