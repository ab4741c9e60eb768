#!/usr/bin/env python3
"""Every way to complete a request, fork in mid-run: calls, bytes and completed operations are what the programs did."""
import shutil
from pathlib import Path

import job

PROGRAMS = job.BUILD / "tests" / "programs"

# What programs/requests.c does on each rank: (calls, bytes). Polling calls (Test*) depend on timing.
POSTS = {0: (1, 100), 1: (3, 200), 2: (50, 20), 3: (2, 300), 4: (2, 400), 5: (1, 500), 6: (2, 600), 7: (2, 700), 8: (2, 800)}
MESSAGES = sum(n for n, _ in POSTS.values())
BYTES = sum(n * size for n, size in POSTS.values())
EXPECTED = {
    "MPI_Irecv": (MESSAGES + 2, BYTES),  # and one cancelled, one from MPI_PROC_NULL
    "MPI_Isend": (MESSAGES + 1 + 4, BYTES + 4806),  # and one to MPI_PROC_NULL, and four to be probed for
    "MPI_Wait": (2 + 2 + 1 + 4, 0),
    "MPI_Waitall": (1 + 1 + 3 + 1 + 1, 0),
    "MPI_Waitany": (4, 0),
    "MPI_Recv_init": (1, 4000),
    "MPI_Send_init": (1, 4000),
    "MPI_Startall": (3, 0),
    "MPI_Start": (2, 0),
    "MPI_Request_free": (2, 0),
    "MPI_Cancel": (1, 0),
    "MPI_Recv": (2, 2401),
    "MPI_Mrecv": (2, 2405),
    "MPI_Probe": (1, 0),
    "MPI_Mprobe": (1, 0),
    "MPI_Iallreduce": (1, 4),
    "MPI_Ibarrier": (1, 0),
    "MPI_Comm_idup": (1, 0),
    "MPI_Allreduce": (1, 4),
    "MPI_Comm_free": (1, 0),
    "MPI_Init": (1, 0),
    "MPI_Finalize": (1, 0),
    "MPI_Abort": (0, 0),
}
COMPLETED = {"MPI_Irecv": MESSAGES + 2, "MPI_Isend": MESSAGES + 1 + 4, "MPI_Sendrecv": 2, "MPI_Sendrecv_replace": 1, "MPI_Recv_init": 4, "MPI_Send_init": 4, "MPI_Iallreduce": 1, "MPI_Ibarrier": 1,
             "MPI_Comm_idup": 1}


def one_of_each_name(db):
    """Both halves of an exchange, what a probe found, and a cancelled receive, as (kind, peer, tag, bytes)."""
    for rank in range(2):
        other = 1 - rank
        events = lambda op, kind, tags: [tuple(r) for r in db.execute(
            "select e.peer, e.tag, e.bytes from event e join op o on o.id = e.op join process p on p.id = e.process where p.rank = ? and o.name = ? "
            f"and e.kind = ? and e.tag {tags} order by e.id", (rank, op, kind))]
        for op, sends, receives in (("MPI_Sendrecv", (other, 400 + rank, 1100 + rank), (other, 400 + other, 1100 + other)),
                                    ("MPI_Sendrecv_replace", (other, 410 + rank, 8), (other, 411 - rank, 8))):
            job.check(events(op, 1, ">= 400") == [sends], f"rank {rank}, {op}: sends {events(op, 1, '>= 400')} instead of {sends}")
            job.check(events(op, 2, ">= 400") == [receives], f"rank {rank}, {op}: receives {events(op, 2, '>= 400')} instead of {receives}")
            calls = db.execute("select sum(calls), sum(bytes) from v_call where rank = ? and op = ?", (rank, op)).fetchone()
            job.check(tuple(calls) == (2 - (op != "MPI_Sendrecv"), sends[2]), f"rank {rank}, {op}: {tuple(calls)}: only what was sent counts")
        for way, op in enumerate(("MPI_Probe", "MPI_Iprobe", "MPI_Mprobe", "MPI_Improbe")):
            found = [e[:2] for e in events(op, 1, ">= 0")]
            job.check(found == [(other, 420 + way)], f"rank {rank}: {op} found {found}")
        from_nobody = events("MPI_Irecv", 2, "is not null and e.bytes = 0")  # cancelled, and from MPI_PROC_NULL
        job.check([peer for peer, _, _ in from_nobody] == [None, None], f"rank {rank}: receives of nothing are from {from_nobody}")


