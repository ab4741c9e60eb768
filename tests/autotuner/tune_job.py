#!/usr/bin/env python3
"""ddl tune on a job whose best configuration is known (sleepy_job.c): what it finds, what it leaves, and what it makes of failures, of being
interrupted, started again, and of files that are not in force."""
import json
import os
import pathlib
import re
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time

import job

BUILD = pathlib.Path(os.environ["DDL_BUILD"])
DDL = BUILD / "bin/ddl"
JOB = BUILD / "tests/programs/sleepy_job"
MPIRUN = ["mpirun", "-np", "2", "--oversubscribe", "--bind-to", "none", "--mca", "mpi_yield_when_idle", "1"]


def tune(directory, *arguments, check=None):
    run = subprocess.run([DDL, "tune", *map(str, arguments)], cwd=directory, capture_output=True, text=True, env=job.environment(**job.ALONE, **job.VIRTUAL_CLOCK))
    if check is not None and run.returncode != check:
        sys.exit(f"ddl tune {arguments}: exit code {run.returncode}, expected {check}\n{run.stdout}\n{run.stderr}")
    return run


def trials(directory):
    if not (directory / "tune.sqlite").exists():
        return []
    with sqlite3.connect(directory / "tune.sqlite") as db:
        if not db.execute("SELECT 1 FROM sqlite_master WHERE name = 'trial'").fetchall():
            return []  # it is being made
        return db.execute("SELECT round, stage, point, cost, why, wall_s FROM trial ORDER BY number").fetchall()


def finds_the_best(folder):
    """1 / (0.7 * 0.5) of the default's sleeping; algorithms do not matter beside 3 s; what is broken is tried once and said to be."""
    tune(folder, "-o", "tuned", "--trials", "26", "--tunable", "kind=plain,good,broken", "--tunable", "SLEEPY=unset,fast", "--tunable", "algorithm=default", "--",
         *MPIRUN, JOB, "--ms", "3000", "--kind", "{kind}", check=0)
    manifest = json.loads((folder / "tuned/manifest.json").read_text())
    values = {choice["name"]: choice["value"] for choice in manifest["choices"]}
    assert values["kind"] == "good" and values["SLEEPY"] == "fast", values
    assert manifest["environment"]["SLEEPY"] == "fast", manifest["environment"]
    assert manifest["tuned_command"][-1] == "good", manifest["tuned_command"]
    gain = manifest["gain"]
    assert gain["lo"] > 1 and 1.5 < gain["ratio"] < 1 / 0.35 + 0.2, gain
    rows = trials(folder / "tuned")
    broken = [row for row in rows if "kind=broken" in row[2]]
    assert len({row[2] for row in broken}) == len(broken), "a point that failed was tried again"
    assert all(row[3] is None and "exit code 7" in row[4] for row in broken), broken
    assert len(rows) <= 26
    report = json.loads((folder / "tuned/report.json").read_text())
    assert report["run"]["confirmed"] == "yes", report["run"]
    with sqlite3.connect(folder / "tuned/tune.sqlite") as db:  # the default beside the winner is the one that was measured last
        (last,) = db.execute("SELECT step_s FROM trial WHERE stage = 'confirm' AND point = ? ORDER BY number DESC LIMIT 1", (report["run"]["default"],)).fetchone()
    shown = {row["configuration"]: row["step_ns"] for row in report["split"]}["default"]
    assert abs(shown - last * 1e9) < 2, (shown, last)
    assert "<script" not in (folder / "tuned/report.html").read_text()
    return rows


def goes_on_where_it_was(folder, before):
    """The same question again: every trial is read from the log, none is made."""
    run = tune(folder, "-o", "tuned", "--trials", "26", "--tunable", "kind=plain,good,broken", "--tunable", "SLEEPY=unset,fast", "--tunable", "algorithm=default",
               "--", *MPIRUN, JOB, "--ms", "3000", "--kind", "{kind}", check=0)
    assert trials(folder / "tuned") == before
    assert "trial " not in run.stderr.replace("trials", ""), run.stderr
    other = tune(folder, "-o", "tuned", "--tunable", "kind=plain,good", "--", *MPIRUN, JOB, "--kind", "{kind}", check=2)
    assert "another tuning" in other.stderr, other.stderr


def loses_nothing_when_interrupted(folder):
    """SIGINT to the group, as a terminal sends it: what was measured is there, the files say that the defaults stay, and it goes on later."""
    command = [DDL, "tune", "-o", "cut", "--trials", "20", "--tunable", "kind=plain,good", "--tunable", "algorithm=default", "--", *MPIRUN, JOB, "--ms", "100", "--kind", "{kind}"]
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=job.environment(**job.ALONE), start_new_session=True)  # it sleeps: the tuning must not be over before it is interrupted
    deadline = time.time() + 60
    while time.time() < deadline and len(trials(folder / "cut")) < 3:
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, (process.returncode, err)
    assert re.search("not (explored|confirmed): the tuning ended", out) and "too few" not in out, out
    kept = trials(folder / "cut")
    assert len(kept) >= 3 and all(row[3] is not None for row in kept), kept
    assert json.loads((folder / "cut/manifest.json").read_text())["gain"] is None
    tune(folder, "-o", "cut", "--trials", "20", "--tunable", "kind=plain,good", "--tunable", "algorithm=default", "--", *MPIRUN, JOB, "--ms", "100", "--kind", "{kind}", check=0)
    again = trials(folder / "cut")
    assert again[: len(kept)] == kept, "earlier trials were made again"


