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
        process = job.start([job.DDL, "record", "-o", run, "--", "mpirun", "-np", "2", job.TRAIN, "--steps", "100000", "--print-every", "1000", "--width", "64",
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
        job.check("Missing data" in shown.stdout and "killed" in shown.stdout, f"the report does not say what is missing:\n{shown.stdout}")
        db = job.store(run)
        ended = {r["rank"]: r["ended"] for r in db.execute("select rank, ended from v_rank")}
        job.check(ended.get(victim) == "lost", f"how the ranks ended: {ended}")
        # mpirun ends the other rank as well, so both may be "lost"; the one that was killed must be.
        job.check(db.execute("select count(*) from loss where kind = 'killed' and rank = ?", (victim,)).fetchone()[0] == 1,
                  f"no loss row says that rank {victim} was killed")
        intercepted = {r["name"] for r in db.execute("select name from op")}  # MPI_Comm_rank and the like are local and not recorded
        for rank in range(2):
            counted = {op: calls for op, calls in logged_calls(log_of[rank]).items() if op in intercepted}
            job.check({"MPI_Iallreduce", "MPI_Wait"} <= set(counted), f"rank {rank}: the program's own log has only {sorted(counted)}")
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