def every_completion(folder):
    run = folder / "requests.ddl"
    job.record(run, job.mpirun(2, [PROGRAMS / "requests"]), check_rc=0)
    db = job.store(run)
    for rank in range(2):
        calls = {r["op"]: (r["calls"], r["bytes"]) for r in
                 db.execute("select op, sum(calls) as calls, sum(bytes) as bytes from v_call where rank = ? group by op", (rank,))}
        for op, expected in EXPECTED.items():
            job.check(calls.get(op, (0, 0)) == expected, f"rank {rank}, {op}: {calls.get(op)} instead of {expected} (calls, bytes)")
        done = dict(db.execute("select o.name, count(*) from event e join op o on o.id = e.op join process p on p.id = e.process "
                               "where e.kind = 2 and p.rank = ? group by o.name", (rank,)).fetchall())
        job.check(done == COMPLETED, f"rank {rank}: completed operations {done} instead of {COMPLETED}")
        wildcard = db.execute("select count(*) from event e join op o on o.id = e.op join process p on p.id = e.process where e.kind = 2 and p.rank = ? "
                              "and o.name = 'MPI_Irecv' and e.bytes > 0 and e.peer <> ?", (rank, 1 - rank)).fetchone()[0]
        job.check(wildcard == 0, f"rank {rank}: {wildcard} wildcard receives without their actual source")
    one_of_each_name(db)
    # what the recording itself took to start is not the run's time inside MPI
    early = db.execute("select p.rank, e.start_ns + e.duration_ns - p.init_ns from process p join event e on e.process = p.id join op o on o.id = e.op "
                       "where o.name = 'MPI_Init' and p.init_ns < e.start_ns + e.duration_ns").fetchall()
    job.check(not early, f"the run begins before MPI_Init has ended, on rank, by ns: {[tuple(r) for r in early]}")
    lost = [tuple(r) for r in db.execute("select * from loss where kind = 'requests'")]
    job.check(not lost, f"requests lost: {lost}")
    copies = db.execute("select count(*) from v_collective c where op = 'MPI_Allreduce' and comm <> 'MPI_COMM_WORLD' and wait_ns is not null").fetchone()[0]
    job.check(copies == 2, f"the allreduce on the duplicate: {copies} rows with a wait instead of 2")


def many_at_a_time(folder):
    """More than the table has slots, so that entries share them: each completion finds its own post."""
    run, requests = folder / "many.ddl", 40000
    job.record(run, [PROGRAMS / "many_requests"], check_rc=0, DDL_BUDGET="off")
    db = job.store(run)
    received = db.execute("select e.tag, e.bytes, e.start_ns from event e join op o on o.id = e.op where e.kind = 2 and o.name = 'MPI_Irecv' order by e.start_ns")
    posts = db.execute("select e.tag, e.start_ns from event e join op o on o.id = e.op where e.kind = 1 and o.name = 'MPI_Irecv' order by e.start_ns")
    expected = [(i, i % 8) for i in range(requests)] * 2
    rows = [tuple(r) for r in received]
    job.check([r[:2] for r in rows] == expected, f"{len(rows)} receives completed, not {2 * requests} with the tags and bytes of their messages")
    job.check([(r[0], r[2]) for r in rows] == [tuple(r) for r in posts], "a completion has the start of another post")
    booked = db.execute("select sum(calls), sum(bytes) from v_call where op = 'MPI_Irecv'").fetchone()
    job.check(tuple(booked) == (2 * requests, sum(size for _, size in expected)), f"MPI_Irecv: {tuple(booked)} calls and bytes")
    lost = [tuple(r) for r in db.execute("select * from loss where kind = 'requests'")]
    job.check(not lost, f"requests lost: {lost}")


def fork_in_mid_run(folder):
    run = folder / "fork.ddl"
    job.record(run, [PROGRAMS / "forker"], check_rc=0)
    job.check(len(list(run.glob("*.spool"))) == 1, "a forked child made a spool of its own")
    calls = job.store(run).execute("select sum(calls) from v_call where op = 'MPI_Allreduce'").fetchone()[0]
    job.check(calls == 100, f"{calls} allreduces instead of 100")
    regions = [r[0] for r in job.store(run).execute("select name from region where kind = 'layer'")]
    job.check(regions == [], f"the children's ranges are in the parent's record: {regions}")


def mpi_in_the_child(folder):
    run = folder / "child.ddl"
    job.record(run, [PROGRAMS / "fork_then_init"], check_rc=0)
    layers = job.store(run).execute("select rank, layer, sum(calls) from v_layer group by rank, layer order by layer").fetchall()
    job.check([tuple(r) for r in layers] == [(0, "child", 1), (None, "parent", 2)], f"rank, layer, calls: {[tuple(r) for r in layers]}")
    barriers = job.store(run).execute("select sum(calls) from v_call where op = 'MPI_Barrier'").fetchone()[0]
    job.check(barriers == 1, f"{barriers} barriers instead of 1")