def takes_the_loss_into_account(folder):
    """careless is as fast a step, and takes twice as many: the time to the loss must not choose it. broken never gets there."""
    tune(folder, "-o", "loss", "--target-loss", "0.2", "--trials", "16", "--tunable", "kind=careless,plain", "--tunable", "algorithm=default", "--", JOB, "--ms", "2500",
         "--steps", "30", "--kind", "{kind}", check=0)
    manifest = json.loads((folder / "loss/manifest.json").read_text())
    assert {choice["name"]: choice["value"] for choice in manifest["choices"]}["kind"] == "plain", manifest["choices"]
    assert 1.35 < manifest["gain"]["ratio"] < 1.65, manifest["gain"]  # the mean of five losses is at 0.2 after 12 against 8 steps


def applies_and_verifies(folder):
    run = tune(folder, "--apply", "tuned", "--", *MPIRUN, JOB, "--ms", "1", "--steps", "3", "--kind", "{kind}", check=0)
    assert run.stdout == "", run.stdout
    good = tune(folder, "--verify", "tuned", "--rounds", "3", check=0)
    assert "better than the default" in good.stdout, good.stdout
    # A job that what was tuned makes slower. (One that it leaves as it is will not do: 1 of 40 such jobs is better within its 95 % interval.)
    slower = f'ms=2000; [ "$SLEEPY" = fast ] && ms=6000; SLEEPY= exec {JOB} --ms $ms'
    worse = tune(folder, "--verify", "tuned", "--rounds", "3", "--", *MPIRUN, "sh", "-c", slower, "sh", "{kind}", check=4)
    assert "not better" in worse.stdout, worse.stdout
    environment = folder / "tuned/tuned.env0"
    environment.write_bytes(environment.read_bytes() + b"X=1\0")
    tune(folder, "--verify", "tuned", "--rounds", "3", check=3)  # not what was written
    tune(folder, "--verify", "nowhere", check=3)


def offers_what_the_steps_use(folder):
    """The trainer calls MPI_Allreduce once before its steps; within them it overlaps: algorithms of MPI_Iallreduce are what there is to choose.
    Three trials allow no search, and that is said."""
    run = tune(folder, "-o", "overlapped", "--trials", "3", "--tunable", "bucket_mb=0.25,1", "--", *MPIRUN, job.TRAIN, "--width", "32", "--steps", "12", "--bucket-mb",
               "{bucket_mb}", check=0)
    names = {choice["name"] for choice in json.loads((folder / "overlapped/manifest.json").read_text())["choices"]}
    assert names == {"bucket_mb", "iallreduce"}, names
    [offered] = [row["values"] for row in json.loads((folder / "overlapped/report.json").read_text())["choices"] if row["tunable"] == "iallreduce"]
    assert offered == "default binomial recursive_doubling", offered  # the others are wrong with operations that do not commute
    assert "not explored: " in run.stdout and "--trials 3 is too few" in run.stdout, run.stdout


def says_what_is_wrong(folder):
    for arguments, words in [
        (["--", "x", "{what}"], "no values are given"),
        (["--tunable", "kind", "--", "x"], "invalid tunable"),
        (["--tunable", "batch=8,16", "--", "x"], "does not say where batch goes"),
        (["--tunable", "batch=8,many", "--", "x", "{batch}"], "invalid value 'many' of batch"),
        (["--tunable", "algorithm=default,rnig", "--", *MPIRUN, JOB], "recursive_doubling, ring"),
        (["--tunable", "algorithm=default,9", "--", *MPIRUN, JOB], "invalid value '9' of algorithm"),
        (["--tunable", "algorithm=rules,default", "--", *MPIRUN, JOB], "algorithm=rules cannot be the first value"),
        (["--tunable", "algorithm=default,rules", "--", "env", *MPIRUN, JOB], "rules come from the sweep, which this command has not"),
        (["--budget", "soon", "--", "x"], "invalid duration 'soon'"),
        (["--goal", "effiency", "--", "x"], "did you mean efficiency"),
        (["--"], "no command given"),
    ]:
        run = tune(folder, *arguments, check=2)
        assert words in run.stderr, (arguments, run.stderr)
    # A batch may not be chosen by speed alone: this job reports no norms.
    run = tune(folder, "-o", "raw", "--tunable", "batch=8,16", "--", *MPIRUN, JOB, "--steps", "{batch}", check=2)
    assert "--target-loss" in run.stderr, run.stderr
    run = tune(folder, "-o", "fails", "--tunable", "kind=broken,good", "--", *MPIRUN, JOB, "--kind", "{kind}", check=1)
    assert "fails with its defaults" in run.stderr and "this kind is broken" in run.stderr, run.stderr


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        rows = finds_the_best(folder)
        print(f"found the best in {len(rows)} trials")
        goes_on_where_it_was(folder, rows)
        print("went on from the log")
        applies_and_verifies(folder)
        print("applied and verified")
        loses_nothing_when_interrupted(folder)
        print("interrupted and taken up again")
        takes_the_loss_into_account(folder)
        print("took the loss into account")
        offers_what_the_steps_use(folder)
        print("offered what the steps use")
        says_what_is_wrong(folder)
        print("said what is wrong")


if __name__ == "__main__":
    main()
