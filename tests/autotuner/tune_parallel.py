#!/usr/bin/env python3
"""ddl tune --parallel on two hosts: never two trials on one of them at a time, both at work at the same time, rounds on one each; the second call
reads the same answers from the log and comes to the same conclusion. With Slurm (argument `slurm`) the nodes are those of the allocation."""
import json
import os
import sqlite3
import sys

import job
import virtual_hosts

virtual_hosts.enter()

SLEEPY = job.BUILD / "tests/programs/sleepy_job"
# As a program that knows nothing of us would tell it: which host, from when to when.
SCRIPT = """#!/bin/sh
begin=$(date +%s.%N)
{sleepy} "$@"
rc=$?
echo "$(hostname) $begin $(date +%s.%N)" >> {folder}/ran
exit $rc
"""
OPTIONS = ["--parallel", 2, "--trials", 24, "--metric", "speed: ([0-9.]+)", "--tunable", "kind=plain,good,careless", "--tunable", "ms=20,22,24,26", "--tunable", "algorithm=default"]
ARGUMENTS = ["--steps", 5, "--unmarked", 1, "--ms", "{ms}", "--kind", "{kind}"]  # prints what it is told to sleep: the same on a busy machine
MPIRUN = ["mpirun", "-np", 2, "--mca", "mpi_yield_when_idle", 1]


def script(folder):
    path = folder / "work.sh"
    path.write_text(SCRIPT.format(sleepy=SLEEPY, folder=folder))
    path.chmod(0o755)
    return path


def overlaps(a, b):
    return a[1] < b[2] and b[1] < a[2]


def check_where(folder, tuned):
    """The ranks' own log, and tune.sqlite."""
    ran = [(host, float(begin), float(end)) for host, begin, end in map(str.split, (folder / "ran").read_text().splitlines())]
    hosts = {host for host, _, _ in ran}
    job.check(hosts == set(virtual_hosts.NAMES), f"hosts: {hosts}")
    # Two ranks of a trial are on one host at the same time, and never four.
    for one in ran:
        beside = [other for other in ran if other[0] == one[0] and overlaps(one, other)]
        job.check(len(beside) == 2, f"{len(beside)} processes on {one[0]} at {one[1]:.2f}")
    both = sum(any(a[0] != b[0] and overlaps(a, b) for b in ran) for a in ran)
    job.check(both >= 12, f"{both} of {len(ran)} processes ran while the other host was at work")
    with sqlite3.connect(tuned / "tune.sqlite") as db:
        rows = db.execute("SELECT round, stage, point, hosts FROM trial ORDER BY number").fetchall()
    job.check(2 * len(rows) == len(ran), f"{len(rows)} trials of two ranks, {len(ran)} processes")
    for number in {row[0] for row in rows}:
        of_round = {row[3] for row in rows if row[0] == number}
        job.check(len(of_round) == 1 and "" not in of_round, f"round {number} ran on {of_round}")
    job.check(len({row[3] for row in rows if row[1] == "confirm"}) == 2, "rounds that confirm were not spread")
    return rows


def result(tuned):
    manifest = json.loads((tuned / "manifest.json").read_text())
    return {choice["name"]: choice["value"] for choice in manifest["choices"]}, manifest["gain"], manifest["kept"]


def on_two_hosts(folder):
    hosts = virtual_hosts.Hosts(folder)
    tuned = folder / "tuned"
    command = [job.DDL, "tune", "-o", tuned, "--hosts", "nodea:2,nodeb:2", *OPTIONS, "--", *MPIRUN, script(folder), *ARGUMENTS]
    hosts.run("nodea", command, check_rc=0)
    before = check_where(folder, tuned)
    choices, gain, kept = result(tuned)
    job.check(choices.get("kind") == "good" and gain and gain["lo"] > 1.3, f"choices {choices}, gain {gain}, {kept}")
    again = hosts.run("nodea", command, check_rc=0)
    job.check(f"{len(before)} trials were read from the log" in again.stdout + again.stderr, f"made anew: {again.stdout}\n{again.stderr}")
    job.check(result(tuned) == (choices, gain, kept), f"another conclusion: {result(tuned)}")
    job.check(check_where(folder, tuned) == before, "the log has changed")


def refuses(folder):
    hosts = virtual_hosts.Hosts(folder)

    def refused(words, *arguments):
        done = hosts.run("nodea", [job.DDL, "tune", "-o", folder / words.split()[-1], "--trials", 24, "--tunable", "kind=plain,good,careless", *arguments])
        job.check(done.returncode != 0 and words in done.stderr, f"{arguments}: {done.returncode} {done.stderr}")

    two = ["--parallel", 2, "--hosts", "nodea:2,nodeb:2"]
    program = [SLEEPY, "--ms", 10, "--kind", "{kind}"]
    refused("the nodes are unknown", "--parallel", 2, "--", *MPIRUN, *program)
    refused("names nodea twice", "--parallel", 2, "--hosts", "nodea:2,nodea:2", "--", *MPIRUN, *program)
    refused("2 nodes are too few", "--parallel", 3, "--hosts", "nodea,nodeb", "--", *MPIRUN, *program)
    refused("chooses its nodes itself, by --host", *two, "--", *MPIRUN, "--host", "nodea:2", *program)
    refused("is not a launcher known to ddl", *two, "--", *program)
    refused("would write the same file", *two, "--metric", "speed: ([0-9.]+)", "--metric-file", "x", "--", *MPIRUN, *program)
    # A command that does as it likes: both lanes on one host.
    liar = folder / "liar.sh"
    liar.write_text('#!/bin/sh\nshift\nexec mpirun --host nodea:2 "$@"\n')
    liar.chmod(0o755)
    more = ["--tunable", "ms=20,22,24,26", "--tunable", "algorithm=default"]
    refused("ran on nodea at the same time", *two, *more, "--", liar, "{hosts}", "-np", 2, SLEEPY, "--steps", 2, "--ms", "{ms}", "--kind", "{kind}")


def in_an_allocation(folder):
    import slurm

    @slurm.unless_mpi_crashes
    def tunes(here):
        script(here)
        words = " ".join(virtual_hosts.quoted(str(word)) for word in ["tune", "-o", "tuned", *OPTIONS])
        job_id = cluster.submit(here, f"{job.DDL} {words} -- {launcher} ./work.sh {' '.join(map(str, ARGUMENTS))} 2>&1")
        cluster.wait(job_id)
        check_where(here, here / "tuned")
        choices, gain, kept = result(here / "tuned")
        job.check(choices.get("kind") == "good" and gain and gain["lo"] > 1.2, f"choices {choices}, gain {gain}, {kept}")

    cluster = slurm.Cluster(virtual_hosts.Hosts(folder))
    for launcher in ("mpirun -np 2", "srun --mpi=pmix -n 2"):
        here = folder / launcher.split()[0]
        here.mkdir()
        tunes(here)


if "slurm" in sys.argv[1:]:
    job.main(in_an_allocation)
else:
    job.main(on_two_hosts, refuses)
