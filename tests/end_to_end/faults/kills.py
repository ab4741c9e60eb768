#!/usr/bin/env python3
"""SIGKILL at random moments of a job that communicates as fast as it can: nothing that returned before is missing from the spools.

Label soak: DDL_TEST_KILLS=1000. A rank, both ranks or mpirun is killed 5 to 200 ms after the ranks got going, and who lives on when mpirun has ended right after
it, but in every tenth run: there Open MPI ends them, a second or two later. The spools are read directly, and those of every tenth run, which is killed within 20 ms,
also with `ddl report`. In half of the runs all events are kept (DDL_BUDGET=off) and counted too."""
import os
import random
import signal
import time
from pathlib import Path

import fault
import job

KILLS = int(os.environ.get("DDL_TEST_KILLS", "20"))
PROGRAM = fault.PROGRAMS / "until_killed"
SPOOL_CALLS = fault.PROGRAMS / "spool_calls"


def counters(path):
    """The log, "#pid" apart; nothing while it is being made."""
    try:
        log = fault.read_log(path)
    except FileNotFoundError:
        return None, {}
    return log.pop("#pid", (None, 0))[0], log


def going(logs):
    return all(counters(p)[1].get("MPI_Waitall", (0, 0))[0] > 0 for p in logs)


def is_reported(attempt):
    return attempt % 10 == 0


def lives(pid):
    """Whoever inherits a rank from mpirun may leave it a zombie for seconds."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def kill_all(pids):
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


def kill_one(folder, attempt, rng):
    run, logs = folder / f"{attempt}.ddl", [folder / f"{attempt}.log.{rank}" for rank in range(2)]
    budget = {"DDL_BUDGET": "off"} if attempt % 2 == 0 else {}
    process = job.start(job.mpirun(2, [PROGRAM]), LD_PRELOAD=job.LIBRARY, DDL_OUT=run, CALL_LOG=folder / f"{attempt}.log", **budget, **job.QUICK)
    try:
        if not job.check(job.wait_until(lambda: going(logs), 60), f"kill {attempt}: the job did not get going"):
            return 0
        time.sleep(rng.uniform(0.005, 0.02 if is_reported(attempt) else 0.2))
        pids = [counters(p)[0] for p in logs]
        for pid in rng.choice([pids[:1], pids[1:], pids, pids[::-1], [process.pid]]):
            os.kill(pid, signal.SIGKILL)
        process.communicate(timeout=60)
        if attempt % 10 != 5:
            kill_all(pids)
        job.check(job.wait_until(lambda: not any(map(lives, pids)), 30), f"kill {attempt}: ranks {pids} live on")
    finally:
        job.stop_group(process)
    returned = 0
    spools = {int(p.name.split(".")[-3]): p for p in run.glob("*.spool")}
    for rank, log_path in enumerate(logs):
        pid, log = counters(log_path)
        if not job.check(pid in spools, f"kill {attempt}: rank {rank} left no spool"):
            continue
        read = job.run([SPOOL_CALLS, spools[pid]])
        job.check(read.returncode == 0, f"kill {attempt}, rank {rank}: {read.stdout[-500:]}{read.stderr}")
        seen = {op: tuple(map(int, numbers)) for op, *numbers in (line.split() for line in read.stdout.splitlines() if line != "gap")}
        for op, (calls, size) in log.items():
            recorded, recorded_bytes, events = seen.get(op, (0, 0, 0))
            # The program counts after a call returns, the recorder just before: at most the call in between apart, and never behind.
            job.check(calls <= recorded <= calls + 1, f"kill {attempt}, rank {rank}, {op}: {recorded} recorded, {calls} had returned")
            job.check(size <= recorded_bytes, f"kill {attempt}, rank {rank}, {op}: {recorded_bytes} bytes recorded, {size} were sent")
            job.check(calls <= events <= calls + 1 or not budget, f"kill {attempt}, rank {rank}, {op}: {events} events, {calls} had returned")
            returned += calls
    if is_reported(attempt):
        fault.reported(f"kill {attempt}", run, "without MPI_Finalize")
        by_rank = fault.recorded(job.reported_store(run))[0]
        for rank, log_path in enumerate(logs):
            calls = by_rank.get(rank, {})
            for op, (count, _) in counters(log_path)[1].items():
                job.check(count <= calls.get(op, (0, 0))[0], f"kill {attempt}, rank {rank}, {op}: {calls.get(op)} in the store, {count} had returned")
    fault.remove(run)
    return returned


def random_kills(folder):
    rng = random.Random(20261121)
    returned = sum(kill_one(folder, attempt, rng) for attempt in range(KILLS))
    print(f"{KILLS} kills, {returned} calls had returned before, {len(job.failures)} of them missing or wrong")


job.main(random_kills)
