#!/usr/bin/env python3
"""A job over two hosts with no shared run directory, of which one is lost in mid-run, with all its processes at once: every call that had completed on
either is in the report once the lost host's spools have been fetched, and before that what is there tells what it can.

$DDL_TEST_RANKS ranks in all (8)."""
import os
import shutil
import signal
import threading
import time
from pathlib import Path

import job
import virtual_hosts
from virtual_hosts import Hosts

virtual_hosts.enter()

RANKS = int(os.environ.get("DDL_TEST_RANKS", "8"))
LOST = range(RANKS // 2, RANKS)  # those of nodeb
RUN = "/run/local/lost.ddl"


def processes_of(host):
    """All that share its network."""
    network = os.stat(f"/run/netns/{host}").st_ino
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and os.stat(entry / "ns" / "net").st_ino == network:
                found.append(int(entry.name))
        except OSError:
            pass  # it has ended
    return found


def logged_calls(path):
    return {op: int(calls) for op, calls in (line.split() for line in path.read_text(errors="replace").splitlines() if len(line.split()) == 2)}


def lose(host):
    """As if its power failed: stopped first, so that none outlives another by as much as one call."""
    pids = processes_of(host)
    for how in (signal.SIGSTOP, signal.SIGKILL):
        for pid in pids:
            try:
                os.kill(pid, how)
            except ProcessLookupError:
                pass
    return pids


def complete_in(db, log_of, ranks):
    """Every call that the program had counted is in the profile, and as an event; every step in which it had made all of its calls is there, whole."""
    intercepted = {r["name"] for r in db.execute("select name from op")}
    calls_of, events_of = {}, {}
    for rank, op, calls in db.execute("select rank, op, sum(calls) from v_call group by rank, op"):
        calls_of[rank, op] = calls
    for rank, op, events in db.execute("select p.rank, o.name, count(*) from event e join op o on o.id = e.op join process p on p.id = e.process"
                                       " where e.kind = 1 group by p.rank, o.name"):
        events_of[rank, op] = events
    reductions = "from event e join op o on o.id = e.op join process p on p.id = e.process where e.kind = 1 and o.name = 'MPI_Iallreduce'"
    per_step = db.execute(f"select max(calls) from (select count(*) as calls {reductions} and e.step is not null group by p.rank, e.step)").fetchone()[0]
    steps_of = dict(db.execute("select p.rank, count(*) from step s join process p on p.id = s.process where s.duration_ns is not null group by p.rank").fetchall())
    completed = recorded = steps = 0
    for rank in ranks:
        counted = {op: calls for op, calls in logged_calls(log_of[rank]).items() if op in intercepted}
        job.check({"MPI_Iallreduce", "MPI_Wait"} <= set(counted), f"rank {rank}: the program's own log has only {sorted(counted)}")
        for op, calls in counted.items():
            completed += calls
            recorded += calls_of.get((rank, op), 0)
            job.check(calls <= calls_of.get((rank, op), 0), f"rank {rank}, {op}: {calls_of.get((rank, op), 0)} recorded, but {calls} had completed")
            job.check(calls <= events_of.get((rank, op), 0), f"rank {rank}, {op}: {events_of.get((rank, op), 0)} events, but {calls} had completed")
        ended = counted["MPI_Iallreduce"] // per_step - 1  # of the last one it is not known
        steps += steps_of.get(rank, 0)
        job.check(ended > 10 and ended <= steps_of.get(rank, 0), f"rank {rank}: {steps_of.get(rank, 0)} steps, but {ended} had ended")
    return completed, recorded, steps


def lost_node(folder):
    hosts = Hosts(folder)
    log = folder / "calls"
    log_of = [folder / f"calls.{rank}" for rank in range(RANKS)]
    done = []
    command = [job.DDL, "record", "-o", RUN, "--", "mpirun", "-np", RANKS, "--host", f"nodea:{RANKS // 2},nodeb:{RANKS // 2}", job.TRAIN, "--steps", 100000,
               "--print-every", 0, "--width", 16, "--batch", 2, "--log-calls", log]
    recording = threading.Thread(target=lambda: done.append(hosts.run("nodea", command, timeout=900, **job.QUICK)), daemon=True)
    begin = time.monotonic()
    recording.start()
    started = job.wait_until(lambda: all(p.exists() and logged_calls(p).get("MPI_Iallreduce", 0) > 20 for p in log_of), seconds=600)
    if not job.check(started, "the job did not get going"):
        return
    running = time.monotonic()
    lost = lose("nodeb")
    recording.join(600)
    if not job.check(done, "ddl record did not come back after the host was lost"):
        return
    print(f"{RANKS} ranks: {running - begin:.0f} s until all had 20 all-reduces, {time.monotonic() - running:.1f} s until ddl record came back; "
          f"{len(lost)} processes lost")
    job.check(done[0].returncode not in (0, 125), f"the exit code is {done[0].returncode}")
    job.check(f"recorded {RANKS // 2} of {RANKS} ranks" in done[0].stderr, f"ddl record says: {done[0].stderr}")

    before, after = (Path(f"/run/hosts/{name}/local/lost.ddl") for name in virtual_hosts.NAMES)
    text = hosts.run("nodea", [job.DDL, "report", RUN], check_rc=0, timeout=600).stdout
    job.check(f"of {RANKS} ranks left no spool" in text, f"report without the lost host: {text}")
    with_half = complete_in(job.store(before), log_of, range(RANKS // 2))
    spools = list(after.glob("*.spool"))
    job.check(len(spools) == len(LOST), f"the lost host holds {len(spools)} spools of {len(LOST)} ranks")
    for spool in spools:
        shutil.copy2(spool, before)
    text = hosts.run("nodea", [job.DDL, "report", RUN], check_rc=0, timeout=600).stdout
    db = job.store(before)
    completed, recorded, steps = complete_in(db, log_of, range(RANKS))
    ended = {r["rank"]: r["ended"] for r in db.execute("select rank, ended from v_rank")}
    job.check(set(ended) == set(range(RANKS)) and all(ended[rank] == "lost" for rank in LOST), f"how the ranks ended: {ended}")
    findings = [tuple(r) for r in db.execute("select id, rank, confidence, sentence from finding order by position")]
    job.check(bool(findings) and findings[0][0] == "killed_rank", f"findings: {findings}")
    print(f"before the lost host's spools were fetched {with_half[0]} calls of the other's {RANKS // 2} ranks had completed, {with_half[1]} are recorded; "
          f"after: {completed}, {recorded}; {steps} steps of ranks")
    print("\n".join(text.splitlines()[:12]))


job.main(lost_node)
