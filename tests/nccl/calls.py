#!/usr/bin/env python3
"""The wrappers of NCCL: calls, bytes and communicators are what the program made, its output is the same, also without MPI and without blocking."""
import job
import nccl_job

F = 4  # bytes of a float
RANKS = 3


def expected_calls(rank, size):
    """op -> (calls, bytes sent) of nccl_calls.c."""
    root = rank == 0
    small = rank != size - 1
    return {
        "ncclAllReduce": (3 + 1 + 2 + small, F * (3 * 3000 + 10 + 20 + 30 * small)),  # one was refused
        "ncclReduceScatter": (3, 3 * F * 100 * size),
        "ncclAllGather": (3, 3 * F * 200),
        "ncclBroadcast": (3, 3 * F * 300 * (rank == size - 1)),
        "ncclReduce": (1, F * 3000),
        "ncclBcast": (1, F * 50 * root),
        "ncclAlltoAll": (1, F * 10 * size),
        "ncclGather": (1, F * 10),
        "ncclScatter": (1, F * 10 * size * root),
        "ncclSend": (1, F * 7),
        "ncclRecv": (1, F * 7),
        "ncclGroupStart": (4, 0),
        "ncclGroupEnd": (4, 0),
        "ncclCommInitRankConfig": (1, 0),
        "ncclCommSplit": (2, 0),
        "ncclCommShrink": (int(small), 0),
        "ncclCommFinalize": (1, 0),
        "ncclCommDestroy": (3, 0),
        "ncclCommAbort": (int(small), 0),
        "ncclCommRegister": (1, 0),
        "ncclCommDeregister": (1, 0),
        "ncclMemAlloc": (1, 0),
        "ncclMemFree": (1, 0),
    }


def check_calls(db, size, what):
    for rank in range(size):
        calls = {r["op"]: (r["n"], r["b"]) for r in db.execute(
            "SELECT op, sum(calls) n, sum(bytes) b FROM v_call WHERE rank = ? AND op LIKE 'nccl%' GROUP BY op", (rank,))}
        want = {op: v for op, v in expected_calls(rank, size).items() if v[0]}
        job.check(calls == want, f"{what}: rank {rank} made\n  {sorted(set(calls.items()) - set(want.items()))}, expected\n  {sorted(set(want.items()) - set(calls.items()))}")


def check_communicators(db, size, what):
    groups = {}
    for row in db.execute("SELECT c.id, c.size, o.name op, p.label parent, m.comm_rank, m.rank FROM communicator c JOIN op o ON o.id = c.op LEFT JOIN communicator p ON p.id = c.parent"
                          " JOIN communicator_member m ON m.communicator = c.id WHERE c.kind = 'nccl' ORDER BY c.id, comm_rank"):
        groups.setdefault((row["id"], row["op"], row["size"], row["parent"]), []).append(row["rank"])
    told = sorted((op, n, parent, members) for (_, op, n, parent), members in groups.items())
    top = "ncclCommInitRankConfig#1"
    everybody = list(range(size))
    # Split by rank % 2 with keys -rank: backwards.
    want = sorted([("ncclCommInitRankConfig", size, None, everybody), ("ncclCommSplit", size, top, everybody),
                   ("ncclCommSplit", len(everybody[::2]), top, everybody[::2][::-1]), ("ncclCommSplit", len(everybody[1::2]), top, everybody[1::2][::-1]),
                   ("ncclCommShrink", size - 1, top, everybody[:-1])], key=str)
    job.check(sorted(told, key=str) == want, f"{what}: communicators\n  {told}, expected\n  {want}")


