#!/usr/bin/env python3
"""kill -9 of one rank in mid-run: every call that had completed is in the report, and it says what is missing."""
import os
import random
import signal
import time

import job

KILLS = int(os.environ.get("DDL_TEST_KILLS", "3"))


def logged_calls(path):
    return {op: int(calls) for op, calls in (line.split() for line in path.read_text(errors="replace").splitlines() if len(line.split()) == 2)}


def killed_rank(folder):
    rng = random.Random(20261121)
    for attempt in range(KILLS):
        run, log = folder / f"kill{attempt}.ddl", folder / f"calls{attempt}"
        victim = attempt % 2
        process = job.start([job.DDL, "record", "-o", run, "--", "mpirun", "-np", "2", job.TRAIN, "--steps", "100000", "--print-every", "1000",
                             "--log-calls", log])
        log_of = [folder / f"calls{attempt}.{rank}" for rank in range(2)]
        started = job.wait_until(lambda: all(p.exists() and logged_calls(p).get("MPI_Iallreduce", 0) > 20 for p in log_of))
        job.check(started, "the job did not get going")
        time.sleep(rng.uniform(0, 0.5))
        ranks = [pid for pid, command in job.processes_of(process.pid).items() if command.startswith(str(job.TRAIN))]
        by_rank = {int(rank): pid for pid in ranks for rank in [environment_of(pid, "OMPI_COMM_WORLD_RANK")] if rank is not None}
        os.kill(by_rank[victim], signal.SIGKILL)
        process.wait(timeout=60)
        job.check(process.returncode not in (0, 125), f"the exit code is {process.returncode}")

        shown = job.report(run)
        job.check(f"rank {victim}" in shown.stdout, f"the report does not name rank {victim}:\n{shown.stdout}")
        db = job.store(run)
        ended = {r["rank"]: r["ended"] for r in db.execute("select rank, ended from v_rank")}
        job.check(ended.get(victim) == "lost", f"how the ranks ended: {ended}")
        job.check(db.execute("select count(*) from loss where kind = 'killed'").fetchone()[0] >= 1, "no loss row says that a rank was killed")
        for rank in range(2):
            counted = logged_calls(log_of[rank])
            recorded = dict(db.execute("select op, sum(calls) from v_call where rank = ? group by op", (rank,)).fetchall())
            for op, calls in counted.items():
                # The program counts after a call returns, we just before: at most the call in between apart, and never behind.
                job.check(calls <= recorded.get(op, 0), f"rank {rank}, {op}: {recorded.get(op, 0)} recorded, but {calls} had completed")
            events = dict(db.execute("select o.name, count(*) from event e join op o on o.id = e.op join process p on p.id = e.process "
                                     "where e.kind = 1 and p.rank = ? group by o.name", (rank,)).fetchall())
            for op, calls in counted.items():
                job.check(calls <= events.get(op, 0), f"rank {rank}, {op}: {events.get(op, 0)} events, but {calls} calls had completed")
        print(f"kill {attempt}: rank {victim}, logged {logged_calls(log_of[victim])}, recorded "
              f"{dict(db.execute('select op, sum(calls) from v_call where rank = ? group by op', (victim,)).fetchall())}")


def environment_of(pid, name):
    try:
        for entry in open(f"/proc/{pid}/environ", "rb").read().split(b"\0"):
            if entry.startswith(name.encode() + b"="):
                return entry.split(b"=", 1)[1].decode()
    except OSError:
        pass
    return None


job.main(killed_rank)
