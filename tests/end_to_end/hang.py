#!/usr/bin/env python3
"""A job in which one rank never enters the allreduce, killed from outside: the report names that rank and the call the others sit in."""
import signal
import time

import job


def hang(folder, name, options, sits_in, ranks=3, missing=1):
    run = folder / f"{name}.ddl"
    logs = [folder / f"{name}.calls.{rank}" for rank in range(ranks)]
    process = job.start([job.DDL, "record", "-o", run, "--", "mpirun", "-np", ranks, job.TRAIN, "--steps", 1000, "--width", 64,
                         "--hang-rank", f"{missing}:12", "--log-calls", folder / f"{name}.calls", *options])

    # A hang shows from outside as silence: the programs' own logs of completed calls stand still for two seconds.
    def content():
        return [log.read_bytes() if log.exists() else b"" for log in logs]

    job.check(job.wait_until(lambda: all(b"MPI_Bcast" in text for text in content())), "the job did not get going")
    before = None
    while before != content():
        before = content()
        time.sleep(2)
    job.stop_group(process, signal.SIGKILL)
    process.wait(timeout=30)
    shown = job.report(run).stdout
    first = job.store(run).execute("select id, sentence, rank, evidence from finding order by position").fetchone()
    job.check(first is not None and first["rank"] == missing, f"first finding: {tuple(first) if first else None}")
    job.check(first is not None and f"rank {missing}" in first["sentence"], f"the sentence: {first['sentence'] if first else None}")
    job.check(any(op in shown for op in sits_in), f"the report does not say that the others sit in one of {sits_in}:\n{shown}")
    sitting = {r["rank"]: r["op"] for r in job.reported_store(run).execute("select rank, op from v_open_call")}
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