def check_regions(db, what):
    rows = {(r["layer"], r["name"], r["n"]) for r in db.execute(
        "SELECT r.layer, o.name, count(*) n FROM event e JOIN op o ON o.id = e.op JOIN region r ON r.id = e.region JOIN process p ON p.id = e.process"
        " WHERE e.kind = 3 AND p.rank = 1 AND r.layer IS NOT NULL AND o.name NOT LIKE 'ncclGroup%' GROUP BY 1, 2")}
    want = {("dense", "ncclAllReduce", 3), ("embedding", "ncclReduceScatter", 3), ("embedding", "ncclAllGather", 3), ("embedding", "ncclBroadcast", 3)}
    job.check(rows == want, f"{what}: layers {rows}")
    types = {tuple(r) for r in db.execute("SELECT DISTINCT d.name, q.name FROM event e JOIN op o ON o.id = e.op JOIN datatype d ON d.id = e.datatype"
                                          " LEFT JOIN reduction q ON q.id = e.reduction WHERE o.name IN ('ncclAllReduce', 'ncclReduce')")}
    job.check(types == {("ncclFloat32", "ncclSum"), ("ncclFloat32", "ncclMax"), ("ncclFloat32", "ncclAvg")}, f"{what}: types {types}")


def as_pytorch(folder):
    bare = nccl_job.torchrun("nccl_calls", folder, RANKS)
    for arguments in ((), ("nonblocking",)):
        run_dir = folder / f"torch{''.join(arguments)}.ddl"
        recorded = nccl_job.torchrun("nccl_calls", folder, RANKS, run_dir, arguments)
        job.check(recorded == bare, f"output {recorded} instead of {bare}")
        db = job.store(run_dir)
        what = f"nccl_calls {' '.join(arguments)}"
        check_calls(db, RANKS, what)
        check_communicators(db, RANKS, what)
        check_regions(db, what)
        facts = {r[0] for r in db.execute("SELECT value FROM process_fact WHERE key = 'nccl'")}
        job.check(facts == {f"2.28.9 from {nccl_job.MOCKS / 'libnccl.so.2'}"}, f"{what}: {facts}")
        missing = [tuple(r) for r in db.execute("SELECT kind, count, note FROM loss WHERE kind NOT IN ('gpu_tracing')")]
        job.check(not missing, f"{what}: missing {missing}")


def under_mpi(folder):
    run_dir = folder / "mpi.ddl"
    done = job.run([job.DDL, "record", "-o", run_dir, "--", "mpirun", "-np", 2, nccl_job.PROGRAMS / "nccl_calls_mpi"], check_rc=0, **nccl_job.environment())
    job.check(sorted(done.stdout.split("\n")) == ["", "rank 0 done", "rank 1 done"], done.stdout)
    db = job.store(run_dir)
    check_calls(db, 2, "under mpirun")
    check_communicators(db, 2, "under mpirun")
    # What NCCL's calls take on the host is not time inside MPI.
    times = db.execute("SELECT sum(mpi_ns) FROM range_event g JOIN region r ON r.id = g.region WHERE r.layer IS NOT NULL").fetchone()[0]
    job.check(times == 0, f"layers without an MPI call have {times} ns inside MPI")


def unwanted(folder):
    """--collectors without nccl, and a job whose NCCL is opened in a way that nobody can intercept: nothing is recorded, nothing changes."""
    outputs = nccl_job.torchrun("nccl_calls", folder, 2, folder / "off.ddl", DDL_COLLECTORS="mpi")
    job.check(outputs == ["rank 0 done\n", "rank 1 done\n"], f"{outputs}")
    db = job.store(folder / "off.ddl")  # for the annotations
    job.check(db.execute("SELECT count(*) FROM event").fetchone()[0] == 0, "events of NCCL without its collector")
    outputs = nccl_job.torchrun("nccl_calls_dlopen", folder, 2, folder / "dlopen.ddl", NCCL_PROFILER_PLUGIN="none")
    hint = "ddl: NCCL_PROFILER_PLUGIN is set to none: ddl records less of nccl; unset it to record all\n"
    job.check(outputs == ["rank 0 done\n" + hint, "rank 1 done\n"], f"{outputs}")


if __name__ == "__main__":
    job.main(as_pytorch, under_mpi, unwanted)
