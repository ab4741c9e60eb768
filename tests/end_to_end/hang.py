#!/usr/bin/env python3
"""A job in which one rank never enters the allreduce, killed from outside: the report names that rank and the call the others sit in."""
import signal

import job


def hang(folder, name, options, sits_in, ranks=3, missing=1):
    run = folder / f"{name}.ddl"
    process = job.start([job.DDL, "record", "-o", run, "--", "mpirun", "-np", ranks, job.TRAIN, "--steps", 1000, "--hang-rank", f"{missing}:12", *options])

    job.wait_until(lambda: False, 4)  # 12 steps take a fraction of a second; there is nothing to observe from outside but silence
    job.stop_group(process, signal.SIGKILL)
    process.wait(timeout=30)
    shown = job.report(run).stdout
    first = job.store(run).execute("select id, sentence, rank, evidence from finding order by position").fetchone()
    job.check(first is not None and first["rank"] == missing, f"first finding: {tuple(first) if first else None}")
    job.check(first is not None and f"rank {missing}" in first["sentence"], f"the sentence: {first['sentence'] if first else None}")
    job.check(any(op in shown for op in sits_in), f"the report does not say that the others sit in one of {sits_in}:\n{shown}")
    sitting = {r["rank"]: r["op"] for r in job.store(run).execute("select rank, op from v_open_call")}
    for rank in range(ranks):
        if rank != missing:
            job.check(sitting.get(rank) in sits_in, f"rank {rank} sits in {sitting.get(rank)}")
    job.check(missing not in sitting, f"rank {missing} sits in {sitting.get(missing)}, it should be in no call")
    print(first["sentence"] if first else "-")


def blocking(folder):
    hang(folder, "blocking", ["--no-overlap"], ["MPI_Allreduce"])


def overlapped(folder):
    hang(folder, "overlapped", [], ["MPI_Waitall", "MPI_Wait", "MPI_Allreduce"])


job.main(blocking, overlapped)