def annotations_alone(folder):
    """No MPI, a fixed load address, a hostile layer name."""
    run = folder / "annotated.ddl"
    job.record(run, [PROGRAMS / "fixed_address"], check_rc=0)
    db = job.store(run)
    job.check(db.execute("select count(*) from v_step where duration_ns > 1000000").fetchone()[0] == 7, "not 7 steps of more than 1 ms")
    layer = db.execute("select layer, phase, calls from v_layer").fetchall()
    job.check([tuple(r) for r in layer] == [("<script>alert(1)</script>\ufffd[31m", "forward", 7)], f"layers: {[tuple(r) for r in layer]}")
    job.check(db.execute("select sum(value) from value where name = 'samples'").fetchone()[0] == 7 * 32, "the values are not there")
    job.check(db.execute("select sum(count) from loss where kind = 'unbalanced_ranges'").fetchone()[0] == 1, "the end without a begin was not counted")
    job.check("\033" not in job.report(run, check_rc=None).stdout, "an escape sequence reaches the terminal")


def exchanges_of_mpich(folder):
    """MPICH 4.0 leaves the status of MPI_Isendrecv as it was: whom it received from is what the call said."""
    compiler, library = shutil.which("mpicc.mpich"), job.LIBRARY.with_name("libddl-mpich.so")
    if not compiler or not library.exists():
        print("no MPICH: not tested")
        return
    program, run = folder / "exchanges", folder / "exchanges.ddl"
    job.run([compiler, "-O1", "-o", program, Path(__file__).parent / "programs" / "exchanges.c"], check_rc=0)
    job.record(run, ["mpirun.mpich", "-np", 2, program], check_rc=0)
    db = job.store(run)
    for rank in range(2):
        halves = [tuple(r) for r in db.execute(
            "select o.name, e.kind, e.peer, e.tag from event e join op o on o.id = e.op join process p on p.id = e.process "
            "where p.rank = ? and o.name like 'MPI_Isendrecv%' order by e.start_ns, e.kind", (rank,))]
        expected = [(op, kind, 1 - rank, tag + (rank if kind == 1 else 1 - rank))
                    for op, tag in (("MPI_Isendrecv", 500), ("MPI_Isendrecv_replace", 510)) for kind in (1, 2)]
        job.check(halves == expected, f"rank {rank} exchanged {halves}")
    matched = db.execute("select count(*) from message where send is not null and receive is not null").fetchone()[0]
    job.check(matched == 4, f"{matched} of 4 messages have both ends")


def sessions_of_mpich(folder):
    """Communicators have the members that they have, also once the session that the library came to know the world by has ended."""
    compiler, library = shutil.which("mpicc.mpich"), job.LIBRARY.with_name("libddl-mpich.so")
    program, run = folder / "two_sessions", folder / "two_sessions.ddl"
    if not compiler or not library.exists() or job.run([compiler, "-o", program, Path(__file__).parent / "programs" / "two_sessions.c"]).returncode != 0:
        print("no MPICH with sessions: not tested")
        return
    job.record(run, ["mpirun.mpich", "-np", 3, program], check_rc=0)
    db = job.store(run)
    groups = {}
    for row in db.execute("select c.id, m.rank from communicator c join communicator_member m on m.communicator = c.id"):
        groups.setdefault(row[0], []).append(row[1])
    job.check(sorted(sorted(ranks) for ranks in groups.values()) == [[0], [0, 1, 2], [1], [2]], f"communicators of {groups}")
    instances = [tuple(r) for r in db.execute("select seq, count(*) from v_collective where op = 'MPI_Allreduce' and comm in "
                                              "(select label from communicator where size = 3) group by seq")]
    job.check(instances == [(1, 3), (2, 3), (3, 3)], f"collectives of everybody: {instances}")


def without_memory(folder):
    """Lists of 80 requests complete although nothing can be mapped for them: they are counted as not followed, and nothing else changes."""
    run = folder / "no_memory.ddl"
    words = job.record(run, ["mpirun", "-np", 1, PROGRAMS / "no_memory"], check_rc=0).stdout
    job.check(f"received {3 * sum(range(40))}" in words, words)
    lost = job.store(run).execute("select sum(count) from loss where kind = 'requests'").fetchone()[0]
    job.check((lost or 0) >= 2 * 80, f"{lost} requests lost")


job.main(every_completion, many_at_a_time, without_memory, fork_in_mid_run, mpi_in_the_child, annotations_alone, exchanges_of_mpich, sessions_of_mpich)
