#!/usr/bin/env python3
"""Where each rank runs: host, number on the host, CPUs, NUMA nodes; and ranks that have to share a core are told so."""
import os
import socket
from pathlib import Path

import job

CPUS = sorted(os.sched_getaffinity(0))
TRAIN = [job.TRAIN, "--steps", 5, "--width", 16, "--print-every", 0]
MOVES_ITSELF = job.BUILD / "tests" / "programs" / "moves_itself"


def numa_node(cpu):
    """By the links in /sys, where the library goes by the lists of the nodes."""
    return next((p.name[4:] for p in Path(f"/sys/devices/system/cpu/cpu{cpu}").glob("node[0-9]*")), None)


def bound_ranks(folder):
    first, last = CPUS[0], CPUS[-1]
    run = folder / "bound.ddl"
    job.record(run, ["mpirun", "-np", 2, "taskset", "-c", first, *TRAIN, ":", "-np", 1, "taskset", "-c", last, *TRAIN], check_rc=0)
    rows = job.store(run).execute("select rank, host, node, local_rank, cpus, numa from v_rank order by rank").fetchall()
    expected = [(rank, socket.gethostname(), 1, rank, str(cpu), numa_node(cpu)) for rank, cpu in enumerate((first, first, last))]
    job.check([tuple(r) for r in rows] == expected, f"placed {[tuple(r) for r in rows]}, expected {expected}")
    finding = job.reported_store(run).execute("select sentence from finding where id = 'shared_cores'").fetchone()
    ranks = "ranks 0 and 1" if first != last else "ranks 0, 1 and 2"
    expected = f"{ranks} are bound to the same core (CPU {first} of {socket.gethostname()})"
    job.check(finding is not None and finding[0] == expected, f"finding: {finding and finding[0]}, expected {expected}")


def rank_that_moves(folder):
    if len(CPUS) < 2:
        raise job.Skip("one CPU only")
    run = folder / "moves.ddl"
    job.record(run, ["mpirun", "-np", 2, "taskset", "-c", CPUS[0], MOVES_ITSELF, CPUS[1]], check_rc=0)
    facts = job.store(run).execute("select key, value from process_fact where key like 'cpus%' order by key, process").fetchall()
    expected = [("cpus", str(CPUS[0]))] * 2 + [("cpus_at_end", str(CPUS[1]))] * 2
    job.check([tuple(f) for f in facts] == expected, f"facts {[tuple(f) for f in facts]}, expected {expected}")
    findings = [row[0] for row in job.reported_store(run).execute("select id from finding")]
    job.check("shared_cores" not in findings, f"findings: {findings}")


job.main(bound_ranks, rank_that_moves)
