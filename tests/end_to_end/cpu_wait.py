#!/usr/bin/env python3
"""Whether a rank had a CPU: what is recorded against what the ranks read of their own threads in /proc, and what is said of it. The ranks look before and
after MPI_Init and MPI_Finalize, and the recorder in between, so its numbers lie between theirs whatever the machine does meanwhile."""
import json
import os
import subprocess

import job

CPUS = sorted(os.sched_getaffinity(0))
SCHEDULED = job.BUILD / "tests" / "programs" / "scheduled"
SHIM = job.BUILD / "tests" / "programs" / "libno_schedstat_shim.so"
RUN_MS = 2500
KEYS = ("on_cpu_ns", "run_queue_wait_ns", "cpu_account_ns")
THRESHOLD = 0.05


class Hog:
    """A busy loop on one CPU."""

    def __init__(self, cpu):
        self.cpu = cpu

    def __enter__(self):
        self.process = subprocess.Popen(["taskset", "-c", str(self.cpu), "sh", "-c", "while :; do :; done"])

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()


def readings(text):
    """By rank: four readings of (on CPU, ready without one, clock)."""
    told = {}
    for line in text.splitlines():
        words = line.split()
        if words[:1] == ["scheduled"]:
            numbers = [int(word) for word in words[2:]]
            told[int(words[1])] = [numbers[i:i + 3] for i in range(0, 12, 3)]
    return told


def accounts(db):
    told = {}
    for rank, key, value in db.execute("select coalesce(p.rank, 0), f.key, f.value from process_fact f join process p on p.id = f.process"
                                       " where f.key in (?, ?, ?)", KEYS):
        told.setdefault(rank, {})[key] = int(value)
    return told


def lies_between(recorded, own, what):
    """`own`: of one rank. Returns its share of the time without a CPU."""
    for i, key in enumerate(KEYS):
        least, most = own[2][i] - own[1][i], own[3][i] - own[0][i]
        job.check(least <= recorded[key] <= most, f"{what}: {key} {recorded[key]}, by itself between {least} and {most}")
    share = recorded["run_queue_wait_ns"] / recorded["cpu_account_ns"]
    print(f"{what}: without a CPU for {recorded['run_queue_wait_ns'] / 1e9:.3f} of {recorded['cpu_account_ns'] / 1e9:.3f} s ({share:.0%})")
    return share


def one_core(folder):
    """Two ranks and a busy loop on one core."""
    run = folder / "one_core.ddl"
    with Hog(CPUS[0]):
        done = job.record(run, ["mpirun", "-np", 2, "taskset", "-c", CPUS[0], SCHEDULED, RUN_MS], check_rc=0)
    own, recorded = readings(done.stdout), accounts(job.store(run))
    job.check(sorted(own) == sorted(recorded) == [0, 1], f"ranks {sorted(own)}, recorded {sorted(recorded)}")
    shares = [lies_between(recorded[rank], own[rank], f"one core, rank {rank}") for rank in (0, 1)]
    # One core has room for half of them, and they never sleep.
    job.check(sum(shares) > 2 * THRESHOLD, f"one core: shares {shares}")
    db = job.reported_store(run)
    found = dict(db.execute("select id, evidence from finding").fetchall())
    job.check("Ready to run and without a CPU for" in found.get("shared_cores", "") and "cpu_contention" not in found, f"one core: {found}")
    verdict = db.execute("select value from meta where key = 'verdict.text'").fetchone()[0]
    job.check("CPU contention is part of it: ranks waited for a CPU for" in verdict, f"one core: {verdict}")
    rows = json.loads(job.report(run, "--json").stdout)["ranks"]
    job.check([row["no_cpu_ratio"] for row in rows] == shares, f"one core: {[row['no_cpu_ratio'] for row in rows]} in the table, {shares}")
    job.check("No CPU(%)" in job.report(run, "ranks").stdout, "one core: the table of ranks does not show it")


def beside_one_rank(folder):
    """A busy loop on the core of rank 1 only."""
    if len(CPUS) < 2:
        raise job.Skip("one CPU only")
    run = folder / "beside.ddl"
    alone = ["-np", 1, "taskset", "-c", CPUS[0], SCHEDULED, RUN_MS]
    crowded = ["-np", 1, "taskset", "-c", CPUS[-1], SCHEDULED, RUN_MS]
    with Hog(CPUS[-1]):
        done = job.record(run, ["mpirun", *alone, ":", *crowded], check_rc=0)
    own, recorded = readings(done.stdout), accounts(job.store(run))
    shares = [lies_between(recorded[rank], own[rank], f"beside one, rank {rank}") for rank in (0, 1)]
    sentences = [row[0] for row in job.reported_store(run).execute("select sentence from finding where id = 'cpu_contention'")]
    expected = [rank for rank in (0, 1) if shares[rank] > THRESHOLD]  # on a busy machine rank 0 as well
    job.check(1 in expected and len(sentences) == 1, f"beside one: shares {shares}, {sentences}")
    job.check(all(f"rank {max(expected, key=lambda rank: shares[rank])} (" in s and ("all ranks" in s) == (len(expected) == 2) for s in sentences), f"beside one: {sentences}")


def without_mpi(folder):
    run = folder / "alone.ddl"
    with Hog(CPUS[0]):
        done = job.record(run, ["taskset", "-c", CPUS[0], SCHEDULED, 500, "alone"], check_rc=0)
    own, recorded = readings(done.stdout)[0], accounts(job.store(run))[0]
    for i, key in enumerate(KEYS):
        least = own[2][i] - own[1][i]
        job.check(least <= recorded[key], f"without MPI: {key} {recorded[key]}, by itself at least {least}")


def kernel_does_not_tell(folder):
    """Nothing is recorded, and nothing said: n/a is not 0."""
    for name, settings in {"no file": {}, "zeros": {"NO_SCHEDSTAT_ZEROS": "1"}}.items():
        run = folder / f"{name.replace(' ', '_')}.ddl"
        job.record(run, ["mpirun", "-np", 2, SCHEDULED, 100], check_rc=0, LD_PRELOAD=SHIM, **settings)
        job.check(accounts(job.store(run)) == {}, f"{name}: {accounts(job.store(run))}")
        rows = json.loads(job.report(run, "--json").stdout)["ranks"]
        job.check([(row["no_cpu_ratio"], row["no_cpu_ratio_why"]) for row in rows] == [(None, "NO_DATA")] * 2, f"{name}: {rows}")
        job.check("CPU contention" not in job.report(run).stdout, f"{name}: the report speaks of it")


job.main(one_core, beside_one_rank, without_mpi, kernel_does_not_tell)
